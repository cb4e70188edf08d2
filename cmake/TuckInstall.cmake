# `cmake --install` and the packages that find_package(tuck) and pkg-config find.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(tuck_package_dir ${CMAKE_INSTALL_DATADIR}/cmake/tuck)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tuck DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS tuck EXPORT tuckTargets INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT tuckTargets NAMESPACE tuck:: DESTINATION ${tuck_package_dir})
# The same of the build folder, for projects that export theirs.
export(EXPORT tuckTargets NAMESPACE tuck::)
configure_file(${CMAKE_CURRENT_LIST_DIR}/tuckLanguages.cmake ${PROJECT_BINARY_DIR}/tuckLanguages.cmake COPYONLY)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tuckConfig.cmake.in ${PROJECT_BINARY_DIR}/tuckConfig.cmake
                              INSTALL_DESTINATION ${tuck_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tuckConfigVersion.cmake
                                 COMPATIBILITY SameMajorVersion ARCH_INDEPENDENT)
install(FILES ${PROJECT_BINARY_DIR}/tuckConfig.cmake ${PROJECT_BINARY_DIR}/tuckConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/tuckLanguages.cmake
        DESTINATION ${tuck_package_dir})

# By paths relative to itself, so that the installed tree may be moved.
set(tuck_pc_dir ${CMAKE_INSTALL_DATADIR}/pkgconfig)
cmake_path(ABSOLUTE_PATH tuck_pc_dir BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE tuck_pc_full_dir)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR BASE_DIRECTORY ${tuck_pc_full_dir}
           OUTPUT_VARIABLE tuck_pc_to_include)
configure_file(${CMAKE_CURRENT_LIST_DIR}/tuck.pc.in ${PROJECT_BINARY_DIR}/tuck.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tuck.pc DESTINATION ${tuck_pc_dir})
set(tuck_doc_dir ${CMAKE_INSTALL_DOCDIR})
if(NOT PROJECT_IS_TOP_LEVEL)
  set(tuck_doc_dir ${CMAKE_INSTALL_DATADIR}/doc/tuck)  # that of the whole has another licence
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${tuck_doc_dir})
