# Installs libstoker with its headers, a CMake package that gives a consumer stoker::stoker, and
# stoker.pc. All of it can be moved: paths are relative to the prefix.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Two exports, because both libraries have one name there. stokerConfig.cmake includes one of them.
set(STOKER_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/stoker)
foreach(kind shared static)
  install(TARGETS stoker_${kind} EXPORT stoker_${kind}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
      COMPONENT runtime NAMELINK_COMPONENT development
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
  install(EXPORT stoker_${kind} FILE stoker_${kind}.cmake NAMESPACE stoker::
    DESTINATION ${STOKER_PACKAGE_DIR} COMPONENT development)
endforeach()
if(STOKER_CLI)
  install(TARGETS stoker_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}
    COMPONENT runtime)
endif()

# What every ObjectStore must do: programs test their own with it, and with GoogleTest.
set(STOKER_CONFORMANCE_DIR ${CMAKE_INSTALL_DATAROOTDIR}/stoker/conformance)
install(FILES ${PROJECT_SOURCE_DIR}/tests/conformance/object_store_suite.h
  DESTINATION ${STOKER_CONFORMANCE_DIR} COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/tests/support/in_child.h ${PROJECT_SOURCE_DIR}/tests/support/temp_dir.h
  DESTINATION ${STOKER_CONFORMANCE_DIR}/support COMPONENT development)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/stokerConfig.cmake.in
  ${PROJECT_BINARY_DIR}/stokerConfig.cmake INSTALL_DESTINATION ${STOKER_PACKAGE_DIR}
  NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/stokerConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/stokerConfig.cmake
  ${PROJECT_BINARY_DIR}/stokerConfigVersion.cmake
  DESTINATION ${STOKER_PACKAGE_DIR} COMPONENT development)

# Libs.private has plain names, not Requires.private: pkg-config wants the .pc files of those even for
# a program that links libstoker.so.
foreach(library IN LISTS STOKER_LIBRARIES)
  if(library STREQUAL PkgConfig::CURL)
    set(links -lcurl)  # always shared: what it stands on is its own business
  elseif(library MATCHES "^PkgConfig::(.+)$")
    list(TRANSFORM ${CMAKE_MATCH_1}_STATIC_LIBRARIES PREPEND -l OUTPUT_VARIABLE links)
  elseif(library STREQUAL Threads::Threads)
    set(links -pthread)
  elseif(library MATCHES "^([a-z]+)::([a-z]+)$")
    set(links -l${CMAKE_MATCH_2})
  elseif(library STREQUAL BZip2::BZip2)
    set(links -lbz2)
  else()
    set(links -l${library})
  endif()
  list(APPEND STOKER_PRIVATE_LINKS ${links})
endforeach()
list(REMOVE_DUPLICATES STOKER_PRIVATE_LINKS)
list(JOIN STOKER_PRIVATE_LINKS " " STOKER_PRIVATE_LINKS)
file(RELATIVE_PATH STOKER_PREFIX_FROM_PC
  /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" STOKER_PREFIX_FROM_PC ${STOKER_PREFIX_FROM_PC})
configure_file(${PROJECT_SOURCE_DIR}/cmake/stoker.pc.in ${PROJECT_BINARY_DIR}/stoker.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/stoker.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
