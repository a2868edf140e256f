#include "bindings.h"

PYBIND11_MODULE(_core, module) {
  module.doc() = "The C++ core of ravnest; use the package, not this module.";
  module.attr("__version__") = RAVNEST_VERSION;
  ravnest::python::bind_errors(module);
  ravnest::python::bind_checkpoint(module);
  ravnest::python::bind_graph(module);
  ravnest::python::bind_chain(module);
  ravnest::python::bind_loop(module);
  ravnest::python::bind_training_process(module);
  ravnest::python::bind_node(module);
  ravnest::python::bind_precision(module);
  ravnest::python::bind_rank(module);
  ravnest::python::bind_object_store(module);
  ravnest::python::bind_optim(module);
  ravnest::python::bind_pipeline(module);
  ravnest::python::bind_plan(module);
  ravnest::python::bind_schedules(module);
  ravnest::python::bind_script(module);
}
