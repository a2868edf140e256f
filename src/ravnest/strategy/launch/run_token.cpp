#include "ravnest/strategy/launch/run_token.h"

#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <set>

#include "ravnest/base/file.h"
#include "ravnest/identity/openssl.h"

namespace ravnest::strategy {
namespace {

// 32 of them, without those that look like others: 0, 1, l, o.
constexpr std::string_view kLetters = "abcdefghijkmnpqrstuvwxyz23456789";
constexpr std::size_t kBitsPerLetter = 5;
constexpr std::size_t kTokenBits = 256;
constexpr std::size_t kLeastBits = 128;
// Fewer different characters than that among enough of them do not come about by chance.
constexpr std::size_t kLeastDifferent = 8;
constexpr std::string_view kWhiteSpace = " \t\r\n";
constexpr const char* kAdvice = "; make one with `ravnest token`, and give all ranks the same one";

bool is_hexadecimal(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

bool may_be_in_a_token(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("-_.+/=").find(c) != std::string_view::npos;
}

}  // namespace

Result<RunToken> RunToken::create() {
  std::array<unsigned char, (kTokenBits + kBitsPerLetter - 1) / kBitsPerLetter> random{};
  if (RAND_priv_bytes(random.data(), static_cast<int>(random.size())) != 1)
    return identity::openssl_failure(Code::kInternal, "make a token");
  std::string letters;
  for (const unsigned char byte : random) letters += kLetters[byte % kLetters.size()];
  return RunToken(std::move(letters));
}

Result<RunToken> RunToken::parse(std::string_view written, std::string_view source) {
  const std::size_t begin = std::min(written.find_first_not_of(kWhiteSpace), written.size());
  const std::size_t end = written.find_last_not_of(kWhiteSpace) + 1;
  const std::string_view token = written.substr(begin, end > begin ? end - begin : 0);
  if (token.empty()) return invalid("the token of ", source, " is empty", kAdvice);
  if (!std::ranges::all_of(token, may_be_in_a_token))
    return invalid("the token of ", source, " has characters that no token has", kAdvice);
  const std::size_t bits = token.size() * (std::ranges::all_of(token, is_hexadecimal) ? 4 : kBitsPerLetter);
  if (bits < kLeastBits)
    return invalid("the token of ", source, " is too short: it has at most ", bits, " bits, and needs ", kLeastBits,
                   kAdvice);
  if (std::set<char>(token.begin(), token.end()).size() < kLeastDifferent)
    return invalid("the token of ", source, " repeats a few characters: it can be guessed", kAdvice);
  return RunToken(std::string(token));
}

Result<RunToken> RunToken::read(const std::filesystem::path& file) {
  const auto content = read_file(file);
  if (!content.ok()) return content.status().with_context("the token cannot be read");
  return parse(*content, file.string());
}

}  // namespace ravnest::strategy
