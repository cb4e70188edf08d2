# tuck beside rmm, whose headers and those of rapids_logger are looked for in $TUCK_RMM: what
# `pip download --no-deps librmm-cu13 rapids-logger` brings, unpacked into one folder. Compiled only: its library brings
# a CUDA runtime of its own.
. "$(dirname "$0")/common.sh"
rmm=${TUCK_RMM:-}
if [ ! -d "$rmm/librmm/include/rmm" ]; then
  echo "skipped: TUCK_RMM names no folder with librmm"
  exit 77
fi
need_arch 90
compile $quickly -arch=sm_90 -I"$rmm/librmm/include" -I"$rmm/librmm/include/rapids" -I"$rmm/rapids_logger/include" \
  -I"$here/../../examples" -c "$here/rmm.cu" -o "$work/rmm.o"
