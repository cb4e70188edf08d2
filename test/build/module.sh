# module.sh WORK CLANG...: a module whose global fragment includes tuck, and a program that imports it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$1
shift
mkdir -p "$work"
cd "$work"
"$@" -std=c++20 "-I$here/../../include" --precompile "$here/module/tuck.cppm" -o tuck.pcm
"$@" -c tuck.pcm -o tuck.o
"$@" -std=c++20 -fprebuilt-module-path=. -ferror-limit=0 -c "$here/module/main.cpp" -o main.o
"$@" -pthread main.o tuck.o -o main
./main
