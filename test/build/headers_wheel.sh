# headers_wheel.sh WHEEL WORK PYTHON: the wheel of the headers is installed in a new virtual environment, and programs
# are compiled with it: by its folder of headers, and by its package for CMake.
set -eu
wheel=$1 work=$2 python=$3
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
"$python" -m venv "$work/env"
"$work/env/bin/pip" install --quiet --no-index "$wheel"
of() { "$work/env/bin/python" -c "import tuck_headers; print(tuck_headers.$1())"; }
"${CXX:-c++}" -std=c++20 -pthread -I "$(of get_include)" "$here"/consumer/*.cpp -o "$work/by_folder"
"$work/by_folder"
version=$("$work/env/bin/python" -c "import importlib.metadata as m; print(m.version('tuck-headers'))")
cmake -S "$here/consumer" -B "$work/build" "-Dtuck_ROOT=$(of get_cmake_dir)" "-DEXPECTED_VERSION=$version" >"$work/log" \
  2>&1 && cmake --build "$work/build" >>"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$work/build/consumer"
