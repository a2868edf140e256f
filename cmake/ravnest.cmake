# The targets of this project are declared through these functions, so that all share one set of flags.
#
#   ravnest_library(NAME x SOURCES ... [DEPENDS ...] [APART ...] [TORCH] [TESTING] [COLD])
#                                                                           library x, alias ravnest::<x without ravnest_>
#   ravnest_program(NAME x SOURCES ... [DEPENDS ...] [TORCH])               executable that is not a test
#   ravnest_test(NAME x SOURCES ... [DEPENDS ...] [NEEDS ...] [TORCH] [OPTIMISED] [THREADS])
#                                                                           test binary; ctest knows each of its tests,
#                                                                           with TORCH the program as one
#   ravnest_fuzz(NAME x SOURCES ... [DEPENDS ...])                          libFuzzer binary, where RAVNEST_FUZZ is on
#
# DEPENDS of a library are public. TORCH adds LibTorch and the shared precompiled header; such a target is left out
# where RAVNEST_TORCH is off. A library's files are compiled several at a time, which shares the cost of headers, and
# so are those of a test with TORCH: what they keep to themselves (`namespace {}`) has to differ in name within one.
# APART lists files for which that is not wanted. NEEDS names the programs that a test starts. A library of src/ is
# part of the installed package unless it is for TESTING. One that is COLD takes no time worth speaking of when it
# runs: it is optimised little, and under sanitizers not at all. So are programs and tests.
#
# RAVNEST_TESTS says which tests are built:
#   all         every one
#   optimised   those with TORCH, and those marked OPTIMISED: numerics and simulations, which differ or take long
#               without optimisation. The others run under sanitizers, and once is enough.
#   threads     those marked THREADS, for the thread sanitizer
#   OFF         none

set(RAVNEST_TEST_TIMEOUT_S 120 CACHE STRING "Seconds after which one test is ended and counts as failed")

add_library(ravnest_flags INTERFACE)
target_include_directories(ravnest_flags INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                                                   $<INSTALL_INTERFACE:include>)
target_compile_features(ravnest_flags INTERFACE cxx_std_20)
# For this project's own files; whoever uses the installed package has flags of their own.
set(own_flags -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough)
target_link_libraries(ravnest_flags INTERFACE Threads::Threads)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 warns of overlapping copies inside std::string where there are none (GCC bug 105651).
  list(APPEND own_flags -Wno-restrict)
  # Nor are these uninitialised: std::optional and small vectors, inlined (GCC bug 80635).
  list(APPEND own_flags -Wno-maybe-uninitialized)
  if(RAVNEST_LAUNCHER_IS_CCACHE)
    # Lets ccache see through precompiled headers.
    list(APPEND own_flags -fpch-preprocess)
  endif()
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  if(RAVNEST_LAUNCHER_IS_CCACHE)
    # The same for clang, whose precompiled headers would bear the time.
    list(APPEND own_flags "SHELL:-Xclang -fno-pch-timestamp")
  endif()
  # What base/mutex.h writes down is held against the code.
  list(APPEND own_flags -Wthread-safety -Werror=thread-safety)
endif()
if(RAVNEST_SANITIZE)
  list(APPEND own_flags -fsanitize=${RAVNEST_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND RAVNEST_SANITIZE MATCHES "undefined")
    # Clang's check of virtual calls opens a pipe to see whether memory is there: without a free descriptor, which is what
    # some tests are about, it takes every object for a broken one.
    list(APPEND own_flags -fno-sanitize=vptr)
  endif()
  target_link_options(ravnest_flags INTERFACE -fsanitize=${RAVNEST_SANITIZE})
  # For tests that measure memory, or take long: each compiler has a word of its own for this.
  target_compile_definitions(ravnest_flags INTERFACE $<BUILD_INTERFACE:RAVNEST_SANITIZED>)
endif()
if(RAVNEST_FUZZ)
  list(APPEND own_flags -fsanitize=fuzzer-no-link)
  add_custom_target(fuzz_targets)
endif()
target_compile_options(ravnest_flags INTERFACE "$<BUILD_INTERFACE:${own_flags}>")

# A target that compiles one header in advance, for others to take over. A file that uses it must be compiled with the
# very same flags: hence position-independent code and hidden symbols everywhere, and no definitions of single targets.
function(ravnest_precompile target header)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${target}.cpp CONTENT "// A precompiled header needs a source file to hang on.\n")
  add_library(${target} STATIC ${CMAKE_BINARY_DIR}/${target}.cpp)
  target_link_libraries(${target} PRIVATE ravnest_flags ${ARGN})
  target_precompile_headers(${target} PRIVATE ${PROJECT_SOURCE_DIR}/${header})
endfunction()
if(RAVNEST_TORCH)
  ravnest_precompile(ravnest_pch src/ravnest/graph/pch.h ravnest_torch)
endif()
# Optimising is a fifth of the compile time, and under sanitizers most of it: what takes no time when it runs gets little
# of it, or none.
set(RAVNEST_COLD_LEVEL -O1)
if(RAVNEST_SANITIZE)
  set(RAVNEST_COLD_LEVEL -O0)
endif()
if(RAVNEST_TESTS)
  ravnest_precompile(ravnest_test_pch tests/pch.h GTest::gmock)
  target_compile_options(ravnest_test_pch PRIVATE ${RAVNEST_COLD_LEVEL})
endif()

function(ravnest_use_torch target)
  target_link_libraries(${target} PUBLIC ravnest_torch)
  ravnest_use_precompiled(${target} ravnest_pch)
endfunction()

function(ravnest_use_precompiled target header)
  target_precompile_headers(${target} REUSE_FROM ${header})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    # It would get -fPIE, for which the precompiled header is not made.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()

function(ravnest_library)
  cmake_parse_arguments(arg "TORCH;TESTING;COLD" "NAME" "SOURCES;DEPENDS;APART" ${ARGN})
  if(arg_TORCH AND NOT RAVNEST_TORCH)
    return()
  endif()
  add_library(${arg_NAME} STATIC ${arg_SOURCES})
  string(REGEX REPLACE "^ravnest_" "" short_name ${arg_NAME})
  add_library(ravnest::${short_name} ALIAS ${arg_NAME})
  target_link_libraries(${arg_NAME} PUBLIC ravnest_flags ${arg_DEPENDS})
  if(RAVNEST_UNITY)
    set_target_properties(${arg_NAME} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  endif()
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "^${PROJECT_SOURCE_DIR}/src/" AND NOT arg_TESTING)
    set_target_properties(${arg_NAME} PROPERTIES EXPORT_NAME ${short_name})
    set_property(GLOBAL APPEND PROPERTY RAVNEST_ROOMS ${arg_NAME})
  endif()
  if(arg_APART)
    set_source_files_properties(${arg_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  if(arg_TORCH)
    ravnest_use_torch(${arg_NAME})
  endif()
  if(arg_COLD)
    target_compile_options(${arg_NAME} PRIVATE ${RAVNEST_COLD_LEVEL})
  endif()
endfunction()

function(ravnest_program)
  cmake_parse_arguments(arg "TORCH" "NAME" "SOURCES;DEPENDS" ${ARGN})
  if(arg_TORCH AND NOT RAVNEST_TORCH)
    return()
  endif()
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PRIVATE ravnest_flags ${arg_DEPENDS})
  target_compile_options(${arg_NAME} PRIVATE ${RAVNEST_COLD_LEVEL})
  if(arg_TORCH)
    ravnest_use_torch(${arg_NAME})
  endif()
endfunction()

function(ravnest_test)
  cmake_parse_arguments(arg "TORCH;OPTIMISED;THREADS" "NAME" "SOURCES;DEPENDS;NEEDS" ${ARGN})
  if(NOT RAVNEST_TESTS OR (arg_TORCH AND NOT RAVNEST_TORCH))
    return()
  endif()
  if((RAVNEST_TESTS STREQUAL "optimised" AND NOT (arg_TORCH OR arg_OPTIMISED))
     OR (RAVNEST_TESTS STREQUAL "threads" AND NOT arg_THREADS))
    return()
  endif()
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PRIVATE ravnest_flags ${arg_DEPENDS} GTest::gmock GTest::gtest_main)
  if(arg_TORCH)
    ravnest_use_torch(${arg_NAME})
    set_target_properties(${arg_NAME} PROPERTIES UNITY_BUILD ${RAVNEST_UNITY} UNITY_BUILD_BATCH_SIZE 6)
  else()
    ravnest_use_precompiled(${arg_NAME} ravnest_test_pch)
  endif()
  target_compile_options(${arg_NAME} PRIVATE ${RAVNEST_COLD_LEVEL})
  # What a new build of asks for these tests again (scripts/ctest), as one label: lists do not get through to ctest.
  set(made_of ${arg_NAME} ${arg_NEEDS})
  if("ravnest::golden" IN_LIST arg_DEPENDS)
    list(APPEND made_of golden)
  endif()
  list(JOIN made_of "+" label)
  if(arg_NEEDS)
    add_dependencies(${arg_NAME} ${arg_NEEDS})
  endif()
  if(arg_TORCH)
    # Loading LibTorch takes longer than most of these tests: a program runs all of its own at once.
    add_test(NAME ${arg_NAME} COMMAND ${arg_NAME} --gtest_brief=1)
    set_tests_properties(${arg_NAME} PROPERTIES TIMEOUT ${RAVNEST_TEST_TIMEOUT_S} LABELS ${label})
  else()
    gtest_discover_tests(${arg_NAME} DISCOVERY_TIMEOUT 60 DISCOVERY_MODE PRE_TEST
                         PROPERTIES TIMEOUT ${RAVNEST_TEST_TIMEOUT_S} LABELS ${label})
  endif()
endfunction()

function(ravnest_fuzz)
  cmake_parse_arguments(arg "" "NAME" "SOURCES;DEPENDS" ${ARGN})
  if(NOT RAVNEST_FUZZ)
    return()
  endif()
  ravnest_program(NAME ${arg_NAME} SOURCES ${arg_SOURCES} DEPENDS ${arg_DEPENDS})
  target_link_options(${arg_NAME} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  add_dependencies(fuzz_targets ${arg_NAME})
endfunction()
