# What every target is compiled with: build type, warnings, floating point rules, sanitizers.

if(PROJECT_IS_TOP_LEVEL)
  # A build nobody gave a type is a Release build: an attention library without -O3 misleads everyone.
  get_property(multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  if(NOT multi_config AND NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
  endif()
  # Not in the top of the build folder: locant/ there is the folder of the libraries.
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
endif()

add_library(locant_flags INTERFACE)
target_compile_features(locant_flags INTERFACE cxx_std_20)
if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
  # Contraction off: a*b+c in plain code gives the same bits on a machine with and without FMA.
  # Files compiled for one instruction set fuse by name (or set their own flag, which comes later and wins).
  target_compile_options(locant_flags INTERFACE -Wall -Wextra -ffp-contract=off)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # g++ 12 sees overlapping copies in std::string's operator+ that are not there (GCC bug 105651).
    target_compile_options(locant_flags INTERFACE -Wno-restrict)
  endif()
  if(LOCANT_WERROR)
    target_compile_options(locant_flags INTERFACE -Werror)
  endif()
endif()

if(LOCANT_SANITIZE)
  # Directory-wide, so that tests and libraries agree; recover never: a finding must fail the test. -g1: lines
  # are all that reports need, and following variables doubles the time the kernel takes to compile.
  add_compile_options(-fsanitize=${LOCANT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${LOCANT_SANITIZE})
endif()
