# page_example.sh PAGE WORKDIR COMPILER...: each ```cpp block of the page compiles, runs and exits with 0.
page=$1 work=$2
shift 2
rm -rf "$work" && mkdir -p "$work" || exit 1
awk -v to="$work/example_" '/^```cpp/ { file = to (++n) ".cpp"; next } /^```/ { file = "" } file != "" { print > file }' "$page"
[ -s "$work/example_1.cpp" ] || { echo "no \`\`\`cpp block in $page"; exit 1; }
for source in "$work"/example_*.cpp; do
  "$@" "$source" -o "${source%.cpp}" && "${source%.cpp}" || { cat "$source"; exit 1; }
done
