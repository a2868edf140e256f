// planner_against_brute_force: one drawn model and pool per seed, planned and held against the best plan there is;
// seeds.h has the arguments.
#include <algorithm>

#include "ravnest/base/text.h"
#include "ravnest/plan/testing/drawn_pool.h"
#include "seeds.h"

int main(int count, char** arguments) {
  const ravnest::plan::DrawnSizes sizes{.least = 2, .most = 7, .most_unlike = 7};
  int planned = 0;
  int refused = 0;
  int with_spares = 0;
  int for_windows = 0;  // below the wanted share, but for what the windows promise
  double worst = 1;
  const auto compare = [&](std::uint64_t seed, const ravnest::Tell& tell) {
    const ravnest::plan::DrawnPool drawn = ravnest::plan::drawn_pool(seed, sizes);
    const ravnest::plan::Comparison made = ravnest::plan::compared_with_brute_force(drawn);
    ++(made.possible() ? planned : refused);
    if (made.spares > 0) ++with_spares;
    if (made.possible()) worst = std::min(worst, made.share());
    if (made.possible() && made.searched_share() < ravnest::plan::kWantedShare) ++for_windows;
    if (tell)
      tell(ravnest::text(drawn.kind, ": best ", made.best.searched, " samples/s, planned ", made.planned.searched,
                         "; with wider windows ", made.best.promised, " and ", made.planned.promised));
    return made.violation;
  };
  return ravnest::run_seeds("planner_against_brute_force", count, arguments, compare, [&] {
    return ravnest::text(planned, " pools planned, ", with_spares, " with spares, the worst at ", worst,
                         " of the best, ", for_windows, " for what wider windows promise, ", refused,
                         " rightly refused");
  });
}
