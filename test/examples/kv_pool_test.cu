// The pool of examples/kv_cache beside a map of vectors: values, order, bytes, and what a failing call leaves behind.
#include "support/bounds.hpp"
#include "support/device.hpp"

#include "kv_cache/kv_pool.cuh"

#include <map>
#include <set>

namespace tuck::test {
namespace {

using kv::kv_pool;
constexpr uint64_t page_values = 300;  // a page does not end where the arena's strides do

template <codec C> std::vector<value_t<C>> page_of(uint64_t seed, double sparsity = .6) {
  return sparse_tensor<value_t<C>>(page_values, sparsity, pattern::iid, seed);
}
// What quantizing is for: numbers of similar magnitude.
template <> std::vector<bf16> page_of<quantize<bf16>>(uint64_t seed, double) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<bf16> values(page_values);
  for (bf16& x : values) x = {float_format<bf16>::narrow(normal(random))};
  return values;
}

template <codec C> class pool_fixture {
 public:
  using values = std::vector<value_t<C>>;

  explicit pool_fixture(kv::pool_options options, const C& by = {})
      : codec(by), pool(by, (options.page_values = page_values, options), memory_, stream) {}

  void put(uint64_t id, const values& v) {
    pool.put(id, v.data());
    stream.wait();  // before v goes
  }
  values get(uint64_t id) {
    values v(page_values);
    pool.get(id, v.data());
    stream.wait();
    return v;
  }
  std::vector<uint64_t> residents(uint64_t most_id) const {
    std::vector<uint64_t> ids;
    for (uint64_t id = 0; id <= most_id; ++id)
      if (pool.contains(id) && pool.is_resident(id)) ids.push_back(id);
    return ids;
  }

  C codec;
  device_stream stream;

 private:
  async_resource memory_;

 public:
  kv_pool<C> pool;
};

template <codec C> uint64_t bytes_in_pool(const C& codec, const std::vector<value_t<C>>& values) {
  return pinned_pool::round_up(encoded(codec, values).size());
}

template <class Call> status code_of(const Call& call) {
  try {
    call();
  } catch (const error& e) {
    return e.code();
  }
  return status::ok;
}

using ids = std::vector<uint64_t>;

TEST(kv_pool, pages_make_way_by_batches_in_the_order_of_their_last_use) {
  using C = zvc<uint16_t>;
  pool_fixture<C> f({.pages = 6, .pinned_bytes = 1 << 20, .evict_batch = 3});
  for (uint64_t id = 0; id < 6; ++id) f.put(id, page_of<C>(id));
  EXPECT_EQ(f.residents(9), (ids{0, 1, 2, 3, 4, 5}));
  f.put(0, page_of<C>(100));           // 1 2 3 4 5 0
  EXPECT_EQ(f.get(2), page_of<C>(2));  // 1 3 4 5 0 2
  f.put(6, page_of<C>(6));             // without 1 3 4
  EXPECT_EQ(f.residents(9), (ids{0, 2, 5, 6}));
  EXPECT_EQ(f.pool.counts().encodes, 1u);
  EXPECT_EQ(f.pool.counts().pages_out, 3u);
  EXPECT_EQ(f.get(1), page_of<C>(1));  // there are two pages free: 5 0 2 6 1
  EXPECT_EQ(f.residents(9), (ids{0, 1, 2, 5, 6}));
  f.pool.evict(2);
  EXPECT_EQ(f.residents(9), (ids{1, 2, 6}));
  f.pool.evict(ids{1, 1, 3});  // once, and not again
  EXPECT_EQ(f.residents(9), (ids{2, 6}));
  f.pool.evict(100);
  EXPECT_EQ(f.residents(9), ids{});
  for (uint64_t id = 1; id < 7; ++id) EXPECT_EQ(f.get(id), page_of<C>(id));
  EXPECT_EQ(f.get(0), page_of<C>(100));
}

TEST(kv_pool, blocks_that_are_fetched_together_stay_together) {
  using C = zvc<uint16_t>;
  pool_fixture<C> f({.pages = 4, .pinned_bytes = 1 << 20, .evict_batch = 4});
  for (uint64_t id = 0; id < 8; ++id) f.put(id, page_of<C>(id));
  EXPECT_EQ(f.residents(9), (ids{4, 5, 6, 7}));
  const auto before = f.pool.counts();
  std::vector<const uint16_t*> pages(5);
  f.pool.fetch(ids{4, 0, 1, 0, 2}, pages);  // 4 is the least recently used, but wanted
  EXPECT_EQ(f.residents(9), (ids{0, 1, 2, 4}));
  EXPECT_EQ(pages[1], pages[3]);
  EXPECT_EQ(f.pool.counts().encodes, before.encodes + 1);
  EXPECT_EQ(f.pool.counts().decodes, before.decodes + 1);
  EXPECT_EQ(f.pool.counts().pages_in, before.pages_in + 3);
  for (const auto& [i, id] : std::map<size_t, uint64_t>{{0, 4}, {1, 0}, {2, 1}, {4, 2}}) {
    std::vector<uint16_t> back(page_values);
    check(cudaMemcpyAsync(back.data(), pages[i], page_values * 2, cudaMemcpyDefault, f.stream));
    f.stream.wait();
    EXPECT_EQ(back, page_of<C>(id));
  }
  EXPECT_THROW(f.pool.fetch(ids{0, 1, 2, 3, 4}, pages), std::invalid_argument);
  EXPECT_THROW(f.pool.fetch(ids{0, 1, 2, 3, 4, 5}, pages), std::invalid_argument);
  EXPECT_EQ(f.residents(9), (ids{0, 1, 2, 4}));
}

TEST(kv_pool, a_page_that_is_written_is_evicted_as_it_then_is) {
  using C = zvc<uint16_t>;
  pool_fixture<C> f({.pages = 2, .pinned_bytes = 1 << 20});
  auto values = page_of<C>(1);
  f.put(1, values);
  for (uint16_t turn = 0; turn < 3; ++turn) {
    values[turn] = static_cast<uint16_t>(1000 + turn);
    check(cudaMemcpyAsync(f.pool.edit(1) + turn, &values[turn], 2, cudaMemcpyDefault, f.stream));
    f.stream.wait();
    f.pool.evict(1);
    EXPECT_FALSE(f.pool.is_resident(1));
  }
  EXPECT_EQ(f.get(1), values);
}

TEST(kv_pool, evicted_blocks_hold_the_bytes_of_their_frames) {
  using C = zvc<uint16_t>;
  pool_fixture<C> f({.pages = 8, .pinned_bytes = 1 << 20});
  uint64_t expected = 0;
  for (uint64_t id = 0; id < 8; ++id) {
    const auto values = page_of<C>(id, static_cast<double>(id) / 7);
    f.put(id, values);
    expected += bytes_in_pool(f.codec, values);
  }
  f.pool.evict(8);
  EXPECT_EQ(f.pool.statistics().held_bytes, expected);
  EXPECT_EQ(f.pool.statistics().raw_bytes, 8 * page_values * 2);
  f.pool.erase(3);
  expected -= bytes_in_pool(f.codec, page_of<C>(3, 3. / 7));
  EXPECT_EQ(f.pool.statistics().held_bytes, expected);
  EXPECT_EQ(f.get(4), page_of<C>(4, 4. / 7));  // which keeps its frame
  EXPECT_EQ(f.pool.statistics().held_bytes, expected);
  EXPECT_EQ(f.pool.statistics().framed, 7u);
  f.pool.evict(8);
  EXPECT_EQ(f.pool.counts().encodes, 1u);
  static_cast<void>(f.pool.edit(4));  // does not
  expected -= bytes_in_pool(f.codec, page_of<C>(4, 4. / 7));
  EXPECT_EQ(f.pool.statistics().held_bytes, expected);
  f.put(5, page_of<C>(55));  // what was evicted is worth nothing any more
  expected -= bytes_in_pool(f.codec, page_of<C>(5, 5. / 7));
  EXPECT_EQ(f.pool.statistics().held_bytes, expected);
  EXPECT_EQ(f.get(5), page_of<C>(55));
}

TEST(kv_pool, unknown_blocks_and_impossible_options_are_refused) {
  using C = zvc<uint16_t>;
  pool_fixture<C> f({.pages = 2, .pinned_bytes = 4096});
  f.put(1, page_of<C>(1));
  std::vector<const uint16_t*> pages(2);
  std::vector<uint16_t> out(page_values);
  EXPECT_THROW(f.pool.get(2, out.data()), std::out_of_range);
  EXPECT_THROW(f.pool.erase(2), std::out_of_range);
  EXPECT_THROW(f.pool.evict(ids{1, 2}), std::out_of_range);
  EXPECT_THROW(f.pool.fetch(ids{1, 2}, pages), std::out_of_range);
  EXPECT_THROW(static_cast<void>(f.pool.is_resident(2)), std::out_of_range);
  EXPECT_TRUE(f.pool.is_resident(1));
  EXPECT_EQ(f.get(1), page_of<C>(1));
  EXPECT_THROW(pool_fixture<C>({.pages = 0}), std::invalid_argument);
  EXPECT_THROW(pool_fixture<C>({.pages = 1, .evict_batch = 0}), std::invalid_argument);
  EXPECT_EQ(code_of([] { pool_fixture<quantize<bf16>>({.pages = 1}, quantize<bf16>(error_bound::absolute(-1))); }),
            status::bad_bound);
}

// Of frames that are all as long as each other, pinned memory takes five.
TEST(kv_pool, full_pinned_memory_leaves_all_as_it_was) {
  using C = zvc<uint16_t>;
  const uint64_t frame = bytes_in_pool(C{}, noise<uint16_t>(page_values));
  pool_fixture<C> f({.pages = 8, .pinned_bytes = 5 * frame, .evict_batch = 4, .batch = 4});
  for (uint64_t id = 0; id < 8; ++id) f.put(id, noise<uint16_t>(page_values, id));
  EXPECT_EQ(code_of([&] { f.pool.evict(ids{0, 1, 2, 3, 4, 5}); }), status::pool_full);
  EXPECT_EQ(code_of([&] { f.pool.evict(6); }), status::pool_full);
  EXPECT_EQ(f.pool.statistics().held_bytes, 0u);
  EXPECT_EQ(f.pool.statistics().resident, 8u);
  f.put(8, noise<uint16_t>(page_values, 8));  // 0 to 3 go
  EXPECT_EQ(f.residents(99), (ids{4, 5, 6, 7, 8}));
  for (uint64_t id = 9; id < 12; ++id) f.put(id, noise<uint16_t>(page_values, id));
  f.put(12, noise<uint16_t>(page_values, 12));  // of four there is room for one
  EXPECT_EQ(f.residents(99), (ids{5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(f.pool.statistics().held_bytes, 5 * frame);
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(code_of([&] { f.put(13, noise<uint16_t>(page_values, 13)); }), status::pool_full);
    EXPECT_EQ(code_of([&] { static_cast<void>(f.pool.page(0)); }), status::pool_full);
    EXPECT_FALSE(f.pool.contains(13));
    EXPECT_EQ(f.residents(99), (ids{5, 6, 7, 8, 9, 10, 11, 12}));
    EXPECT_EQ(f.pool.statistics().held_bytes, 5 * frame);
  }
  for (uint64_t id = 5; id < 13; ++id) {
    EXPECT_EQ(f.get(id), noise<uint16_t>(page_values, id));
    f.pool.erase(id);
  }
  for (uint64_t id = 0; id < 5; ++id) {
    EXPECT_EQ(f.get(id), noise<uint16_t>(page_values, id));
    f.pool.erase(id);
  }
  EXPECT_EQ(f.pool.statistics().held_bytes, 0u);
}

// Frames that are raw need all of the staging, and longer lists than that more than one launch.
TEST(kv_pool, more_blocks_than_a_launch_takes_go_by_batches) {
  using C = zvc<uint16_t>;
  pool_fixture<C> f({.pages = 11, .pinned_bytes = 1 << 20, .evict_batch = 8, .batch = 4});
  ids all;
  for (uint64_t id = 0; id < 22; ++id) f.put(id, noise<uint16_t>(page_values, id));
  for (uint64_t id = 0; id < 11; ++id) all.push_back(id);
  std::vector<const uint16_t*> pages(all.size());
  const auto before = f.pool.counts();
  f.pool.fetch(all, pages);
  EXPECT_EQ(f.pool.counts().decodes - before.decodes, 3u);
  EXPECT_EQ(f.residents(99), all);
  for (uint64_t id = 0; id < 22; ++id) EXPECT_EQ(f.get(id), noise<uint16_t>(page_values, id));
}

// With a bound for which quantizing again what has been quantized adds error to error.
TEST(kv_pool, a_lossy_codec_keeps_its_bound_however_often_a_block_comes_and_goes) {
  using C = quantize<bf16>;
  const C codec(error_bound::absolute(0.0405937));
  pool_fixture<C> f({.pages = 4, .pinned_bytes = 1 << 20}, codec);
  const auto values = page_of<C>(1);
  f.put(1, values);
  std::vector<bf16> first;
  for (int turn = 0; turn < 5; ++turn) {
    f.pool.evict(1);
    const auto back = f.get(1);
    if (turn == 0) first = back;
    EXPECT_TRUE(same_bits(back, first));
    for (uint64_t i = 0; i < page_values; ++i) ASSERT_TRUE(allows(codec, values[i], back[i])) << i;
  }
  EXPECT_FALSE(same_bits(first, values));
}

// Any order of calls, beside a map. `same(put, back)`: is that what the codec promises?
template <codec C, class Same> void random_calls(const C& codec, uint64_t seed, const Same& same) {
  std::mt19937_64 random(seed);
  const kv::pool_options options{.pages = static_cast<uint32_t>(2 + random() % 6),
                                 .pinned_bytes = 1 << 16,
                                 .evict_batch = static_cast<uint32_t>(1 + random() % 4),
                                 .batch = static_cast<uint32_t>(1 + random() % 6)};
  pool_fixture<C> f(options, codec);
  std::map<uint64_t, std::vector<value_t<C>>> model;
  std::set<uint64_t> framed;  // evicted since they were put
  for (int i = 0; i < 150; ++i) {
    const uint64_t id = random() % 20;
    SCOPED_TRACE("seed " + std::to_string(seed) + " call " + std::to_string(i));
    switch (random() % 6) {
      case 0:
      case 1:
        framed.erase(id);
        f.put(id, model[id] = page_of<C>(random()));
        break;
      case 2:
        if (model.contains(id)) {
          ASSERT_TRUE(same(model[id], f.get(id)));
        }
        break;
      case 3: {
        ids wanted;
        for (const auto& [known, values] : model)
          if (wanted.size() < options.pages && random() % 3 == 0) wanted.push_back(known);
        std::shuffle(wanted.begin(), wanted.end(), random);
        std::vector<const value_t<C>*> pages(wanted.size());
        f.pool.fetch(wanted, pages);
        for (size_t k = 0; k < wanted.size(); ++k) {
          ASSERT_TRUE(f.pool.is_resident(wanted[k]));
          std::vector<value_t<C>> back(page_values);
          check(cudaMemcpyAsync(back.data(), pages[k], page_values * sizeof(value_t<C>), cudaMemcpyDefault, f.stream));
          f.stream.wait();
          ASSERT_TRUE(same(model[wanted[k]], back));
        }
        break;
      }
      case 4:
        if (random() % 2 == 0)
          f.pool.evict(random() % 4);
        else if (model.contains(id))
          f.pool.evict(ids{id});
        break;
      default:
        ASSERT_EQ(f.pool.contains(id), model.contains(id));
        framed.erase(id);
        if (model.erase(id) != 0) f.pool.erase(id);
    }
    const kv::pool_statistics now = f.pool.statistics();
    ASSERT_EQ(now.resident + now.evicted, model.size());
    ASSERT_LE(now.resident, options.pages);
    uint64_t held = 0;
    for (const auto& [known, values] : model) {
      if (!f.pool.is_resident(known)) framed.insert(known);
      if (framed.contains(known)) held += bytes_in_pool(codec, values);
    }
    ASSERT_EQ(now.framed, framed.size());
    ASSERT_EQ(now.held_bytes, held);
  }
  for (const auto& [id, values] : model) {
    EXPECT_TRUE(same(values, f.get(id)));
    f.pool.erase(id);
  }
  EXPECT_EQ(f.pool.statistics().held_bytes, 0u);
}

TEST(kv_pool, any_order_of_calls_gives_what_was_put_bit_by_bit) {
  for_schedules(4, [] {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      const auto same = [](const auto& put, const auto& back) { return same_bits(put, back); };
      random_calls(zvc<uint16_t>{}, seed, same);
      random_calls(zvc<bf16>{}, seed + 10, same);
    }
  });
}

TEST(kv_pool, any_order_of_calls_gives_what_was_put_within_the_bound) {
  for_schedules(4, [] {
    const quantize<bf16> codec(error_bound::absolute(0x1p-4));
    random_calls(codec, 1, [&](const auto& put, const auto& back) {
      for (uint64_t i = 0; i < page_values; ++i)
        if (!allows(codec, put[i], back[i])) return false;
      return true;
    });
  });
}

// Where pinned memory is full, a block that has its frame there already goes before an older one that has none.
TEST(kv_pool, a_block_that_has_its_frame_can_always_go) {
  using codec = zvc<uint16_t>;
  const uint64_t one = pinned_pool::round_up(max_frame_bytes(codec{}, page_values));
  pool_fixture<codec> f({.pages = 2, .pinned_bytes = one, .evict_batch = 1});
  f.put(1, page_of<codec>(1, 0));
  f.pool.evict(uint64_t{1});
  static_cast<void>(f.pool.page(1));
  f.put(2, page_of<codec>(2, 0));
  static_cast<void>(f.pool.page(1));  // so that 2 is older
  f.put(3, page_of<codec>(3, 0));
  EXPECT_EQ(f.residents(3), (ids{2, 3}));
  for (const uint64_t id : {2, 3}) EXPECT_TRUE(same_bits(f.get(id), page_of<codec>(id, 0)));
  EXPECT_EQ(code_of([&] { f.pool.page(1); }), status::pool_full);  // neither of the two has one
  EXPECT_EQ(f.residents(3), (ids{2, 3}));
}

TEST(kv_pool, a_captured_stream_is_refused) {
  using codec = zvc<uint16_t>;
  pool_fixture<codec> f({.pages = 2, .pinned_bytes = 1 << 14});
  f.put(1, page_of<codec>(1));
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(f.stream, cudaStreamCaptureModeThreadLocal));
  EXPECT_THROW(f.pool.put(1, page_of<codec>(2).data()), std::logic_error);
  EXPECT_THROW(f.pool.page(1), std::logic_error);
  EXPECT_THROW(f.pool.evict(uint64_t{1}), std::logic_error);
  check(cudaStreamEndCapture(f.stream, &graph));
  check(cudaGraphDestroy(graph));
  EXPECT_TRUE(same_bits(f.get(1), page_of<codec>(1)));
}

#if defined(TUCK_CUDASIM)
// The k-th CUDA call of an operation fails: the operation throws, all blocks have their values, and it can be repeated.
template <class Operation> void fail_each_call(const Operation& operation) {
  using C = zvc<uint16_t>;
  constexpr uint64_t blocks = 6, another = 8;
  bool failed = true;
  for (uint64_t k = 1; failed; ++k) {
    ASSERT_LT(k, 200u);
    SCOPED_TRACE("call " + std::to_string(k));
    auto values = page_of<C>(another);
    pool_fixture<C> f({.pages = 4, .pinned_bytes = 1 << 16, .evict_batch = 3, .batch = 2});
    for (uint64_t id = 0; id < blocks; ++id) f.put(id, page_of<C>(id));  // 0 and 1 are evicted
    cudasim::fail_call(k, cudaErrorMemoryAllocation);
    failed = code_of([&] { operation(f, values); }) == status::cuda_error;
    cudasim::fail_call(0, cudaSuccess);
    f.stream.wait();
    const kv::pool_statistics now = f.pool.statistics();
    EXPECT_FALSE(failed && f.pool.contains(another));
    EXPECT_EQ(now.resident + now.evicted, f.pool.contains(another) ? blocks + 1 : blocks);
    uint64_t held = 0;
    for (uint64_t id = 0; id < blocks; ++id)
      if (id < 2 || !f.pool.is_resident(id)) held += bytes_in_pool(C{}, page_of<C>(id));
    EXPECT_EQ(now.held_bytes, held);
    for (uint64_t id = 0; id < blocks; ++id) EXPECT_EQ(f.get(id), page_of<C>(id)) << id;
    EXPECT_EQ(failed ? code_of([&] { operation(f, values); }) : status::ok, status::ok);
    f.stream.wait();
    EXPECT_TRUE(!f.pool.contains(another) || f.get(another) == page_of<C>(another));
  }
}

TEST(kv_pool_faults, of_put) {
  fail_each_call([](auto& f, const auto& values) { f.pool.put(8, values.data()); });
}
TEST(kv_pool_faults, of_fetch) {
  fail_each_call([](auto& f, const auto&) {
    std::vector<const uint16_t*> pages(4);
    f.pool.fetch(ids{1, 0, 5, 3}, pages);
  });
}
TEST(kv_pool_faults, of_get) {
  fail_each_call([](auto& f, auto& values) { f.pool.get(0, values.data()); });
}
TEST(kv_pool_faults, of_evict) {
  fail_each_call([](auto& f, const auto&) { f.pool.evict(ids{3, 4, 5, 0}); });
}

// Evicting takes two launches then. Where the second fails, the range that the first has found is nobody else's.
TEST(kv_pool_faults, a_batch_that_failed_does_not_widen_the_bound_of_the_next) {
  using C = quantize<bf16>;
  const C codec(error_bound::range_relative(0x1p-6));
  bool failed = true;
  for (uint64_t k = 1; failed; ++k) {
    ASSERT_LT(k, 200u);
    SCOPED_TRACE("call " + std::to_string(k));
    pool_fixture<C> f({.pages = 2, .pinned_bytes = 1 << 16}, codec);
    const auto narrow = page_of<C>(1);
    auto wide = page_of<C>(2);
    wide[7] = {float_format<bf16>::narrow(0x1p20f)};
    f.put(2, wide);
    f.put(1, narrow);
    cudasim::fail_call(k, cudaErrorMemoryAllocation);
    failed = code_of([&] { f.pool.evict(ids{2}); }) == status::cuda_error;
    cudasim::fail_call(0, cudaSuccess);
    f.pool.evict(ids{1});
    const auto back = f.get(1);
    for (uint64_t i = 0; i < page_values; ++i) {
      const double x = exact_value<bf16>(narrow[i].bits), y = exact_value<bf16>(back[i].bits);
      ASSERT_LE(std::fabs(x - y), 0x1p-6 * 10) << i;  // the values are from -5 to 5
    }
  }
}

TEST(kv_pool_faults, of_the_constructor) {
  const std::size_t before = cudasim::live_allocations();
  const device_stream stream;
  bool failed = true;
  for (uint64_t k = 1; failed; ++k) {
    ASSERT_LT(k, 200u);
    async_resource memory;
    cudasim::fail_call(k, cudaErrorMemoryAllocation);
    failed = code_of([&] {
               kv_pool<zvc<uint16_t>> pool({}, {.page_values = page_values, .pages = 2, .pinned_bytes = 4096}, memory,
                                           stream);
               cudasim::fail_call(0, cudaSuccess);
             }) == status::cuda_error;
    cudasim::fail_call(0, cudaSuccess);
    stream.wait();
    EXPECT_EQ(cudasim::live_allocations(), before) << k;
    EXPECT_TRUE(failed || k > 7);  // pinned memory, the device's, tables
  }
}
#endif

}  // namespace
}  // namespace tuck::test
