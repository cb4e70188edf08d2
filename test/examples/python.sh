# python.sh SOURCE WORK PYTHON DEVICE [BUILD]: builds the wheel of examples/python, with arrays on a GPU by DEVICE (cuda
# or simulator), installs it in a new virtual environment and runs the tests there, then by PYTHON if that has PyTorch.
# BUILD: the folder of a build for that device, whose libraries are taken; else they are compiled. Exit code 77: PyPI
# cannot be reached.
set -eu
source=$1 work=$2 python=$3 device=$4 build=${5:-}
rm -rf "$work"
mkdir -p "$work"
"$python" -m venv "$work/env" || { echo "skipped: there is no venv"; exit 77; }
pip=$work/env/bin/pip
if ! "$pip" download --quiet --no-deps --dest "$work/reach" nanobind >"$work/reach.log" 2>&1; then
  echo "skipped: PyPI cannot be reached"
  exit 77
fi
# Nothing is timed here.
export CMAKE_ARGS="-DTUCK_DEVICE=$device -DCMAKE_CXX_FLAGS_RELEASE=-O1 -DTUCK_BUILD=$build"
"$pip" wheel --quiet --no-deps --wheel-dir "$work" "$source/examples/python"
# A source archive has all that a build needs.
"$pip" install --quiet scikit-build-core nanobind
(cd "$source/examples/python" &&
  "$work/env/bin/python" -Bc "import backend; backend.build_sdist('$work/sdist')" >/dev/null)
tar xzf "$work"/sdist/tuck_tensors-*.tar.gz -C "$work/sdist"
cmake -S "$work"/sdist/tuck_tensors-*/ -B "$work/sdist/build" -DPython_EXECUTABLE="$work/env/bin/python" \
  -Dnanobind_DIR="$("$work/env/bin/python" -m nanobind --cmake_dir)" $CMAKE_ARGS >"$work/sdist.log" 2>&1 ||
  { cat "$work/sdist.log"; exit 1; }
"$pip" install --quiet --no-compile --no-deps --target "$work/package" "$work"/tuck_tensors-*.whl  # for other tests
"$pip" install --quiet --no-compile "$work"/tuck_tensors-*.whl xxhash blake3 zstandard
cd "$work"
tests() {  # tests PYTHON
  "$1" "$source/test/examples/python_test.py"
  "$1" "$source/test/examples/python_device_test.py"
}
tests "$work/env/bin/python"
"$work/env/bin/python" "$source/test/examples/streams_test.py"
if "$python" -c "import numpy, torch" 2>/dev/null; then
  PYTHONPATH=$work/package tests "$python"
  PYTHONPATH=$work/package "$python" "$source/test/examples/streams_test.py" Streams.test_torch
fi
# Without code for GPUs.
rm "$work"/env/lib/python3*/site-packages/tuck/libtuck_device.so
"$work/env/bin/python" - <<END
import tuck
class Standin:
    __cuda_array_interface__ = {"data": (64, False), "shape": (1,), "typestr": "<f4", "version": 3}
try:
    tuck.encode(Standin())
except tuck.DeviceError as error:
    assert "no GPU code" in str(error), error
else:
    raise AssertionError
END
# The program of the page.
awk '/^```python/ { found = 1; next } found && /^```/ { exit } found' "$source/docs/python.md" >"$work/page.py"
"$work/env/bin/python" "$work/page.py" | grep -q True
# The wheel of the headers.
"$pip" wheel --quiet --no-deps --wheel-dir "$work" "$source/cmake/packaging/pip"
sh "$source/test/build/headers_wheel.sh" "$work"/tuck_headers-*.whl "$work/headers" "$python"
