// All engines, and a thread that ends the process when one of them does not move.
#pragma once

#include <cstdint>
#include <string>

namespace cudasim::detail {

class engine;
struct launch;

void provide_signal_stack();  // for this thread: a fiber's own may be what overflowed
void watch(engine* e);
void unwatch(engine* e);
std::uint64_t total_progress();
bool all_hung(const launch* job, std::uint64_t progress);     // every engine of the launch has only polled since
std::string others_of(const launch* job, const engine* but);  // where the launch's other workers are
void give_time();                                             // to other threads

}  // namespace cudasim::detail
