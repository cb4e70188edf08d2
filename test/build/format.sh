#!/bin/sh
# Formats all C++ and CUDA sources by .clang-format; with --check it only says which are not formatted.
set -eu
cd "$(dirname "$0")/../.."
how=-i
[ "${1:-}" != --check ] || how="--dry-run -Werror"
find include bench examples test -type f \( -name '*.hpp' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.cu' -o -name '*.h' \) |
  xargs "${CLANG_FORMAT:-clang-format-19}" --style=file $how
