// The levels of vector instructions that this CPU has, one after the other.
#pragma once

#include <tuck/core/cpu.hpp>

namespace tuck::test {

// Calls work(level) while host code uses no more than that. Not beside other threads' tests.
template <class Work> void at_each_cpu_level(const Work& work) {
  const cpu_level highest = tuck::detail::highest_cpu_level(), before = level_of_cpu();
  for (const cpu_level level : {cpu_level::baseline, cpu_level::avx2, cpu_level::avx512}) {
    if (level > highest) break;
    tuck::detail::level_in_use() = level;
    work(level);
  }
  tuck::detail::level_in_use() = before;
}

}  // namespace tuck::test
