# Install rules: libraries and headers, one export a storey (so that somebody who wants locant::core alone
# needs no oneDNN on his machine), the command, find_package(locant) and pkg-config.

include(CMakePackageConfigHelpers)
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/locant)

foreach(name core train study measure cli)
  if(TARGET locant_${name})
    install(TARGETS locant_${name} EXPORT locant-${name}-targets
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
      RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
      FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    install(EXPORT locant-${name}-targets NAMESPACE locant:: DESTINATION ${config_dir})
  endif()
endforeach()

if(TARGET locant)
  install(TARGETS locant RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  if(BUILD_SHARED_LIBS)
    file(RELATIVE_PATH bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
    set_target_properties(locant PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
  endif()
endif()
if(BUILD_SHARED_LIBS)
  foreach(name train study measure cli)
    if(TARGET locant_${name})
      set_target_properties(locant_${name} PROPERTIES INSTALL_RPATH "$ORIGIN")
    endif()
  endforeach()
endif()

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/locant-config.cmake.in
  ${PROJECT_BINARY_DIR}/locant-config.cmake INSTALL_DESTINATION ${config_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/locant-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/locant-config.cmake
  ${PROJECT_BINARY_DIR}/locant-config-version.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindDNNL.cmake DESTINATION ${config_dir})

# Paths in locant.pc are relative to the file: an installed tree may be moved.
file(RELATIVE_PATH pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/locant.pc.in ${PROJECT_BINARY_DIR}/locant.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/locant.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
