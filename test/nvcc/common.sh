# What the scripts here share: $nvcc, the library's $include, a $work folder that goes away, and `compile`.
# NVCC and TUCK_INCLUDE in the environment choose other ones.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
include=${TUCK_INCLUDE:-$here/../../include}
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
version=$("$nvcc" --version | sed -n 's/.*, V\([0-9.]*\)$/\1/p')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# No kernel runs here: what is compiled to be linked is not optimised, which takes half the time.
quickly="-Xcicc -O0 -Xptxas -O0"
compile() { "$nvcc" -std=c++20 -I"$include" -Werror all-warnings -Wno-deprecated-gpu-targets "$@"; }

# Ends the test as skipped, with a reason, where this nvcc cannot compile for sm_$1.
need_arch() {
  "$nvcc" --list-gpu-code | grep -qx "sm_$1" && return
  echo "skipped: nvcc $version does not know sm_$1"
  exit 77
}

# Newer compilers keep kernels to their unit by themselves; the flags that tell them not to.
shared_kernels() {
  "$nvcc" --help | grep -q device-entity-has-hidden-visibility || return 0
  echo "-static-global-template-stub=false -device-entity-has-hidden-visibility=false"
}
