#include "support/frames.hpp"

namespace tuck::test {
namespace {

TEST(format, header_is_at_fixed_places) {
  const std::vector<float> values(100000, 1.5f);
  const auto metadata = std::vector<std::byte>(13, std::byte{'m'});
  const auto frame = encoded(zvc<float>{}, values, {.checksums = true, .metadata = metadata});
  const std::byte* p = frame.data();
  EXPECT_EQ(std::memcmp(p, "TUCK", 4), 0);
  EXPECT_EQ(load_unaligned<uint16_t>(p + 4), 1);              // version
  EXPECT_EQ(load_unaligned<uint8_t>(p + 6), 11);              // f32
  EXPECT_EQ(load_unaligned<uint8_t>(p + 7), 5);               // 32-byte alignment
  EXPECT_EQ(load_unaligned<uint32_t>(p + 8), 1u);             // checksums
  EXPECT_EQ(load_unaligned<uint32_t>(p + 12), 4096u);         // values a chunk
  EXPECT_EQ(load_unaligned<uint64_t>(p + 16), 100000u);       // values
  EXPECT_EQ(load_unaligned<uint64_t>(p + 24), frame.size());  // bytes
  EXPECT_EQ(load_unaligned<uint64_t>(p + 32), 13u);           // metadata
  EXPECT_EQ(load_unaligned<uint16_t>(p + 40), 1);             // zvc
  EXPECT_EQ(load_unaligned<uint8_t>(p + 42), 1);              // its version
  EXPECT_EQ(load_unaligned<uint64_t>(p + 104), 0u);           // base_digest
  EXPECT_EQ(std::memcmp(p + 128, metadata.data(), 13), 0);
  EXPECT_EQ(load_unaligned<uint64_t>(p + 144) >> 60, 2u);  // directory: a uniform chunk ...
  EXPECT_EQ(load_unaligned<uint64_t>(p + 144) >> 40 & 0xfffff, 4u);
  EXPECT_EQ(load_unaligned<uint64_t>(p + 144) & 0xffffffffff, (144 + 25 * 16 + 31) / 32u);  // ... of 25
}

TEST(format, entry_fields_do_not_touch) {
  constexpr auto entry =
      directory_entry::make(chunk_kind::uniform, directory_entry::max_bytes, directory_entry::max_start);
  static_assert(entry.kind() == chunk_kind::uniform && entry.bytes() == directory_entry::max_bytes &&
                entry.start() == directory_entry::max_start);
  constexpr auto other = directory_entry::make(chunk_kind::raw, 5, 7);
  static_assert(other.kind() == chunk_kind::raw && other.bytes() == 5 && other.start() == 7);
}

TEST(format, layout_is_64_bit) {
  frame_header h;
  h.type = dtype::f32;
  h.chunk_values = 4096;
  h.value_count = (uint64_t{1} << 44) + 1;  // 64 TiB
  const frame_layout at = layout_of(h);
  EXPECT_EQ(at.chunks, (uint64_t{1} << 32) + 1);
  EXPECT_EQ(at.checksums - at.directory, ((uint64_t{1} << 32) + 1) * 8);
  EXPECT_EQ(values_in_chunk(h, uint64_t{1} << 32), 1u);
  EXPECT_EQ(values_in_chunk(h, (uint64_t{1} << 32) - 1), 4096u);
}

TEST(format, layout_saturates_on_absurd_sizes) {
  frame_header h;
  h.type = dtype::f64;
  h.chunk_values = 32;
  h.value_count = ~uint64_t{0};
  h.metadata_bytes = ~uint64_t{0} - 3;
  h.flags = flag_checksums;
  EXPECT_GE(layout_of(h).payloads, uint64_t{1} << 62);
  EXPECT_GE(layout_of(h).directory, uint64_t{1} << 62);
}

TEST(format, worst_case_is_a_raw_frame) {
  for (const uint64_t count : {2, 31, 4095, 4096, 4097, 10000})
    EXPECT_EQ(encoded(zvc<float>{}, sparse_tensor<float>(count, 0)).size(), max_frame_bytes(zvc<float>{}, count));
  EXPECT_EQ(max_frame_bytes(zvc<float>{}, 0), 128u);
}

TEST(format, impossible_options_are_refused) {
  const std::vector<float> values(10, 1.f);
  frame_bytes room(100000);
  const auto attempt = [&](const frame_options& o) { return host::encode(zvc<float>{}, values, room, o).code; };
  EXPECT_EQ(attempt({.chunk_values = 33}), status::invalid_argument);
  EXPECT_EQ(attempt({.chunk_values = 16 * 1024 + 32}), status::invalid_argument);
  EXPECT_EQ(attempt({.chunk_values = 16 * 1024}), status::ok);
  EXPECT_EQ(attempt({.alignment = 0}), status::invalid_argument);
  EXPECT_EQ(attempt({.alignment = 8}), status::invalid_argument);
  EXPECT_EQ(attempt({.alignment = 16}), status::ok);
  EXPECT_EQ(attempt({.alignment = 48}), status::invalid_argument);
  EXPECT_EQ(attempt({.alignment = 8192}), status::invalid_argument);
  EXPECT_EQ(attempt({.alignment = 4096}), status::ok);
  EXPECT_EQ(max_frame_bytes(zvc<float>{}, 10, {.chunk_values = 33}), 0u);
  frame_bytes none(max_frame_bytes(zvc<float>{}, 10, {.chunk_values = 33}));  // and encode says why
  EXPECT_EQ(host::encode(zvc<float>{}, values, none, {.chunk_values = 33}).code, status::invalid_argument);
  EXPECT_EQ(max_frame_bytes(zvc<double>{}, ~uint64_t{0} / 8), 0u);
  frame_header h;
  EXPECT_EQ(make_header(zvc<float>{}, uint64_t{1} << 44, {.alignment = 16}, h), status::size_overflow);
  EXPECT_EQ(make_header(zvc<float>{}, uint64_t{1} << 42, {.alignment = 16}, h), status::size_overflow);
  EXPECT_EQ(make_header(zvc<float>{}, uint64_t{1} << 41, {.alignment = 16}, h), status::ok);
}

}  // namespace
}  // namespace tuck::test
