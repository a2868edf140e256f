#include <atomic>
#include <future>
#include <map>

#include "bindings.h"
#include "ravnest/object_store/cache.h"

namespace py = pybind11;

namespace ravnest::python {
namespace {

// On a thread of its own, so that this one can look for Ctrl-C, whatever the network does.
std::string fetched(const std::string& url, const object_store::Environment& environment) {
  std::atomic<bool> wanted = true;
  const auto fetch = [&]() -> Result<std::filesystem::path> {
    const auto name = object_store::parse_s3_url(url);
    if (!name.ok()) return name.status();
    const auto cache = object_store::cache_folder(environment);
    if (!cache.ok()) return cache;
    const auto store = object_store::ObjectStore::open(environment);
    if (!store.ok()) return store.status();
    return object_store::cached_file(**store, *name, *cache,
                                     [&](std::uint64_t, std::uint64_t) { return wanted.load(); });
  };
  bool interrupted = false;
  auto running = std::async(std::launch::async, fetch);
  for (;;) {
    {
      const py::gil_scoped_release release;
      if (running.wait_for(std::chrono::milliseconds(50)) == std::future_status::ready) break;
    }
    interrupted = interrupted || PyErr_CheckSignals() != 0;
    wanted = !interrupted;
  }
  auto path = running.get();
  if (interrupted) throw py::error_already_set();
  return unwrap(std::move(path)).string();
}

}  // namespace

void bind_object_store(py::module_& module) { module.def("fetched", &fetched, py::arg("url"), py::arg("environment")); }

}  // namespace ravnest::python
