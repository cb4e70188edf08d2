#include "coder.hpp"
#include "crc32.hpp"

#include <tuck/frame/host.hpp>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

namespace gpu_gzip {
namespace {

// Calls work(i) for each i < count, on a thread a core where there are `grain` of them for each.
template <class Work> void for_each(uint64_t count, const Work& work) {
  constexpr uint64_t grain = 4;
  std::atomic<uint64_t> next{0};
  const auto run = [&] {
    for (uint64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) work(i);
  };
  const uint64_t threads = std::min<uint64_t>(std::thread::hardware_concurrency(), count / grain);
  std::vector<std::jthread> others;
  try {
    for (uint64_t i = 1; i < threads; ++i) others.emplace_back(run);
  } catch (const std::system_error&) {
    // No more threads to be had: those there are do it all.
  }
  run();
}

class host_coder : public coder {
 public:
  uint64_t encode(tuck::span<const uint8_t> input, bytes frame, tuck::span<uint32_t> crcs) override {
    const tuck::outcome done = tuck::host::encode(codec{}, input, frame, frame_shape);
    if (!done) throw std::runtime_error(message(done.code));
    for_each(tuck::ceil_div<uint64_t>(input.size(), member_input), [&](uint64_t i) {
      const uint64_t first = i * member_input;
      crcs[i] = crc32(as_bytes(input.subspan(first, std::min<uint64_t>(input.size() - first, member_input))));
    });
    return done.bytes;
  }

  void decode(const_bytes, tuck::span<const decode_item> items, bytes out, tuck::span<decoded> results) override {
    for_each(items.size(), [&](uint64_t i) {
      const bytes room = out.subspan(items[i].at, items[i].size);
      const tuck::inflate_result result = tuck::inflate(items[i].stream, room);
      results[i] = {result, crc32(room.subspan(0, result.bytes))};
    });
  }
};

}  // namespace

std::unique_ptr<coder> make_host_coder() { return std::make_unique<host_coder>(); }

}  // namespace gpu_gzip
