# cuh_in_cpp.sh INCLUDE COMPILER...: each .cuh of INCLUDE in a .cpp gives one #error that says what to do, and ends there.
include=$1
shift
count=0
for header in $(cd "$include" && find tuck -name "*.cuh" ! -name cuda_mr.cuh); do
  count=$((count + 1))
  said=$("$@" -include "$header" -x c++ /dev/null 2>&1 >/dev/null) && { echo "$header compiles"; exit 1; }
  errors=$(printf '%s\n' "$said" | grep -c "error: ")
  named=$(printf '%s\n' "$said" | grep -c "error: .*tuck: .cuh headers need nvcc")
  ended=$(printf '%s\n' "$said" | grep -c "fatal error: .*tuck: see the error above")
  if [ "$errors $named $ended" != "2 1 1" ]; then printf '%s\n' "$said"; exit 1; fi
done
[ $count -gt 30 ] || { echo "only $count headers"; exit 1; }
