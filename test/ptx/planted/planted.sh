#!/bin/sh
# planted.sh NAME: a fault in a copy of core/device.cuh must fail a test of test/core on the engine. The simulator does
# not see it: it has a file of its own in that place. A fault in a copy of core/block_copy.cuh must fail copies.cu. NVCC,
# CXX, ARCH, LIBRARIES and WORK come from CTest.
# planted.sh list: the names.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../../.." && pwd)

# name|from|to: a line of device.cuh before and after. name|from|to|ARCH: of block_copy.cuh, for that architecture.
faults='
funnel_shift|__funnelshift_r(lo, hi, shift)|__funnelshift_r(hi, lo, shift)
shuffle_mask|__shfl_sync(mask, v, lane)|__shfl_sync(mask >> 1, v, lane)
missing_release|st.release.gpu.global.u64|st.relaxed.gpu.global.u64
byte_selector|__byte_perm(lo, hi, selectors)|__byte_perm(lo, hi, selectors ^ 1)
vector_store|{%1,%2,%3,%4};" ::|{%2,%1,%3,%4};" ::
missing_acquire|ld.acquire.gpu.global.u64|ld.relaxed.gpu.global.u64
shuffle_delta|__shfl_up_sync(mask, v, delta)|__shfl_up_sync(mask, v, delta + 1)
inclusive_sum|+ up_to - value;|+ up_to;
copy_unawaited|wait_copies();||80
bulk_unawaited|while (done == 0);|while (false);|90
bulk_unfenced|fence.proxy.async.shared::cta;||90
bulk_parity|parity_ ^= 1;||90
bulk_bytes|count * sizeof(vec128)|(count + 1) * sizeof(vec128)|90
'
if [ "$1" = list ]; then
  echo "$faults" | sed -n 's/|.*//p'
  exit
fi
line=$(echo "$faults" | grep "^$1|")
from=$(echo "$line" | cut -d '|' -f 2)
to=$(echo "$line" | cut -d '|' -f 3)
own_arch=$(echo "$line" | cut -d '|' -f 4)
header=device.cuh test=$source/test/core/device_test.cu libraries="$LIBRARIES -lgtest_main -lgtest"
if [ -n "$own_arch" ]; then
  header=block_copy.cuh test=$here/copies.cu ARCH=$own_arch libraries=$LIBRARIES
fi

mkdir -p "$WORK/tuck/core"
FROM=$from TO=$to awk '
  { at = index($0, ENVIRON["FROM"]) }
  at && !done { $0 = substr($0, 1, at - 1) ENVIRON["TO"] substr($0, at + length(ENVIRON["FROM"])); done = 1 }
  { print }' "$source/include/tuck/core/$header" >"$WORK/tuck/core/$header"
if cmp -s "$WORK/tuck/core/$header" "$source/include/tuck/core/$header"; then
  echo "$header has no '$from': the fault was not planted"
  exit 1
fi

# The simulator has a file of its own in that place: its tests cannot notice.
if [ -z "$own_arch" ] && "$CXX" -std=c++20 -x c++ -M -I"$source/test/cudasim" -I"$source/test/cudasim/control" -I"$WORK" -I"$source/include" \
  -I"$source/test" -DTUCK_CUDASIM=1 "$source/test/core/device_test.cu" | grep -q "$WORK/tuck"; then
  echo "the simulator includes the fault, too"
  exit 1
fi

"$NVCC" -std=c++20 -O0 -lineinfo -Wno-deprecated-gpu-targets -gencode "arch=compute_$ARCH,code=compute_$ARCH" \
  -Xfatbin --compress=false -cudart none -DTUCK_CUDASIM=1 -DTUCK_CUDAPTX=1 -I"$WORK" -I"$source/include" \
  -I"$source/test" -I"$source/test/cudasim/control" "$test" $libraries -o "$WORK/test"
if "$WORK/test" >"$WORK/log" 2>&1; then
  echo "the fault was not noticed"
  exit 1
fi
grep -m 3 -E '^\[  FAILED  \]|PTX engine' "$WORK/log"
