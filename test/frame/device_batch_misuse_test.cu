// Batches that are not as they should be: what the host refuses, and what becomes of single items.
#include "support/batches.hpp"

namespace tuck::test {
namespace {

using floats = device_batch<zvc<float>>;

std::vector<std::vector<float>> float_tensors(const std::vector<uint64_t>& sizes) {
  return tensors_of<zvc<float>>(sizes);
}

// What is needed to decode does not depend on parameters that the frame knows.
TEST(batch_scratch, is_known_without_a_bound) {
  EXPECT_EQ(scratch_bytes(quantize<float>{}, 0), scratch_bytes(zvc<float>{}, 0));
  EXPECT_EQ(scratch_bytes(quantize<float>{}, batch_sizes{3, 100}), scratch_bytes(zvc<float>{}, batch_sizes{3, 100}));
  EXPECT_EQ(scratch_bytes(quantize_delta_huffman<float>{}, 0), scratch_bytes(zvc<float>{}, 0));
}

// An item with more values than all were promised to have takes nothing from the others, and no time.
TEST(batch_promise, an_absurd_item_costs_one_draw) {
  device_batch<zvc<float>> batch(tensors_of<zvc<float>>({100, 5000, 9000}));
  batch.decode_items.insert(batch.decode_items.begin(), batch.decode_items[0]);
  const auto written = batch.encode();
  for (const outcome& o : written) ASSERT_EQ(o.code, status::ok);
  const device_array<std::byte> scratch(64 * 8);
  const device_array<outcome> outcomes(4);
  auto items = batch.decode_items;
  items[0].values = {items[0].values.data(), uint64_t{1} << 40};
  const device_array<decode_item<float>> table(items, batch.stream());
  ASSERT_EQ(initialize(scratch.scratch(), batch.stream()).code, status::ok);
#if defined(TUCK_CUDASIM)
  cudasim::clear_counters();
#endif
  ASSERT_EQ(
      decode_batch(zvc<float>{}, table.all(), {4, 1 << 28}, scratch.scratch(), outcomes.all(), batch.stream()).code,
      status::ok);
  const auto seen = outcomes.download(batch.stream());
  EXPECT_EQ(seen[0].code, status::batch_too_large);
  for (int i = 1; i < 4; ++i) EXPECT_EQ(seen[static_cast<size_t>(i)].code, status::ok);
#if defined(TUCK_CUDASIM)
  EXPECT_LE(cudasim::snapshot().atomics, 1000u);
#endif
}

// The kernel is that of all types of this size.
TEST(device_batch_misuse, frames_of_another_type_leave_the_output_alone) {
  floats batch(float_tensors({100, 5000}));
  for (const outcome& o : batch.encode()) ASSERT_EQ(o.code, status::ok);
  const std::vector<int32_t> before(5100, 7);
  const device_array<int32_t> out(before, batch.stream());
  const device_array<decode_item<int32_t>> items(
      {{batch.decode_items[0].frame, out.all().subspan(0, 100)}, {batch.decode_items[1].frame, out.all().subspan(100)}},
      batch.stream());
  const device_array<outcome> outcomes(2);
  ASSERT_EQ(decode_batch(zvc<int32_t>{}, items.all(), {2, 5100}, batch.scratch(), outcomes.all(), batch.stream()).code,
            status::ok);
  for (const outcome& o : outcomes.download(batch.stream())) EXPECT_EQ(o.code, status::type_mismatch);
  EXPECT_EQ(out.download(batch.stream()), before);
}

TEST(device_batch_misuse, is_named_and_nothing_is_written) {
  floats batch(float_tensors({100, 5000}));
  const device_array<encode_item<float>> from(batch.encode_items, batch.stream());
  const device_array<decode_item<float>> to(batch.decode_items, batch.stream());
  const std::vector<outcome> untouched(2, {7, status::bad_range, 7});
  device_array<outcome> outcomes(untouched, batch.stream());
  const scratch_span scratch = batch.scratch();
  const auto encoding = [&](span<const encode_item<float>> items, const batch_sizes& sizes, scratch_span memory,
                            span<outcome> written, cudaStream_t stream, const frame_options& options = {}) {
    return encode_batch(zvc<float>{}, items, sizes, memory, written, stream, options).code;
  };
  const auto decoding = [&](span<const decode_item<float>> items, const batch_sizes& sizes, scratch_span memory,
                            span<outcome> written, cudaStream_t stream) {
    return decode_batch(zvc<float>{}, items, sizes, memory, written, stream).code;
  };
  using enum status;
  const auto expect_refused = [&](const auto& call, const auto& table) {
    using item = std::remove_pointer_t<decltype(table.data())>;
    const span<const item> items = table.all();
    const span<const item> odd(reinterpret_cast<const item*>(reinterpret_cast<const char*>(items.data()) + 4), 1);
    const span<outcome> odd_outcomes(reinterpret_cast<outcome*>(reinterpret_cast<char*>(outcomes.data()) + 8), 1);
    const span<outcome> out = outcomes.all();
    const batch_sizes sizes{2, 5100};
    EXPECT_EQ(call(items, sizes, {}, out, batch.stream()), invalid_argument);
    EXPECT_EQ(call({nullptr, 2}, sizes, scratch, out, batch.stream()), invalid_argument);
    EXPECT_EQ(call(items, sizes, scratch, {nullptr, 2}, batch.stream()), invalid_argument);
    EXPECT_EQ(call(odd, sizes, scratch, out, batch.stream()), misaligned);
    EXPECT_EQ(call(items.subspan(0, 1), sizes, scratch, odd_outcomes, batch.stream()), misaligned);
    EXPECT_EQ(call(items, sizes, scratch_span(scratch.memory().subspan(8)), out, batch.stream()), misaligned);
    EXPECT_EQ(call(items, sizes, scratch, out.subspan(1), batch.stream()), output_too_small);
    EXPECT_EQ(call(items, {1, 5100}, scratch, out, batch.stream()), batch_too_large);
    EXPECT_EQ(call(items, sizes, scratch_span(scratch.memory().subspan(0, 128)), out, batch.stream()),
              scratch_too_small);
    EXPECT_EQ(call(items, {2, uint64_t{1} << 48}, scratch, out, batch.stream()), size_overflow);
    EXPECT_EQ(call({}, {}, scratch, {}, batch.stream()), ok);
    EXPECT_EQ(call({}, sizes, scratch, {}, batch.stream()), ok);
  };
  expect_refused(encoding, from);
  expect_refused(decoding, to);
  EXPECT_EQ(encoding(from.all(), {2, 5100}, scratch, outcomes.all(), batch.stream(), {.chunk_values = 33}),
            invalid_argument);
  EXPECT_EQ(encoding(from.all(), {2, 5100}, scratch, outcomes.all(), batch.stream(), {.metadata = scratch.memory()}),
            wrong_metadata);
  EXPECT_EQ(encoding(from.all(), {2, 5100}, scratch, outcomes.all(), batch.stream(), {.chunk_values = 8192}),
            unsupported);
  EXPECT_EQ(scratch_bytes(zvc<float>{}, {2, 5100}, {.chunk_values = 33}), 0u);
  EXPECT_EQ(scratch_bytes(zvc<float>{}, {~uint64_t{0}, 5100}), ~uint64_t{0});
  const auto after = outcomes.download(batch.stream());
  EXPECT_EQ(std::memcmp(after.data(), untouched.data(), 2 * sizeof(outcome)), 0);
}

// What a single call sees before it launches is in a batch the outcome of the item alone.
TEST(device_batch_misuse, an_item_s_is_its_own_affair) {
  for_schedules(4, [] {
    floats batch(float_tensors({9000, 5000, 70, 0, 300, 4096, 9000}));
    const auto sound_encode = batch.encode_items;
    const auto sound_decode = batch.decode_items;
    auto& from = batch.encode_items;
    from[0].values = {reinterpret_cast<const float*>(reinterpret_cast<const char*>(from[0].values.data()) + 1), 9000};
    from[2].values = {nullptr, 70};
    from[3].values = {};
    from[4].frame = from[4].frame.subspan(8);
    const auto written = batch.encode();
    EXPECT_EQ(written[0].code, status::misaligned);
    EXPECT_EQ(written[2].code, status::invalid_argument);
    EXPECT_EQ(written[4].code, status::misaligned);
    for (const size_t i : {0, 2, 4}) EXPECT_EQ(written[i].bytes, 0u);
    for (const size_t i : {1, 3, 5, 6})
      ASSERT_EQ(batch.frame(i, written[i].bytes), encoded(zvc<float>{}, batch.tensor(i))) << i;

    batch.encode_items = sound_encode;
    ASSERT_NO_FATAL_FAILURE(expect_round_trip(batch));
    auto& to = batch.decode_items;
    to[0].values = {reinterpret_cast<float*>(reinterpret_cast<char*>(to[0].values.data()) + 1), 8000};
    to[1].values = {nullptr, 70};
    to[2].frame = to[2].frame.subspan(8);
    to[4].frame = {nullptr, 10};
    to[5].frame = {};
    batch.fill_restored(7.f);
    const auto restored = batch.decode();
    const status expected[] = {status::misaligned,       status::invalid_argument, status::misaligned, status::ok,
                               status::invalid_argument, status::truncated,        status::ok};
    for (size_t i = 0; i < 7; ++i) {
      EXPECT_EQ(restored[i].code, expected[i]) << i;
      if (expected[i] == status::misaligned || expected[i] == status::invalid_argument) {
        EXPECT_EQ(restored[i].bytes, 0u);
        ASSERT_TRUE(same_bits(batch.restored(i), std::vector<float>(batch.tensor(i).size(), 7.f))) << i;
      }
    }
    ASSERT_TRUE(same_bits(batch.restored(5), std::vector<float>(4096)));
    ASSERT_TRUE(same_bits(batch.restored(6), batch.tensor(6)));
    batch.decode_items = sound_decode;
    ASSERT_NO_FATAL_FAILURE(expect_round_trip(batch));
  });
}

// The table has more values than the scratch was sized for: those items for which there is room are done.
TEST(device_batch_misuse, more_values_than_promised_are_refused_item_by_item) {
  for_schedules(4, [] {
    floats batch(float_tensors({5000, 4096, 9000, 100, 0, 4097, 4096}));
    const auto whole = batch.sizes();
    static_cast<void>(batch.encode());
    batch.sizes().values = 2 * 4096;  // two chunks beyond the first of each: 5000 takes one, 9000 wants two
    batch.fill_restored(7.f);
    std::vector<std::byte> stale(200, std::byte{0x77});
    for (size_t i = 0; i < 7; ++i) batch.put_frame(i, stale);
    const auto written = batch.encode();
    for (size_t i = 0; i < 7; ++i) {
      const bool refused = i == 2 || i == 5;
      ASSERT_EQ(written[i].code, refused ? status::batch_too_large : status::ok) << i;
      if (refused) {
        ASSERT_EQ(written[i].bytes, 0u);
        ASSERT_EQ(batch.frame(i, 200), stale);
        batch.put_frame(i, encoded(zvc<float>{}, batch.tensor(i)));
      } else {
        ASSERT_EQ(batch.frame(i, written[i].bytes), encoded(zvc<float>{}, batch.tensor(i))) << i;
      }
    }
    const auto restored = batch.decode();
    for (size_t i = 0; i < 7; ++i) {
      const bool refused = i == 2 || i == 5;
      ASSERT_EQ(restored[i].code, refused ? status::batch_too_large : status::ok) << i;
      ASSERT_TRUE(
          same_bits(batch.restored(i), refused ? std::vector<float>(batch.tensor(i).size(), 7.f) : batch.tensor(i)))
          << i;
    }
    // Sizes that no tensor has.
    batch.sizes() = whole;
    batch.encode_items[2].values = {batch.encode_items[2].values.data(), ~uint64_t{0}};
    batch.decode_items[2].values = {batch.decode_items[2].values.data(), ~uint64_t{0} / 4};
    EXPECT_EQ(batch.encode()[2].code, status::batch_too_large);
    EXPECT_EQ(batch.decode()[2].code, status::batch_too_large);
    EXPECT_EQ(batch.encode()[3].code, status::ok);
  });
}

TEST(device_batch, the_epoch_wraps) {
  for_schedules(4, [] {
    floats batch(float_tensors({60 * 32, 5, 40 * 32 + 1}), {}, {.chunk_values = 32});
    floats few(float_tensors({5 * 32}), {}, {.chunk_values = 32});
    floats after(float_tensors({40 * 32 + 1, 60 * 32, 5}), {}, {.chunk_values = 32});
    few.use_scratch(batch.scratch());
    after.use_scratch(batch.scratch());
    ASSERT_NO_FATAL_FAILURE(expect_round_trip(batch));
    scratch_head head{};
    head.epoch = scratch_epochs - 1;
    check(cudaMemcpyAsync(batch.scratch().memory().data(), &head, sizeof head, cudaMemcpyDefault, batch.stream()));
    batch.stream().wait();
    static_cast<void>(few.encode());
    for (int call = 0; call < 3; ++call) ASSERT_NO_FATAL_FAILURE(expect_round_trip(after));
  });
}

// Batches of several shapes and single calls, one after the other: each finds the scratch as another left it.
TEST(device_batch, shares_its_scratch_with_single_calls) {
  for_schedules(4, [] {
    floats one(float_tensors({3000, 32 * 50, 5}), {}, {.chunk_values = 32});
    floats other(float_tensors(std::vector<uint64_t>(40, 33)), {}, {.chunk_values = 32});
    device_queue queue;
    const auto values = sparse_tensor<float>(brief ? 3'000 : 20'000, .5);
    for (int round = 0; round < (slow ? 2 : 3); ++round) {
      ASSERT_EQ(queue.encode(zvc<float>{}, values, {.chunk_values = 32}),
                encoded(zvc<float>{}, values, {.chunk_values = 32}));
      for (floats* batch : {&one, &other}) {
        batch->use_scratch(queue.scratch());
        ASSERT_NO_FATAL_FAILURE(expect_round_trip(*batch));
      }
    }
  });
}

TEST(device_batch, bounds_relative_to_the_range_are_each_item_s_own) {
  using codec = quantize<float>;
  for_schedules(4, [] {
    auto tensors = tensors_of<codec>({9000, 0, 1, 100, 4096, 5000, 3, 2000});
    for (size_t i = 0; i < tensors.size(); ++i)
      for (float& x : tensors[i]) x *= std::exp2(static_cast<float>(4 * i));
    device_batch<codec> batch(tensors, codec(error_bound::range_relative(1e-3)), {.chunk_values = 1024});
    batch.encode_items[6].frame = {};
    static_cast<void>(batch.encode());
#if defined(TUCK_CUDASIM)
    cudasim::clear_counters();
    static_cast<void>(batch.encode());
    EXPECT_EQ(cudasim::snapshot().launches, 2u);
#endif
    batch.encode_items[6].frame = batch.room_of(6);
    ASSERT_NO_FATAL_FAILURE(expect_round_trip(batch));
  });
}

// Earlier calls may have left anything in the states of items, such as the ranges of other tensors.
TEST(device_batch, ranges_are_not_those_of_earlier_calls) {
  using codec = quantize<float>;
  for_schedules(4, [] {
    device_batch<codec> batch(tensors_of<codec>({5000, 0, 100}), codec(error_bound::range_relative(1e-3)),
                              {.chunk_values = 1024});
    const bytes states = batch.scratch().memory().subspan(sizeof(scratch_head));
    check(cudaMemsetAsync(states.data(), 0x7f, states.size(), batch.stream()));
    ASSERT_NO_FATAL_FAILURE(expect_round_trip(batch));
  });
}

TEST(device_batch, a_bound_in_device_memory_is_followed) {
  using codec = quantize<float>;
  device_stream stream;
  device_array<double> bound(1);
  device_batch<codec> batch(tensors_of<codec>({9000, 0, 100}), codec({bound_mode::absolute, 0, bound.data()}));
  for (const double value : {1e-2, 1e-4}) {
    bound.upload({value}, stream);
    const auto written = batch.encode();
    for (uint64_t i = 0; i < 3; ++i)
      ASSERT_EQ(batch.frame(i, written[i].bytes), encoded(codec(error_bound::absolute(value)), batch.tensor(i)));
  }
  bound.upload({-1.}, stream);
  for (const outcome& o : batch.encode()) {
    EXPECT_EQ(o.code, status::bad_bound);
    EXPECT_EQ(o.bytes, 0u);
  }
  frame_header header;
  EXPECT_EQ(inspect(batch.frame(0, 128), header), status::bad_magic);
}

}  // namespace
}  // namespace tuck::test
