# An overlay port of the tree that it is part of. vcpkg's cache does not see that headers have changed: pass it by.
#   vcpkg install tuck --overlay-ports=cmake/packaging/vcpkg --binarysource=clear
# In a registry, vcpkg_from_git or vcpkg_from_github gives SOURCE_PATH.
cmake_path(ABSOLUTE_PATH CURRENT_PORT_DIR NORMALIZE)
cmake_path(APPEND CURRENT_PORT_DIR "../../../.." OUTPUT_VARIABLE SOURCE_PATH)
cmake_path(NORMAL_PATH SOURCE_PATH)

set(VCPKG_BUILD_TYPE release)  # headers only: debug builds use the same files
set(VCPKG_FIXUP_ELF_RPATH OFF)  # else vcpkg gets patchelf, to look at the file "usage"
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS -DTUCK_PROGRAMS=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/tuck)

# vcpkg wants files with a line "Libs" here.
file(MAKE_DIRECTORY "${CURRENT_PACKAGES_DIR}/lib")
file(RENAME "${CURRENT_PACKAGES_DIR}/share/pkgconfig" "${CURRENT_PACKAGES_DIR}/lib/pkgconfig")
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/doc")
file(INSTALL "${CURRENT_PORT_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
