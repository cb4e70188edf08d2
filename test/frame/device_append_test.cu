// Frames one behind the other, where only the device knows how long they are.
#include "support/codecs.hpp"
#include "support/device.hpp"

namespace tuck::test {
namespace {

uint64_t in_units(uint64_t size) { return (size + append_alignment - 1) / append_alignment * append_alignment; }

// Rooms and results of appends.
struct appender {
  // All memory has values, because tests download all of it.
  explicit appender(uint64_t size)
      : room(std::vector<std::byte>(size, std::byte{0x5a}), queue.stream),
        used({0}, queue.stream),
        offsets(std::vector<uint64_t>(16, ~uint64_t{0}), queue.stream),
        outcomes(std::vector<outcome>(16, outcome{.code = status::not_ready}), queue.stream) {}

  template <codec C> result operator()(const C& codec, span<const value_t<C>> values, frame_options options = {}) {
    const result r = append(codec, values, room.all(), used.data(), offsets.data() + calls, queue.scratch(),
                            outcomes.data() + calls, queue.stream, options);
    ++calls;
    return r;
  }
  uint64_t filled() { return used.download(queue.stream)[0]; }

  device_queue queue;
  device_array<std::byte> room;
  device_array<uint64_t> used, offsets;
  device_array<outcome> outcomes;
  uint64_t calls = 0;
};

template <class C> class append_suite : public ::testing::Test {};
using appended = ::testing::Types<zvc<float>, deflate<uint8_t>, quantize<float>>;
TYPED_TEST_SUITE(append_suite, appended, codec_names);

TYPED_TEST(append_suite, frames_lie_one_behind_the_other) {
  for_schedules(4, [] {
    appender put(1 << 19);
    const auto codec = sample<TypeParam>::codec();
    std::vector<std::vector<value_t<TypeParam>>> tensors;
    std::vector<frame_bytes> frames;
    for (const uint64_t count : {20000, 1, 0, 5000, 4096}) {
      tensors.push_back(sample<TypeParam>::tensor(count, .7, pattern::iid, count));
      frames.push_back(encoded(codec, tensors.back()));
    }
    std::vector<std::unique_ptr<device_array<value_t<TypeParam>>>> in;
    for (const auto& t : tensors) {
      in.push_back(std::make_unique<device_array<value_t<TypeParam>>>(t, put.queue.stream));
      const span<const value_t<TypeParam>> values = in.back()->all();
      ASSERT_EQ(put(codec, values).code, status::ok);
    }
    const auto offsets = put.offsets.download(put.queue.stream);
    const auto outcomes = put.outcomes.download(put.queue.stream);
    const auto room = put.room.download(put.queue.stream);
    uint64_t at = 0;
    for (size_t i = 0; i < frames.size(); ++i) {
      EXPECT_EQ(offsets[i], at);
      ASSERT_EQ(outcomes[i].code, status::ok);
      ASSERT_EQ(outcomes[i].bytes, frames[i].size());
      EXPECT_EQ(std::memcmp(room.data() + at, frames[i].data(), frames[i].size()), 0) << i;
      at += in_units(frames[i].size());
    }
    EXPECT_EQ(put.filled(), at);
  });
}

TEST(append, what_does_not_fit_leaves_no_trace) {
  const auto values = sparse_tensor<float>(8 * 4096, .5);
  const uint64_t size = encoded(zvc<float>{}, values).size();
  // Room for two and for less than a third: for its header, not even for that, for all but its last unit.
  for (const uint64_t rest : {append_alignment, uint64_t{0}, in_units(size) - append_alignment}) {
    appender put(2 * in_units(size) + rest);
    const device_array<float> in(values, put.queue.stream);
    const span<const float> all = in.all();
    for (int i = 0; i < 3; ++i) ASSERT_EQ(put(zvc<float>{}, all).code, status::ok);
    const auto outcomes = put.outcomes.download(put.queue.stream);
    EXPECT_EQ(outcomes[1].code, status::ok);
    EXPECT_EQ(outcomes[2].code, status::output_too_small);
    EXPECT_EQ(outcomes[2].bytes, size);
    EXPECT_EQ(put.filled(), 2 * in_units(size));
    ASSERT_EQ(put(zvc<float>{}, all.subspan(0, 0)).code, status::ok);  // what fits goes there
    EXPECT_EQ(put.outcomes.download(put.queue.stream)[3].code, rest == 0 ? status::output_too_small : status::ok);
  }
}

TEST(append, a_fill_level_beyond_the_room_has_no_room) {
  appender put(1 << 12);
  put.used.upload({~uint64_t{0} / append_alignment * append_alignment}, put.queue.stream);
  const device_array<float> in(100);
  check(cudaMemsetAsync(in.data(), 1, 400, put.queue.stream));
  const span<const float> all = in.all();
  ASSERT_EQ(put(zvc<float>{}, all).code, status::ok);
  EXPECT_EQ(put.outcomes.download(put.queue.stream)[0].code, status::output_too_small);
}

TEST(append, what_is_refused) {
  appender put(1 << 12);
  const device_array<float> in(100);
  const span<const float> all = in.all();
  auto& q = put.queue;
  const auto attempt = [&](bytes room, uint64_t* used, uint64_t* offset) {
    return append(zvc<float>{}, all, room, used, offset, q.scratch(), q.written(), q.stream).code;
  };
  uint64_t *const used = put.used.data(), *const offset = put.offsets.data();
  EXPECT_EQ(attempt({}, used, offset), status::output_too_small);
  EXPECT_EQ(attempt(put.room.all(), nullptr, offset), status::invalid_argument);
  EXPECT_EQ(attempt(put.room.all(), used, nullptr), status::invalid_argument);
  EXPECT_EQ(attempt(put.room.all().subspan(64), used, offset), status::misaligned);
  EXPECT_EQ(attempt(put.room.all(), reinterpret_cast<uint64_t*>(reinterpret_cast<char*>(used) + 4), offset),
            status::misaligned);
}

}  // namespace
}  // namespace tuck::test
