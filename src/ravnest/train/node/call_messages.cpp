#include "ravnest/train/node/call_messages.h"

#include <nlohmann/json.hpp>

#include "ravnest/base/json.h"
#include "ravnest/base/json_field.h"
#include "ravnest/base/printable.h"
#include "ravnest/base/text.h"

namespace ravnest::train {
namespace {

using nlohmann::json;

template <class Read>
auto decoded(std::string_view written, const char* what, const Read& read) -> Result<decltype(read(Field({}, "")))> {
  auto parsed = parse_json(written, what);
  if (!parsed.ok()) return parsed.status();
  try {
    return read(Field(*parsed, what));
  } catch (const DecodeError& error) {
    return error.status;
  }
}

std::string one_line(std::string_view reason) { return printable(printable_reason(reason)); }

}  // namespace

std::string encode(const Word& word) { return json{{"call", word.call}, {"settings", word.settings}}.dump(); }

Result<Word> decode_word(std::string_view written) {
  return decoded(written, "what a node is ready for", [](const Field& field) {
    Word word{field["call"].string(), {}};
    field["settings"].for_each_member(
        [&](const std::string& name, const Field& value) { word.settings[name] = value.string(); });
    return word;
  });
}

Status check_alike(const std::vector<Word>& words, const std::vector<std::string>& nodes) {
  const Word& own = words.front();
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i].call != own.call) {
      return invalid(nodes.front(), " runs ", own.call, "() while ", nodes[i], " runs ", words[i].call,
                     "(): start the same script on every node");
    }
    for (const auto& [name, value] : own.settings) {
      const auto theirs = words[i].settings.find(name);
      const std::string other = theirs == words[i].settings.end() ? "not there" : theirs->second;
      if (other != value) {
        return invalid(name, " is ", value, " on ", nodes.front(), " and ", other, " on ", nodes[i],
                       ": start the same script on every node");
      }
    }
  }
  return {};
}

std::string encode(const Task& task) {
  return json{{"save", task.save}, {"run", task.run}, {"epochs", task.epochs}}.dump();
}

Result<Task> decode_task(std::string_view written) {
  return decoded(written, "the root's task", [](const Field& field) {
    return Task{field["save"].boolean(), field["run"].string(), static_cast<std::uint64_t>(field["epochs"].integer())};
  });
}

std::string encode(const Account& account) {
  return json{{"summary", report::encode(account.summary)}, {"unsaved", one_line(account.unsaved)}}.dump();
}

Result<Account> decode_account(std::string_view written) {
  return decoded(written, "a node's account", [](const Field& field) {
    auto summary = report::decode_node_summary(field["summary"].string(), "a node's account");
    if (!summary.ok()) throw DecodeError{summary.status()};
    return Account{std::move(*summary), one_line(field["unsaved"].string())};
  });
}

std::string sentence_of_unsaved(const std::vector<Account>& accounts, const std::vector<std::string>& nodes) {
  std::vector<std::string> failed;
  std::vector<std::string> saved;
  for (std::size_t stage = 0; stage < accounts.size(); ++stage) {
    if (accounts[stage].unsaved.empty()) {
      saved.push_back(nodes[stage]);
    } else {
      failed.push_back(text(nodes[stage], " (stage ", stage, ") failed: ", accounts[stage].unsaved));
    }
  }
  if (failed.empty()) return {};
  return text(join(failed, "; "), saved.empty() ? "" : text("; saved are the stages of ", join(saved)));
}

std::string encode(const Closing& closing) {
  json written{{"more", closing.more}, {"accuracy", nullptr}, {"unsaved", closing.unsaved}};
  if (closing.accuracy) written["accuracy"] = number_to_json(*closing.accuracy);
  return written.dump();
}

Result<Closing> decode_closing(std::string_view written) {
  return decoded(written, "the root's closing words", [](const Field& field) {
    Closing closing{std::nullopt, field["more"].boolean(), one_line(field["unsaved"].string())};
    if (const auto accuracy = field.optional("accuracy")) closing.accuracy = accuracy->number();
    return closing;
  });
}

}  // namespace ravnest::train
