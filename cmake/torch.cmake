# LibTorch as it lies in a Python environment: the one of RAVNEST_PYTHON, by default `.venv`.
#
# Gives the target `ravnest_torch` (LibTorch's headers as system headers, and its libraries) and the variables
# RAVNEST_TORCH_FOLDER, RAVNEST_SITE_PACKAGES and RAVNEST_PYTHON_VERSION.

set(default_python ${PROJECT_SOURCE_DIR}/.venv/bin/python)
if(SKBUILD)
  set(default_python ${Python_EXECUTABLE})
endif()
set(RAVNEST_PYTHON ${default_python} CACHE FILEPATH "The Python whose torch is built against")
if(NOT EXISTS ${RAVNEST_PYTHON})
  message(FATAL_ERROR "There is no ${RAVNEST_PYTHON}. Run scripts/bootstrap, or name a Python that has torch with "
                      "-DRAVNEST_PYTHON=/path/to/python.")
endif()

# Without importing torch, which takes seconds: only where it is. The last line is the answer, whatever is printed before.
execute_process(
  COMMAND ${RAVNEST_PYTHON} -c
          "import importlib.util as u, os, sys, sysconfig as s; f = u.find_spec('torch'); \
print(';'.join([os.path.dirname(f.origin) if f else '', s.get_path('platlib'), s.get_path('include'), \
'%d.%d' % sys.version_info[:2]]))"
  OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE ".*\n" "" answer "${answer}")
list(GET answer 0 RAVNEST_TORCH_FOLDER)
list(GET answer 1 RAVNEST_SITE_PACKAGES)
list(GET answer 2 RAVNEST_PYTHON_INCLUDE)
list(GET answer 3 RAVNEST_PYTHON_VERSION)
if(NOT RAVNEST_TORCH_FOLDER)
  message(FATAL_ERROR "${RAVNEST_PYTHON} has no torch. Run scripts/bootstrap, or install the version that "
                      "requirements.txt names.")
endif()

# Another Python than last time: what was found for the last one no longer holds.
if(NOT "${RAVNEST_TORCH_FOUND_IN}" STREQUAL "${RAVNEST_TORCH_FOLDER}")
  unset(Torch_DIR CACHE)
  unset(TORCH_LIBRARY CACHE)
  unset(C10_LIBRARY CACHE)
  set(RAVNEST_TORCH_FOUND_IN ${RAVNEST_TORCH_FOLDER} CACHE INTERNAL "")
endif()
find_package(Torch REQUIRED PATHS ${RAVNEST_TORCH_FOLDER} NO_DEFAULT_PATH)
message(STATUS "LibTorch ${Torch_VERSION} of ${RAVNEST_PYTHON}")

add_library(ravnest_torch INTERFACE)
target_link_libraries(ravnest_torch INTERFACE "$<BUILD_INTERFACE:${TORCH_LIBRARIES}>" $<INSTALL_INTERFACE:torch>)
target_include_directories(ravnest_torch SYSTEM INTERFACE "$<BUILD_INTERFACE:${TORCH_INCLUDE_DIRS}>")
