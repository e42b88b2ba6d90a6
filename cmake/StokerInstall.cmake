# Installs the layers as static libraries, their public headers, and a CMake package, so that
# find_package(stoker CONFIG) gives a consumer stoker::io and the other layers by name.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(STOKER_LAYERS GLOBAL PROPERTY STOKER_LAYERS)
install(TARGETS ${STOKER_LAYERS} EXPORT stokerTargets COMPONENT development
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
if(STOKER_CLI)
  install(TARGETS stoker_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
endif()

set(STOKER_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/stoker)
install(EXPORT stokerTargets NAMESPACE stoker:: DESTINATION ${STOKER_PACKAGE_DIR}
  COMPONENT development)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/stokerConfig.cmake.in
  ${PROJECT_BINARY_DIR}/stokerConfig.cmake INSTALL_DESTINATION ${STOKER_PACKAGE_DIR}
  NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/stokerConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/stokerConfig.cmake
  ${PROJECT_BINARY_DIR}/stokerConfigVersion.cmake
  DESTINATION ${STOKER_PACKAGE_DIR} COMPONENT development)
