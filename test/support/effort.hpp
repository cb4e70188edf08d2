// How much to try: sanitizers take an order of magnitude longer. TUCK_LONG=1 in the environment asks for all rounds,
// the CMake option TUCK_LONG_TESTS for all codecs, which take long to compile.
#pragma once

#include <cstdlib>

namespace tuck::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
#else
inline constexpr bool sanitized = false;
#endif

#if defined(TUCK_LONG_TESTS)
inline constexpr bool long_tests = true;
#else
inline constexpr bool long_tests = false;
#endif

inline bool long_run() { return std::getenv("TUCK_LONG") != nullptr; }

}  // namespace tuck::test
