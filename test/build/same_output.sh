# same_output.sh PROGRAM BUILT COMPILER...: what PROGRAM prints is what the program prints that COMPILER... makes of its
# last argument, a source, in BUILT. RUN_BY in the environment runs it there, where it is another machine's.
program=$1 built=$2
shift 2
"$@" -o "$built" || exit 1
expected=$("$program") || { echo "$program fails"; exit 1; }
got=$($RUN_BY "$built") || { echo "$built fails"; exit 1; }
[ "$expected" = "$got" ] && echo "$expected" | wc -l && exit 0
echo "$expected" >"$built.expected"
echo "$got" | diff "$built.expected" -
exit 1
