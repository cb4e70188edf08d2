// Chooses among the CPUs of core/cpu_windows.hpp. No other host code does.
#pragma once

#include <tuck/core/cpu_neon.hpp>
#include <tuck/core/cpu_x86.hpp>

namespace tuck::inline TUCK_ABI::detail {

#if defined(TUCK_AVX2)
using baseline_cpu = sse2_cpu;
#elif defined(TUCK_NEON)
using baseline_cpu = neon_cpu;
#else
using baseline_cpu = plain_cpu;
#endif

// Calls body(CPU) for the CPU in use. The body is compiled for each CPU, together with all functions that it inlines.
template <class Body> auto on_cpu(const Body& body) noexcept {
#if defined(TUCK_AVX2)
  switch (level_of_cpu()) {
    case cpu_level::avx512: return avx512_cpu::run(body);
    case cpu_level::avx2: return avx2_cpu::run(body);
    case cpu_level::baseline: break;
  }
#endif
  return baseline_cpu::run(body);
}

// The same, but only for AVX2 and the baseline. If the body takes no argument, calls body(): for loops that compilers
// vectorize. Such bodies can be nested.
template <class Body> auto vectorized(const Body& body) noexcept {
#if defined(TUCK_AVX2)
  if (avx2::available()) return avx2_cpu::run(body);
#endif
  if constexpr (requires { body(baseline_cpu{}); })
    return baseline_cpu::run(body);
  else
    return body();
}

}  // namespace tuck::inline TUCK_ABI::detail
