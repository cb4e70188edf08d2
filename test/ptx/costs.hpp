// What a call's kernels execute, and how long they take by the model of time.
#pragma once

#include "budgets.hpp"

#include <cstdint>
#include <functional>

namespace tuck::test {

// Counts. Blocks run one after the other, so that none waits and the counts do not hang on a schedule.
call_cost counted(uint64_t tensor_bytes, const std::function<void()>& call);

// Adds the time on two multiprocessors of an H100, without launching. What runs must be compiled for sm_90.
void add_time(call_cost& cost, const std::function<void()>& call);

}  // namespace tuck::test
