# locant_test(NAME SOURCES a.cc ... [LIBRARIES locant::core ...] [ARGS ...] [LABELS ...] [TIMEOUT seconds] [NO_MAIN])
# makes a GoogleTest program and one ctest entry. One entry a program, not one a TEST: ctest stays quick,
# and the failing TEST is named by the program itself.
# Labels say when a test runs: "default" in `./run test`; "long", "mutants", "fuzz" by their own commands.

find_package(GTest QUIET)
# For another machine none is installed; Debian's package has the source, too.
if(NOT TARGET GTest::gtest_main AND CMAKE_CROSSCOMPILING AND EXISTS /usr/src/googletest/CMakeLists.txt)
  set(BUILD_GMOCK OFF)
  set(INSTALL_GTEST OFF)
  add_subdirectory(/usr/src/googletest ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
endif()
if(NOT TARGET GTest::gtest_main)
  message(FATAL_ERROR "The tests need GoogleTest (Debian: apt install libgtest-dev); "
    "without tests: -DLOCANT_BUILD_TESTS=OFF")
endif()

function(locant_test name)
  cmake_parse_arguments(arg "NO_MAIN" "TIMEOUT" "SOURCES;LIBRARIES;ARGS;LABELS" ${ARGN})
  if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "locant_test(${name}): needs SOURCES; not understood: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_LIBRARIES)
    set(arg_LIBRARIES locant::core)
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS default)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)
  endif()
  if(CMAKE_CROSSCOMPILING)  # an emulated machine takes some thirty times as long
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 6")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} locant_flags
    $<IF:$<BOOL:${arg_NO_MAIN}>,GTest::gtest,GTest::gtest_main>)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin/tests)
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1 ${arg_ARGS})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
endfunction()
