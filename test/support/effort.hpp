// How much to try. Sanitizers and the PTX engine take an order of magnitude longer, and the quick tests are to be
// quick: they are brief. TUCK_LONG=1 in the environment asks for all rounds, the CMake option TUCK_LONG_TESTS for all
// codecs, which take long to compile.
#pragma once

#if __has_include(<tuck_effort.h>)
#include <tuck_effort.h>
#endif

#include <cstdlib>

namespace tuck::test {

#if defined(TUCK_BRIEF) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool brief = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool brief = true;
#else
inline constexpr bool brief = false;
#endif
#else
inline constexpr bool brief = false;
#endif

#if defined(TUCK_LONG_TESTS)
inline constexpr bool long_tests = true;
#else
inline constexpr bool long_tests = false;
#endif

inline bool long_run() { return std::getenv("TUCK_LONG") != nullptr; }

}  // namespace tuck::test
