# vendor.sh SOURCE WORK OPTION...: a project that has tuck as a part is used as it is installed and from its build folder;
# each brings tuck along. With TUCK_INSTALL=OFF it installs none of tuck.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$1 work=$2
shift 2
rm -rf "$work"
quiet() { "$@" >"$work.log" 2>&1 || { cat "$work.log"; exit 1; }; }
quiet cmake -S "$here" -B "$work/build" "-DTUCK_SOURCE=$source" "$@"
quiet cmake --install "$work/build" --prefix "$work/first"
mv "$work/first" "$work/installed"
for vendor in "$work/installed" "$work/build"; do
  quiet cmake -S "$here" -B "$vendor/user" "-DVENDOR=$vendor" "-Dtuck_ROOT=$vendor/tuck;$vendor" "$@"
  quiet cmake --build "$vendor/user"
done
quiet cmake -S "$here" -B "$work/without" "-DTUCK_SOURCE=$source" -DTUCK_INSTALL=OFF "$@"
quiet cmake --install "$work/without" --prefix "$work/nothing"
test ! -e "$work/nothing"
