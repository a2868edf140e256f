// `ravnest ls`: what is in object storage.
#include <iostream>
#include <memory>

#include "progress.h"
#include "ravnest/base/printable.h"
#include "ravnest/base/words/table.h"
#include "ravnest/base/words/units.h"
#include "store_options.h"

namespace ravnest::cli {
namespace {

struct ListFlags {
  std::string url;
  bool recursive = false;
  StoreFlags store;
};

// As it stands below the folder that was asked for.
std::string below(const std::string& key, const std::string& prefix) {
  const std::size_t folder = prefix.find_last_of('/');
  return printable(std::string_view(key).substr(folder == std::string::npos ? 0 : folder + 1));
}

void run_ls(const ListFlags& flags) {
  const object_store::ObjectName name = require(object_store::parse_s3_url(flags.url));
  const auto store = open_store(flags.store);
  const Interruptible line("listing " + shown(name));
  Table table({"size", "changed", "name"});
  std::size_t objects = 0;
  std::size_t folders = 0;
  std::uint64_t bytes = 0;
  const Status listed = store->list(
      name, flags.recursive,
      [&](const object_store::ListPage& page) {
        for (const std::string& folder : page.folders) table.add({"", "", below(folder, name.key)});
        for (const object_store::ListedObject& object : page.objects) {
          table.add({quantity(static_cast<double>(object.size), "B"), printable(object.modified),
                     below(object.key, name.key)});
          bytes += object.size;
        }
        objects += page.objects.size();
        folders += page.folders.size();
        return Interruptible::may_go_on();
      },
      [] { return Interruptible::may_go_on(); });
  line.finish(listed.ok());
  require(listed);
  if (objects + folders == 0) {
    if (!name.key.empty()) require(not_found("there is nothing that begins with ", shown(name)));
    std::cout << "there is nothing in " << shown(name) << std::endl;
    return;
  }
  std::cout << table.text() << objects << (objects == 1 ? " object, " : " objects, ")
            << quantity(static_cast<double>(bytes), "B") << std::endl;
}

}  // namespace

void add_ls(CLI::App& app) {
  CLI::App* command = app.add_subcommand("ls", "List what is in object storage (S3)");
  const auto flags = std::make_shared<ListFlags>();
  command->add_option("url", flags->url, "s3://BUCKET, or s3://BUCKET/BEGINNING of keys")->required();
  command->add_flag("-r,--recursive", flags->recursive, "All below, too, and not only the folders' names");
  add_store_flags(*command, flags->store);
  command->footer(
      "Keys, region and endpoint come from where AWS's own tools have them (docs/object_storage.md).\n"
      "\n"
      "Examples:\n"
      "  ravnest ls s3://lab\n"
      "  ravnest ls s3://lab/run_7/\n"
      "  ravnest ls -r s3://lab/run_7/");
  command->callback([flags] { run_ls(*flags); });
}

}  // namespace ravnest::cli
