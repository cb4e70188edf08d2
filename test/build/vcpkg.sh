# vcpkg.sh VCPKG SOURCE FOLDER COMPILER: installs the vcpkg port of SOURCE in FOLDER, without a warning, and compiles and
# runs the consumer with it: by vcpkg's toolchain file, and by pkg-config. VCPKG: the program, in its own checkout.
set -eu
vcpkg=$1 source=$2 folder=$3 compiler=$4
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$(dirname "$vcpkg")" && pwd)
rm -rf "$folder"
mkdir -p "$folder"
export VCPKG_FORCE_SYSTEM_BINARIES=1 VCPKG_DISABLE_METRICS=1
"$vcpkg" install tuck --vcpkg-root="$root" --overlay-ports="$source/cmake/packaging/vcpkg" --classic \
  --binarysource=clear --x-install-root="$folder/installed" --x-buildtrees-root="$folder/buildtrees" \
  --x-packages-root="$folder/packages" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
cat "$folder/log"
if grep -i "warning" "$folder/log"; then exit 1; fi
listed=$(cd "$folder/installed/vcpkg/info" && echo tuck_*.list)  # tuck_VERSION_TRIPLET.list
version=$(echo "$listed" | cut -d_ -f2)
triplet=$(basename "$(echo "$listed" | cut -d_ -f3)" .list)
cmake -S "$here/consumer" -B "$folder/build" -DCMAKE_TOOLCHAIN_FILE="$root/scripts/buildsystems/vcpkg.cmake" \
  -DVCPKG_INSTALLED_DIR="$folder/installed" -DVCPKG_TARGET_TRIPLET="$triplet" -DVCPKG_MANIFEST_MODE=OFF \
  -DCMAKE_CXX_COMPILER="$compiler" -DEXPECTED_VERSION="$version"
grep "^tuck_DIR:.*=$folder/installed/" "$folder/build/CMakeCache.txt"
cmake --build "$folder/build"
"$folder/build/consumer"
sh "$here/pkg_config.sh" pkg-config "$folder/installed/$triplet/lib/pkgconfig" "$version" "$folder/by_pkg_config" \
  "$here/consumer" "$compiler" -std=c++20
