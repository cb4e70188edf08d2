# units.sh -c|-dc: units that differ in flags link into one program, and it runs; -dc: with relocatable device code;
# -c: some are for other architectures, and share nothing by which a kernel is launched, so that each launches its own.
# The host's compiler is as strict as the code that nvcc gives it allows.
. "$(dirname "$0")/common.sh"
need_arch 90
mode=$1
strict=-Wall,-Wextra,-Wconversion,-Wshadow
older=-arch=sm_90 several=-arch=sm_90
if [ "$mode" = -c ]; then
  older="-gencode arch=compute_80,code=compute_80"
  several="$older -gencode arch=compute_90,code=compute_90"
fi

unit() {
  name=$1
  shift
  compile "$mode" "-DUNIT=${name}_unit" "$@" "$here/unit.cu" -o "$work/$name.o"
}
# By clang++, where it is there: it does not take all that g++ takes of the code that nvcc gives it.
clang=$(command -v clang++ || true)
unit fast -arch=sm_90 -O3 -use_fast_math -fmad=true ${clang:+-ccbin "$clang"} -include tuck/swap.cuh \
  -Xcompiler "$strict,-Wsign-compare,-Werror"
# With ranges for a profiler, where the toolkit has NVTX: its calls are others than those of the units without.
nvtx=nvtx3/nvToolsExt.h
printf '#include <%s>\n' "$nvtx" >"$work/nvtx.cu"
"$nvcc" -E "$work/nvtx.cu" -o "$work/nvtx.i" 2>"$work/nvtx.log" || nvtx=
unit no_exceptions -arch=sm_90 ${nvtx:+-include "$nvtx"} -Xcompiler "$strict,-fno-exceptions,-fno-rtti"
every="-O1 $quickly $(shared_kernels) -DEVERY_LAUNCH -Xcompiler -ffunction-sections"
unit plain -gencode arch=compute_90,code=compute_90 $every
unit older $older $every
two=
if [ "$mode" = -dc ]; then  # where `several` would be `older` once more
  two=-DTWO_LAUNCH
  every="-O1 $quickly"
fi
unit several $several $every
compile -c $two -Xcompiler "$strict,-Werror" "$here/units.cpp" -o "$work/main.o"
"$nvcc" -arch=sm_90 -cudart static "$work"/*.o -o "$work/units"
"$work/units"

[ "$mode" = -c ] || exit 0
grep -rh -A 3 '^TUCK_KERNEL' "$include" | sed -n 's/^ *\(TUCK_KERNEL.* \)*\([a-z_]*_kernel\)(.*/\2/p' | sort -u >"$work/kernels"
for name in plain older several; do
  nm "$work/$name.o" | awk '$2 ~ /[WVu]/ { print $3 }' >"$work/$name.weak"
  objdump -rw "$work/$name.o" | awk -f "$here/launches.awk" - "$work/$name.weak" | sort >"$work/$name.launches"
  grep -o '[a-z_]*_kernelI' "$work/$name.launches" | sed 's/I$//' | sort -u | diff "$work/kernels" - ||
    { echo "$name: unit.cu does not launch every kernel"; exit 1; }
done
sort "$work"/*.launches | uniq -d | c++filt >"$work/shared"
test ! -s "$work/shared" || { echo "units for different architectures share:"; cat "$work/shared"; exit 1; }
