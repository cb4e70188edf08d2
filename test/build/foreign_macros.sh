# foreign_macros.sh KIND COMPILER...: all headers of tuck whose names end in KIND (hpp or cuh), in one file, behind
# macros of other libraries' headers: real ones where they are installed, then those below, whose text no compiler takes.
set -eu
include=$(cd "$(dirname "$0")/../../include" && pwd)
kind=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The macros, by the header that has them.
macros='
Qt               emit slots signals foreach forever
complex.h        I complex imaginary _Complex_I _Imaginary_I
X11              Above Always Bool Below Complex Convex CursorShape DestroyAll Expose False FocusIn FocusOut GrayScale
X11              InputOnly InputOutput KeyPress KeyRelease MapNotify None Opposite Status Success True Unsorted ZPixmap
windows.h        ABSOLUTE ALTERNATE BOOL CALLBACK CONST CRITICAL DELETE DIFFERENCE DOMAIN ERROR FALSE FAR HIGH IGNORE IN
windows.h        INFINITE LOW MAXINT MININT NEAR NOERROR NOTHING NO_ERROR OPTIONAL OUT PASCAL RELATIVE STRICT TRUE VOID
windows.h        Yield() cdecl far hyper interface near pascal small max(a,b) min(a,b)
windows.h        CopyFile CreateFile DeleteFile FindText GetMessage GetObject LoadImage Rectangle SendMessage
termios          B0 B50 B75 B110 B134 B150 B200 B300 B600 B1200 B2400 B9600 CR0 CR1 CS5 CS6 CS7 CS8 ECHO ECHOE FF0 FF1
termios          HUPCL ICANON IXON NCCS NL0 NL1 OPOST PARENB TAB0 TAB1 TOSTOP VEOF VMIN VTIME
sys/param        CANBSIZ MAX(a,b) MIN(a,b) NBBY NCARGS NGROUPS NODEV NOFILE NOGROUP clrbit(a,i) howmany(x,y) isclr(a,i)
sys/param        isset(a,i) powerof2(x) roundup(x,y) setbit(a,i)
sys/sysmacros    major(x) makedev(x,y) minor(x)
Arduino          B1 B01 B11111111 BIN CHANGE DEC DEFAULT DISPLAY EULER EXTERNAL F(x) FALLING HALF_PI HEX HIGH INPUT
Arduino          INTERNAL LOW OCT OUTPUT PA PB PC PD PE PF PI RISING SERIAL TWO_PI _BV(x) abs(x) bit(x) bitClear(x,i)
Arduino          bitRead(x,i) bitSet(x,i) bitWrite(x,i,b) constrain(x,a,b) degrees(x) highByte(x) interrupts() lowByte(x)
Arduino          radians(x) round(x) sq(x) word(...)
glog             CHECK(x) CHECK_EQ(a,b) CHECK_ERR(x) CHECK_GE(a,b) CHECK_NE(a,b) CHECK_NEAR(a,b,c) DCHECK(x)
glog             DCHECK_EQ(a,b) DLOG(x) LOG(x) LOG_IF(x,y) PCHECK(x) PLOG(x) SYSLOG(x) VLOG(x)
cpprest          U(x)
gettext          _(x) N_(x)
kernel           ARRAY_SIZE(x) BIT(x) GENMASK(a,b) container_of(p,T,m) likely(x) unlikely(x)
term.h           columns lines
tests            EXPECT FAIL() REQUIRE(x) SECTION(x) SUCCEED() TEST(a,b)
others           BLOCK_SIZE DEBUG EPS INFO MAX_SIZE NAN_VALUE PAGE_SIZE PI_F RELEASE SIZE SWAP(a,b) WARNING WARP_SIZE YES NO
'
# CUDA's own macros have these names.
[ "$kind" = cuh ] || macros="$macros
kernel           always_inline noinline"
# What our headers include of others, and a few with such macros.
others=$(cat $(find "$include" -name '*.hpp' -o -name '*.cuh') | sed -n 's/^ *#include <\([^>]*\)>.*/\1/p' | grep -v '^tuck' |
  grep -Ev '^cuda/std|^arm_neon' | sort -u)
[ $kind = hpp ] || others=$(echo "$others" | grep -v '^cuda_[bf]')  # cuda_types.hpp has them
headers=$(cd "$include" && find tuck -name "*.$kind" | sort)
# Those that need another library's header which may not be there, and that header.
needed='tuck/core/cuda_types.hpp cuda_fp8.h
tuck/memory/cuda_mr.cuh cuda/memory_resource'
{
  for h in $others complex.h termios.h sys/param.h sys/sysmacros.h sys/ioctl.h; do
    printf '#if __has_include(<%s>)\n#include <%s>\n#endif\n' "$h" "$h"
  done
  echo "$macros" | sed 's/^[^ ]* *//' | tr -s ' ' '\n' | sed -n '/./s/^\([A-Za-z_0-9]*\)\(.*\)$/#undef \1\n#define \1\2 @/p'
  for h in $headers; do
    other=$(echo "$needed" | sed -n "s|^$h ||p")
    [ -z "$other" ] || echo "#if __has_include(<$other>)"
    echo "#include <$h>"
    [ -z "$other" ] || echo '#endif'
  done
} >"$work/all.cu"
if ! "$@" "-I$include" "$work/all.cu" 2>"$work/log"; then
  grep -m 40 -A 3 error "$work/log" || cat "$work/log"
  exit 1
fi
