# hidden.sh: a shared library does not export the kernels that it holds, so that none of another library takes their
# place.
. "$(dirname "$0")/common.sh"
need_arch 90
compile $quickly $(shared_kernels) -Xcompiler -fPIC -arch=sm_90 -DUNIT=unit -c "$here/unit.cu" -o "$work/unit.o"
"$nvcc" -shared -cudart static "$work/unit.o" -o "$work/unit.so"
readelf -sW "$work/unit.o" >"$work/symbols"
readelf --dyn-syms -W "$work/unit.so" >"$work/exports"
grep -q _Z4unit "$work/exports" || { echo "the library exports nothing"; exit 1; }

# The compiler names a kernel's stub, which is local, by the kernel: _ZL<length>__device_stub_<kernel>...
awk '
  FNR == 1 { ++file }
  file == 1 && $4 == "FUNC" && match($8, /^_ZL[0-9]+__device_stub_/) {
    start = index($8, "__device_stub_")
    length_of_name = substr($8, 4, start - 4)
    kernel[substr($8, start + 14, length_of_name - 14)] = 1
    ++kernels
  }
  file == 2 && $8 in kernel {
    ++found
    ok = $5 == "LOCAL" || $6 == "HIDDEN"
    print (ok ? "hidden:  " : "VISIBLE: ") $8
    if (!ok) bad = 1
  }
  file == 3 && $8 in kernel { print "EXPORTED: " $8; bad = 1 }
  END {
    if (kernels >= 2 && found == kernels) exit bad
    print kernels + 0 " kernels, " found + 0 " of them in the symbol table"
    exit 1
  }' "$work/symbols" "$work/symbols" "$work/exports"
