# The targets of this project are declared through these functions, so that all share one set of flags.
#
#   ravnest_library(NAME x SOURCES ... [DEPENDS ...] [TORCH])   library target x, alias ravnest::<x without ravnest_>
#   ravnest_test(NAME x SOURCES ... [DEPENDS ...] [TORCH])      test binary, each of its tests known to ctest
#   ravnest_fuzz(NAME x SOURCES ... [DEPENDS ...])              libFuzzer binary, only in the preset `fuzz`
#
# DEPENDS of a library are public. TORCH adds LibTorch and the shared precompiled header; such a target is left out
# where RAVNEST_TORCH is off.

set(RAVNEST_TEST_TIMEOUT_S 120 CACHE STRING "Seconds after which one test is ended and counts as failed")

add_library(ravnest_flags INTERFACE)
target_include_directories(ravnest_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_features(ravnest_flags INTERFACE cxx_std_20)
target_compile_options(ravnest_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
                                               -Woverloaded-virtual -Wimplicit-fallthrough)
target_link_libraries(ravnest_flags INTERFACE Threads::Threads)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 warns of overlapping copies inside std::string where there are none (GCC bug 105651).
  target_compile_options(ravnest_flags INTERFACE -Wno-restrict)
endif()
if(RAVNEST_SANITIZE)
  target_compile_options(ravnest_flags INTERFACE -fsanitize=${RAVNEST_SANITIZE} -fno-omit-frame-pointer
                                                 -fno-sanitize-recover=all)
  target_link_options(ravnest_flags INTERFACE -fsanitize=${RAVNEST_SANITIZE})
endif()
if(RAVNEST_FUZZ)
  target_compile_options(ravnest_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
# One precompiled header for everything that sees torch. A file that uses it must be compiled with the very same
# flags: hence position-independent code and hidden symbols everywhere, and no definitions of single targets.
function(ravnest_declare_pch)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND RAVNEST_LAUNCHER_IS_CCACHE)
    # Lets ccache see through precompiled headers.
    target_compile_options(ravnest_torch INTERFACE -fpch-preprocess)
  endif()
  file(WRITE ${CMAKE_BINARY_DIR}/pch.cpp.in "// The precompiled header needs a source file to hang on.\n")
  configure_file(${CMAKE_BINARY_DIR}/pch.cpp.in ${CMAKE_BINARY_DIR}/pch.cpp COPYONLY)
  add_library(ravnest_pch STATIC ${CMAKE_BINARY_DIR}/pch.cpp)
  target_link_libraries(ravnest_pch PRIVATE ravnest_flags ravnest_torch)
  target_precompile_headers(ravnest_pch PRIVATE ${PROJECT_SOURCE_DIR}/src/ravnest/graph/pch.h)
endfunction()

function(ravnest_use_torch target)
  target_link_libraries(${target} PUBLIC ravnest_torch)
  target_precompile_headers(${target} REUSE_FROM ravnest_pch)
endfunction()

function(ravnest_library)
  cmake_parse_arguments(arg "TORCH" "NAME" "SOURCES;DEPENDS" ${ARGN})
  if(arg_TORCH AND NOT RAVNEST_TORCH)
    return()
  endif()
  add_library(${arg_NAME} STATIC ${arg_SOURCES})
  string(REGEX REPLACE "^ravnest_" "" short_name ${arg_NAME})
  add_library(ravnest::${short_name} ALIAS ${arg_NAME})
  target_link_libraries(${arg_NAME} PUBLIC ravnest_flags ${arg_DEPENDS})
  if(arg_TORCH)
    ravnest_use_torch(${arg_NAME})
  endif()
endfunction()

function(ravnest_test)
  cmake_parse_arguments(arg "TORCH" "NAME" "SOURCES;DEPENDS" ${ARGN})
  if(NOT RAVNEST_TESTS OR (arg_TORCH AND NOT RAVNEST_TORCH))
    return()
  endif()
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PRIVATE ravnest_flags ${arg_DEPENDS} GTest::gmock GTest::gtest_main)
  if(arg_TORCH)
    ravnest_use_torch(${arg_NAME})
    # An executable would get -fPIE, for which the precompiled header is not made.
    set_target_properties(${arg_NAME} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${arg_NAME} PRIVATE -fPIC)
  else()
    # Optimising a test costs more than it gains. With torch the precompiled header asks for one level everywhere.
    target_compile_options(${arg_NAME} PRIVATE -O1)
  endif()
  gtest_discover_tests(${arg_NAME} DISCOVERY_TIMEOUT 60 DISCOVERY_MODE PRE_TEST
                       PROPERTIES TIMEOUT ${RAVNEST_TEST_TIMEOUT_S})
endfunction()

function(ravnest_fuzz)
  cmake_parse_arguments(arg "" "NAME" "SOURCES;DEPENDS" ${ARGN})
  if(NOT RAVNEST_FUZZ)
    return()
  endif()
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PRIVATE ravnest_flags ${arg_DEPENDS})
  target_link_options(${arg_NAME} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
endfunction()
