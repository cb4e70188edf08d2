# What of tuck goes together with what comes with nvcc.
. "$(dirname "$0")/common.sh"
need_arch 90
compile $quickly -arch=sm_90 -I"$here/../../examples" -c "$here/containers.cu" -o "$work/containers.o"
