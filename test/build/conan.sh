# conan.sh CONAN SOURCE FOLDER: makes the Conan package of SOURCE, and builds and runs the consumer with it, all in FOLDER
# and without a remote.
set -eu
rm -rf "$3"
export CONAN_HOME=$3/home
"$1" profile detect >/dev/null 2>&1
"$1" create "$2/cmake/packaging/conan" --no-remote -s compiler.cppstd=20 -c tools.cmake.cmake_layout:test_folder="$3/test"
