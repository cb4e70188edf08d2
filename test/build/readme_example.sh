# readme_example.sh README WORKDIR COMPILER...: the first ```cpp block of the README compiles, runs and exits with 0.
readme=$1 work=$2
shift 2
awk '/^```cpp/ { inside = 1; next } /^```/ { if (inside) exit } inside' "$readme" > "$work/readme_example.cpp"
[ -s "$work/readme_example.cpp" ] || { echo "no \`\`\`cpp block in $readme"; exit 1; }
"$@" "$work/readme_example.cpp" -o "$work/readme_example" && "$work/readme_example"
