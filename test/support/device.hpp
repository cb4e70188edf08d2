// Calls of the library that wait, for tests that run on a GPU and on the simulator alike.
#pragma once

#include "support/device_memory.hpp"
#include "support/frames.hpp"

#include <tuck/device.cuh>

#include <atomic>

namespace tuck::test {

// A stream with scratch and an outcome: calls here put one operation on it and wait for what becomes of it.
class device_queue {
 public:
  static constexpr uint64_t scratch_size = scratch_head_bytes + 8 * 40000;

  device_queue() : scratch_(scratch_size), outcome_(1) { EXPECT_EQ(initialize(scratch(), stream).code, status::ok); }

  scratch_span scratch() const { return scratch_.scratch(); }
  outcome* written() const { return outcome_.data(); }
  outcome finish(result started) const {
    EXPECT_EQ(started.code, status::ok) << message(started);
    return outcome_.download(stream)[0];
  }

  template <codec C>
  frame_bytes encode(const C& codec, const std::vector<value_t<C>>& values, frame_options options = {},
                     launch_options how = {}) {
    const device_array<value_t<C>> in(values, stream);
    const device_array<std::byte> metadata({options.metadata.begin(), options.metadata.end()}, stream);
    const device_array<std::byte> frame(max_frame_bytes(codec, values.size(), options));
    options.metadata = {};
    options.metadata_on_device = metadata.all();
    const span<const value_t<C>> all = in.all();
    const outcome o = finish(tuck::encode(codec, all, frame.all(), scratch(), written(), stream, options, how));
    EXPECT_EQ(o.code, status::ok);
    return frame.download(o.bytes, stream);
  }

  // Decodes into what `out` holds, so that one sees what was left alone.
  template <codec C>
  outcome decode(const C& codec, const frame_bytes& frame, std::vector<value_t<C>>& out, uint64_t first_value = 0,
                 launch_options how = {}) {
    const device_array<std::byte> in(frame, stream);
    const device_array<value_t<C>> room(out, stream);
    const outcome o = finish(tuck::decode(codec, in.all(), room.all(), scratch(), written(), stream, first_value, how));
    out = room.download(stream);
    return o;
  }

  device_stream stream;

 private:
  device_array<std::byte> scratch_;
  device_array<outcome> outcome_;
};

// Notices calls that are made while another device is the thread's.
struct bound_resource {
  int device;
  async_resource memory = {};
  std::atomic<int> wrong = 0, calls = 0;

  void* allocate_async(size_t size, size_t alignment, cudaStream_t stream) {
    look();
    return memory.allocate(stream, size, alignment);
  }
  void deallocate_async(void* p, size_t size, size_t alignment, cudaStream_t stream) {
    look();
    memory.deallocate(stream, p, size, alignment);
  }
  void look() {
    int now = -1;
    check(cudaGetDevice(&now));
    ++calls;
    wrong += now != device;
  }
};

}  // namespace tuck::test
