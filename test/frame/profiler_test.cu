// What a profiler gets of calls on a stream, if NVTX is included before tuck. In place of NVTX are these, which record.
#include <string>
#include <vector>

namespace {
std::vector<std::string> open_ranges, seen_ranges;
}

#define NVTX_VERSION 3
#define NVTX_EVENT_ATTRIB_STRUCT_SIZE (static_cast<uint16_t>(sizeof(nvtxEventAttributes_t)))
using nvtxDomainHandle_t = const char*;
enum { NVTX_MESSAGE_TYPE_ASCII = 1 };
struct nvtxEventAttributes_t {
  unsigned short version, size;
  int messageType;
  struct {
    const char* ascii;
  } message;
};
static nvtxDomainHandle_t nvtxDomainCreateA(const char* name) { return name; }
static int nvtxDomainRangePushEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* range) {
  open_ranges.push_back(std::string(domain) + ": " + range->message.ascii);
  seen_ranges.push_back(open_ranges.back());
  return static_cast<int>(open_ranges.size());
}
static int nvtxDomainRangePop(nvtxDomainHandle_t) {
  open_ranges.pop_back();
  return 0;
}

#include "support/device.hpp"

#include <tuck/device.cuh>
#include <tuck/frame/statistics.cuh>

namespace tuck::test {
namespace {

TEST(profiler, each_call_is_a_range) {
  const device_stream stream;
  const zvc<float> codec;
  const std::vector<float> values(1000, 1);
  const device_array<float> from(values, stream), to(1000);
  const device_array<std::byte> frame(max_frame_bytes(codec, 1000)), scratch(statistics_scratch_bytes);
  const device_array<outcome> written(1);
  const span<const float> source = from.all();
  seen_ranges.clear();
  EXPECT_TRUE(initialize(scratch.scratch(), stream));
  EXPECT_TRUE(encode(codec, source, frame.all(), scratch.scratch(), written.data(), stream));
  EXPECT_TRUE(encoded_bytes(zvc_huffman<bf16>{}, span<const bf16>{}, scratch.scratch(), written.data(), stream));
  EXPECT_TRUE(decode(codec, const_bytes(frame.all()), to.all(), scratch.scratch(), written.data(), stream));
  EXPECT_FALSE(encode_delta(codec, source, source, {}, {}, nullptr, stream));
  EXPECT_FALSE(decode_batch(codec, span<const decode_item<float>>{}, {}, {}, {}, stream));
  EXPECT_FALSE(gather_statistics(source, nullptr, {}, stream));
  EXPECT_EQ(seen_ranges, (std::vector<std::string>{"tuck: encode zvc f32", "tuck: encoded_bytes zvc+huffman bf16",
                                                   "tuck: decode zvc f32", "tuck: encode_delta zvc f32",
                                                   "tuck: decode_batch zvc f32", "tuck: gather_statistics f32"}));
  EXPECT_TRUE(open_ranges.empty());
  cudaStreamSynchronize(stream);
}

TEST(profiler, long_names_are_cut) {
  detail::profiler_range range(
      "a call whose name is so long that it does not fit into what there is for it, at any rate",
      zvc_huffman<float>{}.stages(), dtype::f32);
  EXPECT_EQ(seen_ranges.back().size(), std::string("tuck: ").size() + 95);
}

}  // namespace
}  // namespace tuck::test
