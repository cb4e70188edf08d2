# quick_budget.sh BUILD UNITS PROCESSES: the quick tests stay quick, counted rather than timed: so many translation units
# and processes at most. More needs a reason, and something else that goes to the full tests.
set -eu
units=$(ninja -C "$1" -t commands check | grep -c -e ' -c ')
processes=$(cd "$1" && ctest -N | sed -n 's/^Total Tests: //p')
echo "$units translation units of $2, $processes processes of $3"
[ "$units" -gt 20 ] && [ "$units" -le "$2" ] && [ "$processes" -gt 20 ] && [ "$processes" -le "$3" ]
