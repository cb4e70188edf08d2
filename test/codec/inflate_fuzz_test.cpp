// Damaged DEFLATE streams on the host: zlib's verdicts, zlib's bytes.
#include "support/deflate_samples.hpp"
#include "support/effort.hpp"

#include <tuck/codec/inflate/inflate.hpp>

namespace tuck::test {
namespace {

TEST(inflate_fuzz, agrees_with_zlib) {
  constexpr std::byte untouched{0xee};
  constexpr uint64_t guard = 16;
  const int streams = (brief ? 100000 : 1000000) * (long_run() ? 10 : 1);
  zlib_inflater zlib;
  damaged_streams damaged(1);
  byte_vector out, expected;
  uint64_t accepted = 0, rejected[128] = {};
  for (int i = 0; i < streams; ++i) {
    const auto [stream, room] = damaged.next();
    out.assign(room + guard, untouched);
    expected.resize(room);
    const inflate_result r = inflate(stream, {out.data(), room});
    const auto v = zlib.inflate(stream, expected);
    ASSERT_EQ(bool(r), v.accepted) << "stream " << i << ": " << message(r.code);
    ASSERT_LE(r.bytes, room) << "stream " << i;
    for (uint64_t k = room; k < out.size(); ++k) ASSERT_EQ(out[k], untouched) << "stream " << i;
    const uint64_t both = std::min(r.bytes, v.produced);
    ASSERT_TRUE(both == 0 || std::memcmp(out.data(), expected.data(), both) == 0) << "stream " << i;
    if (r) {
      ASSERT_EQ(r.consumed, v.consumed) << "stream " << i;
      ASSERT_EQ(r.bytes, v.produced) << "stream " << i;
    }
    ++(r ? accepted : rejected[static_cast<uint32_t>(r.code)]);
  }
  std::printf("    %llu accepted", static_cast<unsigned long long>(accepted));
  for (auto code = static_cast<uint32_t>(status::deflate_ends_early);
       code <= static_cast<uint32_t>(status::deflate_too_long); ++code) {
    std::printf(", %u: %llu", code, static_cast<unsigned long long>(rejected[code]));
    EXPECT_TRUE(rejected[code] != 0 || streams < 1000000) << message(static_cast<status>(code));
  }
  std::printf("\n");
  EXPECT_GT(accepted, static_cast<uint64_t>(streams) / 20);
}

}  // namespace
}  // namespace tuck::test
