# pkg_config.sh PKG_CONFIG FOLDER VERSION BUILT CONSUMER COMPILER...: FOLDER's tuck.pc is of that version, and the
# program in the folder CONSUMER compiles to BUILT with the flags that it gives, and runs.
pkg_config=$1 PKG_CONFIG_PATH=$2 version=$3 built=$4 consumer=$5
shift 5
export PKG_CONFIG_PATH
set -e
"$pkg_config" --print-errors --exact-version="$version" tuck
flags=$("$pkg_config" --cflags --libs tuck)
echo "$flags"
"$@" "$consumer"/*.cpp $flags -o "$built"
"$built"
