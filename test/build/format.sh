#!/bin/sh
# Formats all C++ and CUDA sources by .clang-format; with --check it only says which are not formatted, and which lines
# have over 120 columns, as comments and strings can.
set -eu
cd "$(dirname "$0")/../.."
sources() {
  find include bench examples test -type f \( -name '*.hpp' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.cu' -o -name '*.h' \)
}
if [ "${1:-}" = --check ]; then
  sources | xargs "${CLANG_FORMAT:-clang-format-19}" --style=file --dry-run -Werror
  long=$(sources | LC_ALL=C.UTF-8 xargs grep -nE '^.{121}' || true)
  [ -z "$long" ] || { echo "$long"; exit 1; }
else
  sources | xargs "${CLANG_FORMAT:-clang-format-19}" --style=file -i
fi
