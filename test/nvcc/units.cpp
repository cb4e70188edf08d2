// A program of some device units and this plain one, which has the same types as they. -DTWO_LAUNCH: of the units, only
// the first ones have all that launches kernels.
#include <tuck/host.hpp>
#include <tuck/swap.hpp>

#include <cstdio>
#include <initializer_list>
#include <memory>
#include <vector>

using unit = tuck::result(tuck::span<const float>, const tuck::frame_options&, tuck::outcome&);
unit fast_unit, plain_unit, no_exceptions_unit, older_unit, several_unit;
using swap_maker = std::unique_ptr<tuck::swap_stream>(tuck::async_resource&);
swap_maker plain_unit, older_unit;
using swap_caller = tuck::result(tuck::swap_stream&, tuck::span<const float>, cudaStream_t, tuck::swap_handle&);
swap_caller plain_unit, older_unit;
#if !defined(TWO_LAUNCH)
swap_maker several_unit;
swap_caller several_unit;
#endif

// Without a GPU no swap_stream can be made; the calls here are linked all the same.
bool swaps(swap_maker* make, swap_caller* out, tuck::span<float> values) {
  tuck::async_resource memory;
  try {
    const auto swap = make(memory);
    tuck::swap_handle handle;
    if (swap->in(handle, values, nullptr)) return false;  // there is nothing in it
    return out(*swap, {}, nullptr, handle) && swap->in(handle, tuck::span<float>{}, nullptr) && swap->drain();
  } catch (const tuck::error&) {
    return true;
  }
}

int main() {
  std::vector<float> values(4);
  for (unit* const each :
       std::initializer_list<unit*>{fast_unit, plain_unit, no_exceptions_unit, older_unit, several_unit}) {
    tuck::outcome written;
    if (const tuck::status s = each(values, {}, written).code; s != tuck::status::invalid_argument) {
      std::printf("%s instead of %s\n", message(s), message(tuck::status::invalid_argument));
      return 1;
    }
  }
  bool swap = swaps(plain_unit, plain_unit, values) && swaps(older_unit, older_unit, values);
#if !defined(TWO_LAUNCH)
  swap = swap && swaps(several_unit, several_unit, values);
#endif
  if (!swap) {
    std::puts("a swap_stream of another unit fails");
    return 1;
  }
}
