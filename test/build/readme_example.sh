# readme_example.sh README WORKDIR COMPILER...: each ```cpp block of the README compiles, runs and exits with 0.
readme=$1 work=$2
shift 2
rm -f "$work"/readme_example_*
awk -v to="$work/readme_example_" '/^```cpp/ { file = to (++n) ".cpp"; next } /^```/ { file = "" } file != "" { print > file }' \
  "$readme"
[ -s "$work/readme_example_1.cpp" ] || { echo "no \`\`\`cpp block in $readme"; exit 1; }
for source in "$work"/readme_example_*.cpp; do
  "$@" "$source" -o "${source%.cpp}" && "${source%.cpp}" || { cat "$source"; exit 1; }
done
