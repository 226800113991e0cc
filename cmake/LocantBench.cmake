# locant_bench(NAME SOURCES a.cc ... [LIBRARIES locant::core ...])
# makes a benchmark program in bin/bench, where `./run bench` looks. Add benchmark::benchmark to LIBRARIES
# for Google Benchmark; a program with its own way of measuring needs nothing.

find_package(benchmark QUIET)

function(locant_bench name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "locant_bench(${name}): needs SOURCES; not understood: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if("benchmark::benchmark" IN_LIST arg_LIBRARIES AND NOT TARGET benchmark::benchmark)
    message(FATAL_ERROR "The benchmarks need Google Benchmark (Debian: apt install libbenchmark-dev); "
      "without benchmarks: -DLOCANT_BUILD_BENCH=OFF")
  endif()
  if(NOT arg_LIBRARIES)
    set(arg_LIBRARIES locant::core)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} locant_flags)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin/bench)
endfunction()
