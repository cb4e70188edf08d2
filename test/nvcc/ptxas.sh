# ptxas.sh [--few] [--update] [ARCH...]: what the compiler makes of each kernel of kernels.cu, against
# baseline.txt. Architectures are numbers; without any, all of them, which takes an hour of CPU time. --few: of each
# kernel with a type or two only. TUCK_KERNELS in the environment: another file in place of kernels.cu.
#
# Fails on stack, PTX .local, doubles where values are none, frames not moved 16 bytes at a time, more than 48 KiB of
# shared memory, more than 64 bytes spilled; on more registers, shared memory, spilled bytes or divisions than the
# baseline says, or 10 % more instructions; on a division in a loop, and on more than 1.3 instructions for each of the
# PTX, where the baseline has not that many. That baseline is one compiler's: another is not compared to it. The compiler
# keeps to the registers of the launch bound. --update writes what was measured in place of the baseline's rows of these
# architectures; with --few or TUCK_KERNELS, in place of the rows of the same kernels.
#
# A few kernels spill a register or two on one architecture, once a chunk. A block less on each multiprocessor would cost
# more.
. "$(dirname "$0")/common.sh"
baseline=${TUCK_BASELINE:-$here/baseline.txt}
kernels=${TUCK_KERNELS:-$here/kernels.cu}
update=
few=
while :; do
  case ${1:-} in
    --update) update=$1 ;;
    --few) few=-DTUCK_FEW_KERNELS ;;
    *) break ;;
  esac
  shift
done
[ $# != 0 ] || set -- 75 80 86 89 90 100 120
some=$few${TUCK_KERNELS:-}

# measure ARCH: arch|kernel|registers|shared|instructions|divisions|stack|spilled|local|doubles|vectors|divisions in
# loops|instructions for each of the PTX, of each kernel
measure() {
  compile $few -arch="sm_$1" -ptx "$kernels" -o "$work/kernels.ptx"
  if [ -n "${PTX_LOAD:-}" ]; then "$PTX_LOAD" "$work/kernels.ptx" >&2; fi  # does the engine of test/ptx know it all?
  "$nvcc" -arch="sm_$1" -cubin -Wno-deprecated-gpu-targets -Xptxas -v,-warn-spills "$work/kernels.ptx" \
    -o "$work/kernels.cubin" >"$work/ptxas.log" 2>&1 || { cat "$work/ptxas.log" >&2; return 1; }
  if grep warning "$work/ptxas.log" | grep -v -i spill >&2; then return 1; fi  # spills are counted below
  readelf -SW "$work/kernels.cubin" 2>/dev/null | sed -n 's/^ *\[ *[0-9]*\] \.text\./text /p' >"$work/sections"
  sed -n "s/.*Compiling entry function '\(.*\)' for.*/\1/p" "$work/ptxas.log" >"$work/mangled"
  c++filt <"$work/mangled" | paste -d '|' "$work/mangled" - >"$work/names"
  awk -v arch="sm_$1" -f "$here/ptxas.awk" "$work/names" "$work/ptxas.log" "$work/sections" "$work/kernels.ptx" \
    >"$work/unsorted"
  LC_ALL=C sort -t "|" -k 2 "$work/unsorted"
}

for arch; do need_arch "$arch"; done
for arch; do measure "$arch" >>"$work/measured"; done
[ -s "$work/measured" ] || { echo "no kernels"; exit 1; }

pinned=$(sed -n 's/^nvcc //p' "$baseline")
if [ "$update" ]; then
  if [ "$pinned" != "$version" ] && { [ "$some" ] || [ $# != 7 ]; }; then
    echo "the baseline is of nvcc $pinned and this is $version: update all of it"
    exit 1
  fi
  {
    echo "# What ptxas.sh --update measured. divisions: div and rem in PTX, which is two for each 64-bit one; how many"
    echo "# of them in loops. of_ptx: instructions for each of the PTX. spilled: bytes that a thread stores, and loads."
    echo "nvcc $version"
    # number of the architecture|kernel|row, of what was measured and of what the baseline keeps. Of equal rows the
    # first one stays.
    {
      awk -F '|' '{
        format = "%-7s %-56s %9s %6s %7s %12s %9s %8s %6s\n"
        if (NR == 1) printf "0||" format, "arch", "kernel", "registers", "shared", "spilled", "instructions", \
                            "divisions", "in_loops", "of_ptx"
        printf "%s|%s|" format, substr($1, 4), $2, $1, $2, $3, $4, $8, $5, $6, $12, $13
      }' "$work/measured"
      awk -v measured=" $* " -v some="$some" '/^sm_/ {
        kernel = $2
        for (i = 3; i <= NF - 7; ++i) kernel = kernel " " $i
        arch = substr($1, 4)
        if (some != "" || index(measured, " " arch " ") == 0) print arch "|" kernel "|" $0
      }' "$baseline"
    } | LC_ALL=C sort -s -u -t '|' -k 1,1n -k 2,2 | cut -d '|' -f 3-
  } >"$work/new"
  mv "$work/new" "$baseline"
  pinned=$version
fi

if [ "$pinned" != "$version" ]; then
  echo "nvcc is $version and the baseline is of $pinned: growth is not checked"
  pinned=
fi
awk -F '|' -v compare="$pinned" -v some="$some" '
  BEGIN { format = "%-7s %-56s %9s %6s %7s %12s %9s %8s %6s  %s\n" }
  FNR == NR {  # the baseline
    n = split($0, field, " ")
    if (field[1] !~ /^sm_/) next
    name = field[2]
    for (i = 3; i <= n - 7; ++i) name = name " " field[i]
    was[field[1], name, 3] = field[n - 6]
    was[field[1], name, 4] = field[n - 5]
    was[field[1], name, 8] = field[n - 4]
    was[field[1], name, 5] = field[n - 3]
    was[field[1], name, 6] = field[n - 2]
    was[field[1], name, 12] = field[n - 1]
    was[field[1], name, 13] = field[n]
    known[field[1], name] = 1
    next
  }
  function fail(what) { verdict = verdict (verdict == "" ? "" : ", ") what }
  function growth(i, what, factor) {
    if ($i > was[$1, $2, i] * factor) fail($i " " what ", baseline " was[$1, $2, i])
  }
  FNR == 1 {
    printf format, "arch", "kernel", "registers", "shared", "spilled", "instructions", "divisions", "in_loops", "of_ptx", ""
  }
  {
    verdict = ""
    built[$1, $2] = of_arch[$1] = 1
    if ($3 + 0 == 0 || $5 + 0 == 0 || $7 == "") fail("not measured")
    if ($4 > 48 * 1024) fail("more than 48 KiB shared")
    if ($7 > $8 + 0) fail($7 " bytes stack")
    if ($8 > 64) fail($8 " bytes spilled")
    if ($9 > 0) fail($9 " .local")
    if ($10 > 0 && $2 !~ /quantize f64$|quantize_codes f64|statistics/) fail($10 " .f64")  # doubles are
    # The outcome is one such store of an encode kernel.
    if ($2 ~ /^encode(_batch)? / && $11 < 2) fail("frame not written 16 bytes at a time")
    if ($2 ~ /^decode(_batch)? / && $11 < 1) fail("frame not read 16 bytes at a time")
    if (compare != "") {
      if (!known[$1, $2]) {
        fail("not in the baseline")
      } else {
        growth(3, "registers", 1)
        growth(4, "bytes shared", 1)
        growth(5, "instructions", 1.1)
        growth(6, "divisions", 1)
        growth(8, "bytes spilled", 1)
        growth(12, "divisions in loops", 1)
        if ($13 > 1.3) growth(13, "instructions for each of the PTX", 1.03)
      }
    }
    printf format, $1, $2, $3, $4, $8, $5, $6, $12, $13, verdict == "" ? "ok" : "FAILED: " verdict
    if (verdict != "") failed = 1
  }
  END {
    if (compare != "" && some == "")
      for (key in known) {
        split(key, field, SUBSEP)
        if (!of_arch[field[1]] || built[key]) continue
        print "in the baseline only: " field[1] " " field[2]
        failed = 1
      }
    exit failed
  }' "$baseline" "$work/measured"
