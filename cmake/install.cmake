# What `cmake --install` puts where (./dev install). The command finds its launcher beside itself, and the library finds
# it in bin/ of its own prefix.
include(CMakePackageConfigHelpers)

install(TARGETS glovebox glovebox-launcher glovebox-probe RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS glovebox_shared EXPORT glovebox-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/glovebox DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/glovebox)
install(EXPORT glovebox-targets NAMESPACE glovebox:: DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/glovebox-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/install/glovebox-config.cmake ${CMAKE_BINARY_DIR}/glovebox-config-version.cmake DESTINATION ${package})
configure_file(cmake/install/glovebox.pc.in ${CMAKE_BINARY_DIR}/glovebox.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/glovebox.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# As they lie here, so that their links lead somewhere.
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY bench/results DESTINATION ${CMAKE_INSTALL_DOCDIR}/bench)
install(FILES README.md LICENSE CHANGELOG.md SECURITY.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
# A unit to start from: it serves root alone, on a socket.
configure_file(cmake/install/glovebox.service.in ${CMAKE_BINARY_DIR}/glovebox.service @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/glovebox.service DESTINATION lib/systemd/system)

# The completions are what the command prints.
foreach(pair bash:bash-completion/completions/glovebox zsh:zsh/site-functions/_glovebox fish:fish/vendor_completions.d/glovebox.fish)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 shell)
  list(GET pair 1 place)
  get_filename_component(directory ${place} DIRECTORY)
  get_filename_component(name ${place} NAME)
  install(CODE "
    execute_process(COMMAND \"${CMAKE_BINARY_DIR}/glovebox\" completion ${shell}
      OUTPUT_FILE \"${CMAKE_BINARY_DIR}/completion-${shell}\" COMMAND_ERROR_IS_FATAL ANY)")
  install(FILES ${CMAKE_BINARY_DIR}/completion-${shell} DESTINATION ${CMAKE_INSTALL_DATADIR}/${directory} RENAME ${name})
endforeach()
