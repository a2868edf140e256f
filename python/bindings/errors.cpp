#include <c10/util/Exception.h>

#include "bindings.h"

namespace ravnest::python {

void bind_errors(pybind11::module_& module) {
  // Kept by the module for as long as there is Python.
  static PyObject* const type = pybind11::exception<Failure>(module, "Error", PyExc_RuntimeError).inc_ref().ptr();
  module.attr("Error").attr("of_another") = false;
  pybind11::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const Failure& failure) {
      const pybind11::object raised = pybind11::handle(type)(failure.what());
      raised.attr("of_another") = failure.is_of_another();
      PyErr_SetObject(type, raised.ptr());
    }
  });
  // What operators throw, without the C++ backtrace that torch puts behind it.
  pybind11::register_local_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const c10::IndexError& error) {
      PyErr_SetString(PyExc_IndexError, error.what_without_backtrace());
    } catch (const c10::ValueError& error) {
      PyErr_SetString(PyExc_ValueError, error.what_without_backtrace());
    } catch (const c10::Error& error) {
      PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
    }
  });
}

}  // namespace ravnest::python
