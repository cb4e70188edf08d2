#include <tuck/core/status.hpp>
#include <tuck/core/version.hpp>

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace {

TEST(status, every_value_has_a_meaning_of_its_own) {
  using enum tuck::status;
  const std::set<tuck::status> all{ok,
                                   invalid_argument,
                                   size_overflow,
                                   output_too_small,
                                   bad_range,
                                   out_of_memory,
                                   type_mismatch,
                                   codec_mismatch,
                                   truncated,
                                   bad_magic,
                                   bad_version,
                                   bad_header,
                                   bad_directory,
                                   bad_chunk_entry,
                                   bad_payload,
                                   bad_checksum,
                                   bad_parameters,
                                   deflate_ends_early,
                                   deflate_block_type,
                                   deflate_stored_length,
                                   deflate_code_counts,
                                   deflate_precode,
                                   deflate_first_repeat,
                                   deflate_long_repeat,
                                   deflate_no_end_code,
                                   deflate_literal_code,
                                   deflate_distance_code,
                                   deflate_codeword,
                                   deflate_length_symbol,
                                   deflate_distance_symbol,
                                   deflate_distance,
                                   deflate_too_long,
                                   misaligned,
                                   unsupported,
                                   cuda_error,
                                   scratch_too_small,
                                   bad_bound,
                                   batch_too_large,
                                   pool_full,
                                   not_ready,
                                   not_swappable,
                                   pool_too_small,
                                   empty_handle,
                                   foreign_handle,
                                   null_pointer,
                                   wrong_size,
                                   wrong_type,
                                   unknown_codec,
                                   unsupported_type,
                                   overlapping,
                                   wrong_metadata,
                                   needs_base,
                                   not_a_delta,
                                   wrong_base,
                                   lossy_delta,
                                   not_consecutive};
  for (uint32_t number = 0; number < 128; ++number) {  // is one missing above?
    const bool known = message(static_cast<tuck::status>(number)) != std::string("unknown status");
    EXPECT_EQ(all.count(static_cast<tuck::status>(number)), known) << number;
  }
  std::set<std::string> meanings;
  for (const tuck::status s : all) meanings.insert(message(s));
  EXPECT_EQ(meanings.size(), all.size());
  EXPECT_EQ(meanings.count("unknown status"), 0u);
  for (const tuck::status s : {pool_too_small, empty_handle, foreign_handle, null_pointer, wrong_size, wrong_type,
                               unknown_codec, unsupported_type, overlapping})
    EXPECT_FALSE(is_mismatch(s)) << message(s);
  EXPECT_STREQ(message(static_cast<tuck::status>(9999)), "unknown status");
}

TEST(status, an_outcome_is_true_when_ok) {
  EXPECT_TRUE(tuck::outcome{});
  EXPECT_FALSE((std::bit_cast<tuck::outcome>(std::array<std::byte, sizeof(tuck::outcome)>{})));
  EXPECT_FALSE((tuck::outcome{.code = tuck::status::truncated}));
  static_assert(sizeof(tuck::outcome) == 16 && alignof(tuck::outcome) == 16);
}

}  // namespace
