#include "support/frames.hpp"

// Functions of a user's that are called as the library's are must not be found in their place.
namespace someone {
struct half {
  uint16_t bits;
};
template <class... Args> void bits_of(Args&&...) = delete;
template <class... Args> void as_bytes(Args&&...) = delete;
template <class... Args> void store_unaligned(Args&&...) = delete;
template <class... Args> void encode_chunk(Args&&...) = delete;
template <class... Args> void decode_chunk(Args&&...) = delete;
template <class... Args> void decode(Args&&...) = delete;
template <class... Args> void visit(Args&&...) = delete;
template <class... Args> void make_header(Args&&...) = delete;
template <class... Args> void max_frame_bytes(Args&&...) = delete;
template <class... Args> void checksum(Args&&...) = delete;
}  // namespace someone
template <> inline constexpr tuck::dtype tuck::dtype_of<someone::half> = tuck::dtype::f16;

namespace tuck::test {
namespace {

struct with_an_initial_value {
  uint16_t bits = 0x3c00;
};
static_assert(element<someone::half> && !element<with_an_initial_value>);

TEST(reader, types_of_the_user_s_come_back) {
  std::vector<someone::half> values(1000), restored(1000);
  for (uint16_t i = 0; i < 1000; i += 3) values[i].bits = static_cast<uint16_t>(i | 0x8000);
  frame_bytes frame(tuck::max_frame_bytes(zvc<someone::half>{}, 1000));
  ASSERT_EQ(host::encode(zvc<someone::half>{}, values, frame, {.checksums = true}).code, status::ok);
  ASSERT_EQ(host::decode(zvc<someone::half>{}, frame, restored).code, status::ok);
  EXPECT_EQ(std::memcmp(values.data(), restored.data(), 2000), 0);
  EXPECT_EQ(
      host::decode(codec_list<zvc<someone::half>>{}, frame, tuck::as_writable_bytes(span<someone::half>(restored)))
          .code,
      status::ok);
}

// A codec of the user's own: keeps the low byte of values below 256, declines any other chunk.
struct narrow {
  using value_type = uint32_t;
  static constexpr uint32_t chunk_bytes = 1024;
  uint32_t parameter = 7;

  stage_list stages() const noexcept { return {{{.id = codec_id::custom, .version = 3, .small_value = parameter}}}; }
  static status from_stages(const stage_list& stages, narrow& codec) noexcept {
    if (stages.at[0].id != codec_id::custom || stages.at[1].id != codec_id::none) return status::codec_mismatch;
    if (stages.at[0].version != 3) return status::bad_version;
    codec.parameter = stages.at[0].small_value;
    return codec.parameter != 0 ? status::ok : status::bad_parameters;
  }
  uint32_t max_chunk_bytes(uint32_t count) const noexcept { return count; }
  uint32_t encode_chunk(span<const uint32_t> values, bytes room) const noexcept {
    for (uint64_t i = 0; i < values.size(); ++i) {
      if (values[i] >= 256) return incompressible;
      room[i] = static_cast<std::byte>(values[i] + parameter);
    }
    return static_cast<uint32_t>(values.size());
  }
  status decode_chunk(const_bytes encoded, span<uint32_t> restored) const noexcept {
    if (encoded.size() != restored.size()) return status::bad_payload;
    for (uint64_t i = 0; i < restored.size(); ++i)
      restored[i] = static_cast<uint8_t>(static_cast<uint32_t>(encoded[i]) - parameter);
    return status::ok;
  }
};
static_assert(codec<narrow>);

std::vector<uint32_t> small_values_with_one_large() {
  std::vector<uint32_t> values(1000);
  for (uint32_t i = 0; i < 1000; ++i) values[i] = i % 256;
  values[300] = 1000;
  return values;
}

TEST(reader, a_custom_codec_needs_no_registration) {
  const auto values = small_values_with_one_large();
  const auto frame = encoded(narrow{.parameter = 9}, values);
  EXPECT_EQ(decoded(narrow{}, frame), values);  // the parameter comes from the frame
  frame_view view;
  ASSERT_EQ(frame_view::open(frame, view), status::ok);
  chunk_view chunk;
  ASSERT_EQ(view.chunk(0, chunk), status::ok);
  EXPECT_EQ(chunk.kind, chunk_kind::encoded);
  ASSERT_EQ(view.chunk(1, chunk), status::ok);
  EXPECT_EQ(chunk.kind, chunk_kind::raw);  // incompressible
}

// Codecs whose promises no compiler can check get a status.
struct careless : narrow {
  static inline uint32_t room = 0;
  static inline bool nameless = false;
  stage_list stages() const noexcept { return nameless ? stage_list{} : narrow::stages(); }
  static status from_stages(const stage_list&, careless&) noexcept { return status::ok; }
  uint32_t max_chunk_bytes(uint32_t) const noexcept { return room; }
};
struct tiny_chunks : narrow {
  static constexpr uint32_t chunk_bytes = 3;
  static status from_stages(const stage_list&, tiny_chunks&) noexcept { return status::ok; }
};
static_assert(codec<careless> && codec<tiny_chunks>);

TEST(reader, careless_codecs_are_refused) {
  const auto values = small_values_with_one_large();
  frame_bytes frame(10000);
  careless::room = 0xfffffff0;
  EXPECT_EQ(host::encode(careless{}, values, frame).code, status::size_overflow);
  careless::room = 1024;
  careless::nameless = true;
  EXPECT_EQ(host::encode(careless{}, values, frame).code, status::invalid_argument);
  EXPECT_EQ(host::encode(tiny_chunks{}, values, frame).code, status::invalid_argument);
  EXPECT_EQ(max_frame_bytes(tiny_chunks{}, 1000), 0u);
}

// A header of another version may be shorter or longer than ours.
TEST(reader, a_newer_version_is_named_before_anything_else_is_wrong) {
  auto frame = encoded(narrow{}, small_values_with_one_large());
  frame[4] = std::byte{2};
  frame_header header;
  for (const size_t size : {size_t{6}, size_t{64}, frame.size()})
    EXPECT_EQ(inspect(const_bytes(frame.data(), size), header), status::bad_version) << size;
  EXPECT_EQ(inspect(const_bytes(frame.data(), 5), header), status::truncated);
}

TEST(reader, null_pointers_to_something_are_refused) {
  const std::vector<uint32_t> values(100);
  auto frame = encoded(narrow{}, values);
  std::vector<uint32_t> out(values.size());
  const span<uint32_t> no_values(nullptr, 100);
  const_bytes nothing(nullptr, frame.size());
  EXPECT_EQ(host::encode(narrow{}, {nullptr, 100}, frame).code, status::invalid_argument);
  EXPECT_EQ(host::encode(narrow{}, values, bytes(nullptr, 1000)).code, status::invalid_argument);
  EXPECT_EQ(host::encode(narrow{}, values, frame, {.metadata = {nullptr, 8}}).code, status::invalid_argument);
  EXPECT_EQ(host::encoded_bytes(narrow{}, values, {.metadata = {nullptr, 8}}).code, status::invalid_argument);
  EXPECT_EQ(host::encode(narrow{}, values, frame, {.metadata_on_device = frame}).code, status::wrong_metadata);
  EXPECT_EQ(host::encode(narrow{}, values, frame, {.metadata = frame, .metadata_on_device = frame}).code,
            status::wrong_metadata);
  EXPECT_EQ(host::decode(narrow{}, nothing, out).code, status::invalid_argument);
  EXPECT_EQ(host::decode(narrow{}, frame, no_values).code, status::invalid_argument);
  EXPECT_EQ(host::decode(codec_list<narrow>{}, nothing, as_writable_bytes(span<uint32_t>(out))).code,
            status::invalid_argument);
  EXPECT_EQ(host::decode(codec_list<narrow>{}, frame, bytes(nullptr, 400)).code, status::invalid_argument);
  frame_header header;
  EXPECT_EQ(inspect(nothing, header), status::invalid_argument);
  EXPECT_EQ(inspect({nullptr, 5}, header), status::invalid_argument);
  frame_view view;
  EXPECT_EQ(frame_view::open(nothing, view), status::invalid_argument);
}

TEST(reader, inspect_needs_the_header_only) {
  const auto values = small_values_with_one_large();
  auto frame = encoded(narrow{}, values, {.alignment = 64, .checksums = true});
  const uint64_t whole = frame.size();
  frame.resize(128);
  frame_header header;
  ASSERT_EQ(inspect(frame, header), status::ok);
  EXPECT_EQ(header.type, dtype::u32);
  EXPECT_EQ(header.stages, narrow{}.stages());
  EXPECT_EQ(header.value_count, 1000u);
  EXPECT_EQ(header.frame_bytes, whole);
  EXPECT_EQ(layout_of(header).chunks, 4u);
  EXPECT_EQ(header.chunk_values, 256u);
  EXPECT_EQ(1u << header.alignment_log2, 64u);
  EXPECT_TRUE((header.flags & flag_checksums) != 0);
}

TEST(reader, visit_finds_the_codec_or_says_why_not) {
  frame_header header;
  ASSERT_EQ(inspect(encoded(narrow{.parameter = 4}, small_values_with_one_large()), header), status::ok);
  uint32_t seen = 0;
  EXPECT_EQ(visit(codec_list<zvc<uint32_t>, narrow>{}, header,
                  [&]<class C>(C codec) {
                    if constexpr (std::is_same_v<C, narrow>) seen = codec.parameter;
                  }),
            status::ok);
  EXPECT_EQ(seen, 4u);
  const auto never = [](auto) { FAIL(); };
  EXPECT_EQ(visit(codec_list<zvc<uint32_t>>{}, header, never), status::codec_mismatch);
  header.type = dtype::i32;
  EXPECT_EQ(visit(codec_list<narrow>{}, header, never), status::type_mismatch);
  header.type = dtype::u32;
  header.stages.at[0].small_value = 0;
  EXPECT_EQ(visit(codec_list<narrow>{}, header, never), status::bad_parameters);
  header.stages.at[0].version = 9;
  EXPECT_EQ(visit(codec_list<narrow>{}, header, never), status::bad_version);
}

TEST(reader, a_frame_of_another_codec_or_type_leaves_the_output_alone) {
  const auto values = sparse_tensor<uint32_t>(1000, .5);
  const auto frame = encoded(zvc<uint32_t>{}, values);
  std::vector<uint32_t> out(1000, 5);
  std::vector<int32_t> other(1000, 5);
  EXPECT_EQ(host::decode(narrow{}, frame, out).code, status::codec_mismatch);
  EXPECT_EQ(host::decode(zvc<int32_t>{}, frame, other).code, status::type_mismatch);
  EXPECT_EQ(out, std::vector<uint32_t>(1000, 5));
  EXPECT_EQ(other, std::vector<int32_t>(1000, 5));
}

TEST(reader, chunks_may_come_in_any_order_and_with_holes) {
  const auto values = sparse_tensor<float>(4 * 64, .5);
  const auto frame = encoded(zvc<float>{}, values, {.chunk_values = 64});
  const frame_layout at = layout_of(header_of(frame));
  auto moved = frame;
  moved.resize(at.payloads + 4 * 1024);
  for (uint64_t i = 0; i < 4; ++i) {
    const directory_entry old{load_unaligned<uint64_t>(frame.data() + at.directory + 8 * i)};
    const uint64_t start = at.payloads + (3 - i) * 1024;
    std::memcpy(moved.data() + start, frame.data() + old.start() * 32, old.bytes());
    store_unaligned(moved.data() + at.directory + 8 * i,
                    directory_entry::make(old.kind(), old.bytes(), start / 32).word);
  }
  auto h = header_of(moved);
  h.frame_bytes = moved.size();
  store_unaligned(moved.data(), h);
  reseal(moved);
  EXPECT_TRUE(same_bits(decoded(zvc<float>{}, moved), values));
}

}  // namespace
}  // namespace tuck::test
