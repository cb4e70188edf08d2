#define TUCK_COMPILE
#include <tuck/compiled.hpp>
