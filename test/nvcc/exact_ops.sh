# exact_ops.sh: flags that loosen arithmetic change neither the PTX of the exact operations nor their machine code.
. "$(dirname "$0")/common.sh"
need_arch 90
status=0

# build NAME FLAG...: NAME.ptx with instruction lines only, and NAME.code.
build() {
  name=$1
  shift
  compile "$@" -arch=sm_90 -ptx "$here/exact_ops.cu" -o "$work/all.ptx"
  sed -e 's,//.*,,' -e 's/^[ 	]*//' "$work/all.ptx" | grep '^[@a-z].*;' >"$work/$name.ptx"
  "$nvcc" "$@" -arch=sm_90 -cubin "$work/all.ptx" -o "$work/cubin"
  for kernel in $(readelf -SW "$work/cubin" 2>/dev/null | sed -n 's/.* \.text\.\([^ ]*\) .*/\1/p' | sort); do
    readelf -x ".text.$kernel" "$work/cubin" 2>/dev/null
  done >"$work/$name.code"
}

build plain
[ "$(grep -c 0x "$work/plain.code")" -gt 16 ] || { echo "no machine code found"; exit 1; }
for type in f32 f64; do
  for operation in add:2 sub:3 mul:4; do
    wanted=${operation#*:}
    found=$(grep -c "^${operation%:*}\.rn\.$type" "$work/plain.ptx") || true
    [ "$found" = "$wanted" ] || { echo "$found ${operation%:*}.rn.$type instead of $wanted"; status=1; }
  done
done

for flags in "-use_fast_math" "-fmad=false"; do
  build loose $flags
  for what in ptx code; do
    if diff "$work/plain.$what" "$work/loose.$what"; then
      echo "$flags: the same $what"
    else
      echo "$flags: another $what"
      status=1
    fi
  done
done
exit $status
