# units.sh -c|-dc: units that differ in flags link into one program, and it runs; -dc: with relocatable device code.
# The host's compiler is as strict as the code that nvcc gives it allows.
. "$(dirname "$0")/common.sh"
need_arch 90
mode=$1
strict=-Wall,-Wextra,-Wconversion,-Wshadow

unit() {
  name=$1
  shift
  compile "$mode" "-DUNIT=${name}_unit" -arch=sm_90 "$@" "$here/unit.cu" -o "$work/$name.o"
}
unit fast -O3 -use_fast_math -fmad=true -Xcompiler "$strict"
unit plain -O1
unit no_exceptions -Xcompiler "$strict,-fno-exceptions,-fno-rtti"
compile -c -Xcompiler "$strict" "$here/units.cpp" -o "$work/main.o"
"$nvcc" -arch=sm_90 -cudart static "$work"/*.o -o "$work/units"
"$work/units"
