# quick_budget.sh BUILD UNITS MOST_UNITS PROCESSES MOST_PROCESSES: has the build so many translation units and processes?
set -eu
units=$(ninja -C "$1" -t commands check | grep -c -e ' -c ')
processes=$(cd "$1" && ctest -N | sed -n 's/^Total Tests: //p')
echo "$units translation units, $2 to $3 are due; $processes processes, $4 to $5 are due"
[ "$units" -ge "$2" ] && [ "$units" -le "$3" ] && [ "$processes" -ge "$4" ] && [ "$processes" -le "$5" ]
