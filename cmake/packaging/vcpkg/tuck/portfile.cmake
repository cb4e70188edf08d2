# An overlay port of the tree that it is part of: vcpkg install tuck --overlay-ports=cmake/packaging/vcpkg
cmake_path(ABSOLUTE_PATH CURRENT_PORT_DIR NORMALIZE)
cmake_path(APPEND CURRENT_PORT_DIR "../../../.." OUTPUT_VARIABLE SOURCE_PATH)
cmake_path(NORMAL_PATH SOURCE_PATH)

vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS -DTUCK_PROGRAMS=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/tuck)

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug" "${CURRENT_PACKAGES_DIR}/lib")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
