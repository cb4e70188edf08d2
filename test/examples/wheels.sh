# wheels.sh DIST WORK PYTHON...: what examples/python/wheels.sh has made in the folder DIST, tried in new virtual
# environments in WORK. By each PYTHON: the package as pip finds it there, its tests, the program of its page, how large
# it is, and how long it takes to install and to import. By the first one: the wheel of the headers, and a wheel built
# of the source archive. pip gets NumPy from PyPI.
set -eu
dist=$(cd "$1" && pwd) work=$2 first=$3
shift 2
source=$(cd "$(dirname "$0")/../.." && pwd)
rm -rf "$work"
mkdir -p "$work"
cd "$work"
for wheel in "$dist"/*.whl; do
  echo "$(basename "$wheel"): $(wc -c <"$wheel") bytes"
  case $wheel in *manylinux_2_28_x86_64.whl | *-none-any.whl) ;; *) echo "unexpected tag"; exit 1 ;; esac
done
for python; do
  rm -rf env
  "$python" -m venv env
  begin=$(date +%s%N)
  env/bin/pip install --quiet --only-binary :all: --find-links "$dist" tuck-tensors
  end=$(date +%s%N)
  echo "$python: installed, with NumPy, in $(((end - begin) / 1000000)) ms"
  env/bin/python -c "import tuck"  # which compiles its files
  env/bin/python - <<END
import os, subprocess, sys, time
times = []
for _ in range(9):
    code = "import time; a = time.perf_counter(); import tuck; print(time.perf_counter() - a)"
    times.append(float(subprocess.check_output([sys.executable, "-c", code])))
print(f"import tuck: {1000 * sorted(times)[4]:.0f} ms in the median of 9")
END
  env/bin/python "$source/test/examples/python_test.py"
  awk '/^```python/ { found = 1; next } found && /^```/ { exit } found' "$source/docs/python.md" >page.py
  env/bin/python page.py | grep True
done
sh "$source/test/build/headers_wheel.sh" "$dist"/tuck_headers-*.whl "$work/headers" "$first"
rm -rf env
"$first" -m venv env
env/bin/pip wheel --quiet --no-deps --wheel-dir "$work" --config-settings=cmake.define.TUCK_DEVICE=none \
  "$dist"/tuck_tensors-*.tar.gz
env/bin/pip install --quiet "$work"/tuck_tensors-*.whl
env/bin/python page.py | grep True
