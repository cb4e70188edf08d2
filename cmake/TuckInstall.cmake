# `cmake --install` and the package that find_package(tuck) finds.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(tuck_package_dir ${CMAKE_INSTALL_DATADIR}/cmake/tuck)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tuck DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS tuck EXPORT tuckTargets)
install(EXPORT tuckTargets NAMESPACE tuck:: DESTINATION ${tuck_package_dir})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tuckConfig.cmake.in ${PROJECT_BINARY_DIR}/tuckConfig.cmake
                              INSTALL_DESTINATION ${tuck_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tuckConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES ${PROJECT_BINARY_DIR}/tuckConfig.cmake ${PROJECT_BINARY_DIR}/tuckConfigVersion.cmake
        DESTINATION ${tuck_package_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
