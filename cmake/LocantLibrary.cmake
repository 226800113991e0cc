# locant_library(core) makes the empty library target locant_core with the alias locant::core;
# the folders of locant/ fill it with target_sources.

function(locant_library name)
  set(target locant_${name})
  add_library(${target})
  add_library(locant::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${name}
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    POSITION_INDEPENDENT_CODE ON
    CXX_EXTENSIONS OFF
    LINKER_LANGUAGE CXX)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:locant_flags>)
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
endfunction()
