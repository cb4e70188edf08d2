# must_not_compile.sh SOURCE MESSAGE COMPILER...: SOURCE fails with one error, and it is MESSAGE.
source=$1 message=$2
shift 2
if output=$("$@" "$source" 2>&1); then
  echo "$source compiles"
  exit 1
fi
echo "$output"
errors=$(echo "$output" | grep -c ' error: ')
[ "$errors" = 1 ] || { echo "--- $errors errors instead of one"; exit 1; }
echo "$output" | grep ' error: ' | grep -q "$message"
