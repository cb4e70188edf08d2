// SPDX-License-Identifier: Apache-2.0
// Which vector instructions host code uses. That is found out once, at run time; compiler flags have no influence. The
// environment variable TUCK_CPU, set to baseline, avx2 or avx512, lowers the level. All levels write the same bytes.
// No other host code chooses among the CPUs of core/cpu_windows.hpp.
#pragma once

#include <tuck/core/cpu_x86.hpp>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace tuck::inline TUCK_ABI {

/// A set of vector instructions. baseline: what every CPU has, which is SSE2 on x86-64 and NEON on aarch64. Each level
/// includes the one before.
enum class cpu_level : uint8_t { baseline, avx2, avx512 };

/// Returns the name of a level, as TUCK_CPU takes it.
constexpr const char* name(cpu_level level) noexcept {
  constexpr const char* names[] = {"baseline", "avx2", "avx512"};
  return names[static_cast<int>(level)];
}

namespace detail {

// Returns the level of this CPU. Checks each extension that the macros of config.hpp name, because a virtual machine
// may offer some of them and hide others.
inline cpu_level highest_cpu_level() noexcept {
#if defined(TUCK_AVX2)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2") ||
      !__builtin_cpu_supports("popcnt"))
    return cpu_level::baseline;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512vbmi2"))
    return cpu_level::avx2;
  return cpu_level::avx512;
#else
  return cpu_level::baseline;
#endif
}

// Reports an unknown value of TUCK_CPU on the standard error. An empty value counts as none.
inline cpu_level find_cpu_level() noexcept {
  const cpu_level highest = highest_cpu_level();
  const char* const wanted = std::getenv("TUCK_CPU");
  if (wanted == nullptr || *wanted == '\0') return highest;
  for (const cpu_level level : {cpu_level::baseline, cpu_level::avx2, cpu_level::avx512})
    if (std::string_view(wanted) == name(level)) return level < highest ? level : highest;
  std::fputs("tuck: TUCK_CPU: an unknown value is ignored; use baseline, avx2 or avx512\n", stderr);
  return highest;
}

// The level that host code uses. Tests change it.
inline std::atomic<cpu_level>& level_in_use() noexcept {
  static std::atomic<cpu_level> level{find_cpu_level()};
  return level;
}

}  // namespace detail

/// Returns the level in use. A higher level than the CPU's in TUCK_CPU has no effect. Nor has an unknown value, which
/// the first call reports on the standard error.
inline cpu_level level_of_cpu() noexcept { return detail::level_in_use().load(std::memory_order_relaxed); }

namespace detail {

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
// vectorize, also at -O1 and -O2. Such bodies can be nested.
template <class Body> auto vectorized(const Body& body) noexcept {
#if defined(TUCK_AVX2)
  if (level_of_cpu() >= cpu_level::avx2) return avx2_cpu::run(body);
#endif
  return baseline_cpu::run(body);
}

}  // namespace detail

}  // namespace tuck::inline TUCK_ABI
