#!/bin/sh
# clang-tidy by .clang-tidy, on what the arguments name: headers such as tuck/device.cuh, which the simulator's stand
# before; or, with --sources and a build folder, all that it compiles of bench/ and examples/: for a quarter of
# an hour, and with findings that are the tool's own mistakes (C++20 comparisons, device code taken for host code).
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
tidy=${CLANG_TIDY:-clang-tidy}
run="$tidy --quiet --config-file=$root/.clang-tidy"
if [ "$1" = --sources ]; then
  grep -o "\"file\": \"$root/\(bench\|examples\)/[^\"]*" "$2/compile_commands.json" | cut -d'"' -f4 | sort -u |
    grep -v /torch/ | xargs -P "$(nproc)" -n 1 $run -p "$2" --extra-arg=-Wno-unknown-warning-option
  exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for header; do printf '#include <%s>\n' "$header"; done > "$work/all.cpp"
$run "$work/all.cpp" -- -std=c++20 -I"$root/test/cudasim" -I"$root/include"
