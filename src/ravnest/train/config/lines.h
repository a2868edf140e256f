// Where the keys of a settings file's table stand, for complaints that come after it was read: when what it names is
// made, or when the data are looked at.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "ravnest/base/status.h"
#include "ravnest/train/config/complaints.h"

namespace ravnest::train {

struct Lines {
  std::string file;
  std::string table;  // "optimizer"
  int line = 0;       // of the table itself; 0 where there is no file
  std::map<std::string, int, std::less<>> keys;

  // What is wrong with the settings (kInvalid), a complaint per line, each with the file and the line before it: that
  // of the key whose name stands first in it, else that of the table. All else as it is.
  Status at(const Status& failure) const;
  // The same among other complaints, unless there is one of this table already: what follows from that would be named
  // as well.
  void add_to(Complaints& complaints, const Status& failure) const;

 private:
  int of(std::string_view complaint) const;
};

}  // namespace ravnest::train
