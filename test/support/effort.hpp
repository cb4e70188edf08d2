// How much to try. Sanitizers and the PTX engine are slow: tests try less there, with fewer codecs. The quick tests are
// the programs of the full tests and try less because of TUCK_BRIEF=1 in the environment. There, TUCK_LONG=1 asks for
// all rounds. The CMake option TUCK_LONG_TESTS asks for all codecs, which take long to compile.
#pragma once

#include <cstdlib>

namespace tuck::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(TUCK_CUDAPTX)
inline constexpr bool slow = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool slow = true;
#else
inline constexpr bool slow = false;
#endif
#else
inline constexpr bool slow = false;
#endif

// ThreadSanitizer sees threads, streams and blocks, and what these do is the same for nearly all codecs.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool threads_alone = true;
#else
inline constexpr bool threads_alone = false;
#endif

#if defined(TUCK_LONG_TESTS)
inline constexpr bool long_tests = true;
#else
inline constexpr bool long_tests = false;
#endif

inline const bool brief = slow || std::getenv("TUCK_BRIEF") != nullptr;
inline bool long_run() { return std::getenv("TUCK_LONG") != nullptr; }

}  // namespace tuck::test
