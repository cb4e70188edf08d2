# header.sh HEADER: includes it, twice over, in a unit of its own. For the device only, which costs a third: that
# compiler reads the host's part as well.
. "$(dirname "$0")/common.sh"
need_arch 90
printf '#include <%s>\n' "$1" "$1" >"$work/unit.cu"
compile -arch=sm_90 -ptx "$work/unit.cu" -o "$work/unit.ptx"
