// A thread has 64 to 128 registers.
#include <tuck/codec/block_policy.cuh>

struct coder {
  static constexpr int registers = 255;
};
static_assert(tuck::detail::blocks_of<coder> > 0);
