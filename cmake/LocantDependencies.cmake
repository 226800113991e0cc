# The third-party libraries of training, study and the command. All missing ones are named at once,
# with the Debian packages that hold them.

set(missing "")
find_package(DNNL MODULE QUIET)
find_package(fmt QUIET)
find_package(simdjson QUIET)
find_package(CLI11 QUIET)
foreach(pair "DNNL::DNNL=oneDNN (libdnnl-dev)" "fmt::fmt=fmt (libfmt-dev)"
             "simdjson::simdjson=simdjson (libsimdjson-dev)" "CLI11::CLI11=CLI11 (libcli11-dev)")
  string(REGEX MATCH "^([^=]+)=(.*)$" _ "${pair}")
  if(NOT TARGET ${CMAKE_MATCH_1})
    string(APPEND missing "  ${CMAKE_MATCH_2}\n")
  endif()
endforeach()
if(missing)
  message(FATAL_ERROR "Locant's training, study and command need libraries that were not found:\n${missing}"
    "On Debian or Ubuntu: apt install libdnnl-dev libfmt-dev libsimdjson-dev libcli11-dev\n"
    "To build the attention library alone, which needs none of them: -DLOCANT_BUILD_APPS=OFF")
endif()
