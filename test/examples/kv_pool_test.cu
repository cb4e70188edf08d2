// The pool of examples/kv_cache beside a map of vectors: values, order, bytes, and what a failing call leaves behind.
#include "support/bounds.hpp"
#include "support/device.hpp"

#include "kv_cache/kv_pool.cuh"

#include <map>
#include <set>

namespace tuck::test {
namespace {

using kv::kv_pool;
using ids = std::vector<uint64_t>;
constexpr uint64_t page_values = 300;  // a page does not end where the arena's strides do

using lossless = zvc<bf16>;
using page = std::vector<bf16>;

page page_of(uint64_t seed, double sparsity = .6) {
  return sparse_tensor<bf16>(page_values, sparsity, pattern::iid, seed);
}
// What quantizing is for: numbers of similar magnitude. Without loss none fits a tight budget.
constexpr uint64_t tight = 448, tight_in_chunks = 512;
page normals(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<bf16> values(page_values);
  for (bf16& x : values) x = {float_format<bf16>::narrow(normal(random))};
  return values;
}

// What no bound helps: NaNs whose payloads differ.
page payloads(uint64_t seed) {
  page values = noise<bf16>(page_values, seed);
  for (bf16& x : values) x.bits |= 0x7f81;
  return values;
}

class pool_fixture {
 public:
  explicit pool_fixture(kv::pool_options options)
      : pool({}, (options.page_values = page_values, options), memory_, pinned_, stream) {}

  void put(uint64_t id, const page& v) {
    pool.put(id, v.data());
    stream.wait();  // before v goes
  }
  page get(uint64_t id) {
    page v(page_values);
    pool.get(id, v.data());
    stream.wait();
    return v;
  }
  std::vector<uint64_t> residents(uint64_t most_id) const {
    std::vector<uint64_t> found;
    for (uint64_t id = 0; id <= most_id; ++id)
      if (pool.contains(id) && pool.is_resident(id)) found.push_back(id);
    return found;
  }

  device_stream stream;

 private:
  async_resource memory_;
  pinned_resource pinned_;

 public:
  kv_pool<lossless> pool;
};

// What a page takes of the store: its frame, by the lossless codec if that fits the budget, else by quantize if there
// is a bound and it fits, else the page.
uint64_t bytes_in_pool(const page& values, const kv::pool_options& options = {}) {
  const frame_options aligned{.chunk_values = options.chunk_values, .alignment = 16};
  const uint64_t page_bytes = page_values * sizeof(bf16);
  const uint64_t budget = (options.page_budget == 0 ? page_bytes : options.page_budget) / 16 * 16;
  uint64_t bytes = encoded(lossless{}, values, aligned).size();
  if (bytes > budget && options.bound.value != 0)
    bytes = encoded(quantize<bf16>(options.bound), values, aligned).size();
  return bytes > budget ? (page_bytes + 15) / 16 * 16 : bytes;
}

template <class Call> status code_of(const Call& call) {
  try {
    call();
  } catch (const error& e) {
    return e.code();
  }
  return status::ok;
}

TEST(kv_pool, pages_make_way_by_batches_in_the_order_of_their_last_use) {
  pool_fixture f({.pages = 6, .store_bytes = 1 << 20, .evict_batch = 3});
  for (uint64_t id = 0; id < 6; ++id) f.put(id, page_of(id));
  EXPECT_EQ(f.residents(9), (ids{0, 1, 2, 3, 4, 5}));
  f.put(0, page_of(100));           // 1 2 3 4 5 0
  EXPECT_EQ(f.get(2), page_of(2));  // 1 3 4 5 0 2
  f.put(6, page_of(6));             // without 1 3 4
  EXPECT_EQ(f.residents(9), (ids{0, 2, 5, 6}));
  EXPECT_EQ(f.pool.counts().encodes, 1u);
  EXPECT_EQ(f.pool.counts().pages_out, 3u);
  EXPECT_EQ(f.get(1), page_of(1));  // there are two pages free: 5 0 2 6 1
  EXPECT_EQ(f.residents(9), (ids{0, 1, 2, 5, 6}));
  f.pool.evict(2);
  EXPECT_EQ(f.residents(9), (ids{1, 2, 6}));
  f.pool.evict(ids{1, 1, 3});  // once, and not again
  EXPECT_EQ(f.residents(9), (ids{2, 6}));
  f.pool.evict(100);
  EXPECT_EQ(f.residents(9), ids{});
  for (uint64_t id = 1; id < 7; ++id) EXPECT_EQ(f.get(id), page_of(id));
  EXPECT_EQ(f.get(0), page_of(100));
}

TEST(kv_pool, blocks_that_are_fetched_together_stay_together) {
  pool_fixture f({.pages = 4, .store_bytes = 1 << 20, .evict_batch = 4});
  for (uint64_t id = 0; id < 8; ++id) f.put(id, page_of(id));
  EXPECT_EQ(f.residents(9), (ids{4, 5, 6, 7}));
  const auto before = f.pool.counts();
  std::vector<const bf16*> pages(5);
  f.pool.fetch(ids{4, 0, 1, 0, 2}, pages);  // 4 is the least recently used, but wanted
  EXPECT_EQ(f.residents(9), (ids{0, 1, 2, 4}));
  EXPECT_EQ(pages[1], pages[3]);
  EXPECT_EQ(f.pool.counts().encodes, before.encodes + 1);
  EXPECT_EQ(f.pool.counts().decodes, before.decodes + 1);
  EXPECT_EQ(f.pool.counts().pages_in, before.pages_in + 3);
  for (const auto& [i, id] : std::map<size_t, uint64_t>{{0, 4}, {1, 0}, {2, 1}, {4, 2}}) {
    std::vector<bf16> back(page_values);
    check(cudaMemcpyAsync(back.data(), pages[i], page_values * 2, cudaMemcpyDefault, f.stream));
    f.stream.wait();
    EXPECT_EQ(back, page_of(id));
  }
  EXPECT_THROW(f.pool.fetch(ids{0, 1, 2, 3, 4}, pages), std::invalid_argument);
  EXPECT_THROW(f.pool.fetch(ids{0, 1, 2, 3, 4, 5}, pages), std::invalid_argument);
  EXPECT_EQ(f.residents(9), (ids{0, 1, 2, 4}));
}

TEST(kv_pool, a_page_that_is_written_is_evicted_as_it_then_is) {
  pool_fixture f({.pages = 2, .store_bytes = 1 << 20});
  auto values = page_of(1);
  f.put(1, values);
  for (uint16_t turn = 0; turn < 3; ++turn) {
    values[turn] = {static_cast<uint16_t>(1000 + turn)};
    check(cudaMemcpyAsync(f.pool.edit(1) + turn, &values[turn], 2, cudaMemcpyDefault, f.stream));
    f.stream.wait();
    f.pool.evict(1);
    EXPECT_FALSE(f.pool.is_resident(1));
  }
  EXPECT_EQ(f.get(1), values);
}

TEST(kv_pool, evicted_blocks_hold_the_bytes_of_their_frames) {
  pool_fixture f({.pages = 8, .store_bytes = 1 << 20});
  uint64_t expected = 0;
  for (uint64_t id = 0; id < 8; ++id) {
    const auto values = page_of(id, static_cast<double>(id) / 7);
    f.put(id, values);
    expected += bytes_in_pool(values);
  }
  f.pool.evict(8);
  EXPECT_EQ(f.pool.statistics().held_bytes, expected);
  EXPECT_EQ(f.pool.statistics().raw_bytes, 8 * page_values * 2);
  f.pool.erase(3);
  expected -= bytes_in_pool(page_of(3, 3. / 7));
  EXPECT_EQ(f.pool.statistics().held_bytes, expected);
  EXPECT_EQ(f.get(4), page_of(4, 4. / 7));  // which keeps its frame
  EXPECT_EQ(f.pool.statistics().held_bytes, expected);
  EXPECT_EQ(f.pool.statistics().framed, 7u);
  f.pool.evict(8);
  EXPECT_EQ(f.pool.counts().encodes, 1u);
  static_cast<void>(f.pool.edit(4));  // does not
  expected -= bytes_in_pool(page_of(4, 4. / 7));
  EXPECT_EQ(f.pool.statistics().held_bytes, expected);
  f.put(5, page_of(55));  // what was evicted is worth nothing any more
  expected -= bytes_in_pool(page_of(5, 5. / 7));
  EXPECT_EQ(f.pool.statistics().held_bytes, expected);
  EXPECT_EQ(f.get(5), page_of(55));
}

TEST(kv_pool, unknown_blocks_and_impossible_options_are_refused) {
  pool_fixture f({.pages = 2, .store_bytes = 4096});
  f.put(1, page_of(1));
  std::vector<const bf16*> pages(2);
  std::vector<bf16> out(page_values);
  EXPECT_THROW(f.pool.get(2, out.data()), std::out_of_range);
  EXPECT_THROW(f.pool.erase(2), std::out_of_range);
  EXPECT_THROW(f.pool.evict(ids{1, 2}), std::out_of_range);
  EXPECT_THROW(f.pool.fetch(ids{1, 2}, pages), std::out_of_range);
  EXPECT_THROW(static_cast<void>(f.pool.is_resident(2)), std::out_of_range);
  EXPECT_TRUE(f.pool.is_resident(1));
  EXPECT_EQ(f.get(1), page_of(1));
  EXPECT_THROW(pool_fixture({.pages = 0}), std::invalid_argument);
  EXPECT_THROW(pool_fixture({.pages = 1, .evict_batch = 0}), std::invalid_argument);
  EXPECT_EQ(code_of([] { pool_fixture({.pages = 1, .bound = error_bound::absolute(-1)}); }), status::bad_bound);
}

// Of frames that are all as long as each other, pinned memory takes five.
TEST(kv_pool, full_pinned_memory_leaves_all_as_it_was) {
  const uint64_t frame = bytes_in_pool(noise<bf16>(page_values));
  pool_fixture f({.pages = 8, .store_bytes = 5 * frame, .evict_batch = 4, .batch = 4});
  for (uint64_t id = 0; id < 8; ++id) f.put(id, noise<bf16>(page_values, id));
  EXPECT_EQ(code_of([&] { f.pool.evict(ids{0, 1, 2, 3, 4, 5}); }), status::pool_full);
  EXPECT_EQ(code_of([&] { f.pool.evict(6); }), status::pool_full);
  EXPECT_EQ(f.pool.statistics().held_bytes, 0u);
  EXPECT_EQ(f.pool.statistics().resident, 8u);
  f.put(8, noise<bf16>(page_values, 8));  // 0 to 3 go
  EXPECT_EQ(f.residents(99), (ids{4, 5, 6, 7, 8}));
  for (uint64_t id = 9; id < 12; ++id) f.put(id, noise<bf16>(page_values, id));
  f.put(12, noise<bf16>(page_values, 12));  // of four there is room for one
  EXPECT_EQ(f.residents(99), (ids{5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(f.pool.statistics().held_bytes, 5 * frame);
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(code_of([&] { f.put(13, noise<bf16>(page_values, 13)); }), status::pool_full);
    EXPECT_EQ(code_of([&] { static_cast<void>(f.pool.page(0)); }), status::pool_full);
    EXPECT_FALSE(f.pool.contains(13));
    EXPECT_EQ(f.residents(99), (ids{5, 6, 7, 8, 9, 10, 11, 12}));
    EXPECT_EQ(f.pool.statistics().held_bytes, 5 * frame);
  }
  for (uint64_t id = 5; id < 13; ++id) {
    EXPECT_EQ(f.get(id), noise<bf16>(page_values, id));
    f.pool.erase(id);
  }
  for (uint64_t id = 0; id < 5; ++id) {
    EXPECT_EQ(f.get(id), noise<bf16>(page_values, id));
    f.pool.erase(id);
  }
  EXPECT_EQ(f.pool.statistics().held_bytes, 0u);
}

// Frames that are raw need all of the staging, and longer lists than that more than one launch.
TEST(kv_pool, more_blocks_than_a_launch_takes_go_by_batches) {
  pool_fixture f({.pages = 11, .store_bytes = 1 << 20, .evict_batch = 8, .batch = 4});
  ids all;
  for (uint64_t id = 0; id < 22; ++id) f.put(id, noise<bf16>(page_values, id));
  for (uint64_t id = 0; id < 11; ++id) all.push_back(id);
  std::vector<const bf16*> pages(all.size());
  const auto before = f.pool.counts();
  f.pool.fetch(all, pages);
  EXPECT_EQ(f.pool.counts().decodes - before.decodes, 3u);
  EXPECT_EQ(f.residents(99), all);
  for (uint64_t id = 0; id < 22; ++id) EXPECT_EQ(f.get(id), noise<bf16>(page_values, id));
}

// With a bound for which quantizing again what has been quantized adds error to error.
TEST(kv_pool, a_bound_holds_however_often_a_block_comes_and_goes) {
  const quantize<bf16> codec(error_bound::absolute(0.0405937));
  pool_fixture f({.pages = 4,
                  .store_bytes = 1 << 20,
                  .page_budget = tight,
                  .bound = error_bound::absolute(codec.requested_bound())});
  const auto values = normals(1);
  f.put(1, values);
  page first;
  for (int turn = 0; turn < 5; ++turn) {
    f.pool.evict(1);
    const auto back = f.get(1);
    if (turn == 0) first = back;
    EXPECT_TRUE(same_bits(back, first));
    for (uint64_t i = 0; i < page_values; ++i) ASSERT_TRUE(allows(codec, values[i], back[i])) << i;
  }
  EXPECT_FALSE(same_bits(first, values));
}

// The budget decides, page by page, and the report says what it has decided.
TEST(kv_pool, a_page_loses_no_more_than_its_budget_asks_for_and_the_bound_allows) {
  const kv::pool_options options{
      .pages = 4, .store_bytes = 1 << 20, .page_budget = tight, .bound = error_bound::range_relative(1e-2)};
  const std::vector<page> pages{page_of(1, .8), normals(2), payloads(3)};
  const uint32_t forms[] = {TUCK_PAGES_LOSSLESS, TUCK_PAGES_BOUNDED, TUCK_PAGES_RAW};
  for (const bool allowed : {true, false}) {
    kv::pool_options those = options;
    if (!allowed) those.bound = {};
    pool_fixture f(those);
    for (uint64_t id = 0; id < pages.size(); ++id) {
      f.put(id, pages[id]);
      f.pool.evict(ids{id});
      const kv::page_report report = f.pool.report(id);
      const bool loses = allowed && id == 1;
      EXPECT_EQ(report.form, loses || id != 1 ? forms[id] : uint32_t{TUCK_PAGES_RAW}) << id;
      EXPECT_EQ(report.bytes, bytes_in_pool(pages[id], those)) << id;
      double range = 0, error = 0;
      const page back = f.get(id);
      if (loses) {
        const auto numbers = [](const page& p, uint64_t i) { return exact_value<bf16>(p[i].bits); };
        double low = numbers(pages[id], 0), high = low;
        for (uint64_t i = 0; i < page_values; ++i) {
          low = std::min(low, numbers(pages[id], i)), high = std::max(high, numbers(pages[id], i));
          error = std::max(error, std::fabs(numbers(pages[id], i) - numbers(back, i)));
        }
        range = high - low;
      } else {
        EXPECT_TRUE(same_bits(back, pages[id])) << id;
      }
      EXPECT_LE(report.bound, 1e-2 * range);
      EXPECT_GE(report.bound, .999e-2 * range);
      EXPECT_LE(error, report.bound);
    }
    const kv::pool_statistics all = f.pool.statistics();
    EXPECT_EQ(all.lossless, 1u);
    EXPECT_EQ(all.bounded, allowed ? 1u : 0u);
    EXPECT_EQ(all.raw, allowed ? 1u : 2u);
  }
}

// The frames in the store are the scalar codecs', byte for byte.
TEST(kv_pool, frames_are_what_the_host_writes) {
  const kv::pool_options options{.pages = 4,
                                 .store_bytes = 1 << 20,
                                 .page_budget = tight_in_chunks,
                                 .bound = error_bound::range_relative(1e-2),
                                 .chunk_values = 64};
  pool_fixture f(options);
  const frame_options shape{.chunk_values = 64, .alignment = 16};
  const std::vector<page> pages{page_of(1, .8), normals(2)};
  for (uint64_t id = 0; id < pages.size(); ++id) f.put(id, pages[id]);
  f.pool.evict(2);
  f.stream.wait();
  const auto expect = [&](uint64_t id, const frame_bytes& frame) {
    const bytes stored = f.pool.frame(id);
    EXPECT_EQ(frame_bytes(stored.begin(), stored.end()), frame) << id;
  };
  expect(0, encoded(lossless{}, pages[0], shape));
  expect(1, encoded(quantize<bf16>(options.bound), pages[1], shape));
}

// Of each form, any range; what is evicted stays so.
TEST(kv_pool, ranges_are_read_where_the_block_is) {
  pool_fixture f({.pages = 4,
                  .store_bytes = 1 << 20,
                  .page_budget = tight_in_chunks,
                  .bound = error_bound::range_relative(1e-2),
                  .chunk_values = 64});
  const device_array<bf16> out(page_values);
  const std::vector<page> pages{page_of(1, .8), normals(2), payloads(3)};
  for (uint64_t id = 0; id < pages.size(); ++id) f.put(id, pages[id]);
  f.pool.evict(pages.size());
  EXPECT_EQ(f.pool.statistics().lossless, 1u);
  EXPECT_EQ(f.pool.statistics().bounded, 1u);
  std::vector<page> whole;
  for (const bool evicted : {true, false})
    for (uint64_t id = 0; id < pages.size(); ++id) {
      if (evicted) whole.push_back(f.get(id));
      if (evicted) f.pool.evict(ids{id});
      for (const auto& [first, count] : std::vector<std::pair<uint64_t, uint64_t>>{
               {0, 300}, {0, 1}, {63, 2}, {64, 64}, {130, 100}, {299, 1}, {300, 0}}) {
        f.pool.read(id, first, out.all().subspan(0, count));
        const auto begin = whole[id].begin() + static_cast<std::ptrdiff_t>(first);
        EXPECT_TRUE(same_bits(out.download(count, f.stream), page(begin, begin + static_cast<std::ptrdiff_t>(count))))
            << id << ' ' << first;
      }
      EXPECT_EQ(f.pool.is_resident(id), !evicted);
      EXPECT_THROW(f.pool.read(id, 299, out.all().subspan(0, 2)), std::out_of_range);
      static_cast<void>(f.pool.page(id));
    }
}

// What is damaged has a name, and the block stays where it is. A range decodes no other chunks than its own.
TEST(kv_pool, damage_is_found_where_it_is_read) {
  pool_fixture f({.pages = 4, .store_bytes = 1 << 20, .chunk_values = 64});
  const auto values = page_of(1);
  f.put(1, values);
  f.put(2, page_of(2));
  f.pool.evict(2);
  f.stream.wait();
  const bytes frame = f.pool.frame(1);
  const bytes directory = frame.subspan(sizeof(frame_header), 5 * 8);
  const auto entry = load_unaligned<directory_entry>(directory.data() + 4 * 8);
  ASSERT_EQ(entry.kind(), chunk_kind::encoded);
  std::memset(frame.data() + entry.start() * 16, 0xff, entry.bytes());  // the mask of the last chunk keeps too much
  const device_array<bf16> out(page_values);
  f.pool.read(1, 100, out.all().subspan(0, 156));
  EXPECT_TRUE(same_bits(out.download(156, f.stream), page(values.begin() + 100, values.begin() + 256)));
  EXPECT_EQ(code_of([&] { f.pool.read(1, 200, out.all().subspan(0, 100)); }), status::bad_payload);
  f.pool.prefetch(ids{1, 2});
  EXPECT_EQ(code_of([&] { static_cast<void>(f.pool.page(1)); }), status::bad_payload);
  EXPECT_FALSE(f.pool.is_resident(1));
  EXPECT_EQ(f.get(2), page_of(2));
}

TEST(kv_pool, what_was_prefetched_is_there) {
  pool_fixture f({.pages = 6, .store_bytes = 1 << 20, .evict_batch = 2, .batch = 3});
  for (uint64_t id = 0; id < 10; ++id) f.put(id, page_of(id, id == 2 ? 0 : .6));  // 2 is stored raw
  f.pool.evict(100);
  const auto before = f.pool.counts();
  f.pool.prefetch(ids{1, 2, 1, 3, 4});  // a batch of them
  EXPECT_EQ(f.residents(9), (ids{1, 2, 3}));
  std::vector<const bf16*> pages(4);
  f.pool.fetch(ids{1, 2, 3}, pages);
  EXPECT_EQ(f.pool.counts().decodes, before.decodes + 1);
  for (const uint64_t id : {1, 2, 3}) EXPECT_EQ(f.get(id), page_of(id, id == 2 ? 0 : .6));
  f.pool.prefetch(ids{5, 6, 7});
  f.put(5, page_of(55));  // is not overwritten by what comes later
  f.pool.erase(6);
  EXPECT_EQ(f.get(5), page_of(55));
  EXPECT_EQ(f.get(7), page_of(7));
  f.pool.prefetch(ids{8});
  f.pool.prefetch(ids{9, 8});
  f.pool.evict(ids{8, 9});
  EXPECT_EQ(f.get(8), page_of(8));
  EXPECT_THROW(f.pool.prefetch(ids{1, 2, 3, 4, 5, 7, 8}), std::invalid_argument);
  f.pool.prefetch(ids{9, 4, 1});  // and is dropped with the pool
}

// The store may be on the device, too.
TEST(kv_pool, frames_may_stay_on_the_device) {
  async_resource memory;
  const device_stream stream;
  kv_pool<codebooks<f16>, async_resource, async_resource> pool(
      {}, {.page_values = page_values, .pages = 2, .store_bytes = 4096}, memory, memory, stream);
  const auto values = noise<f16>(page_values, 1);
  pool.put(1, values.data());
  pool.evict(1);
  EXPECT_FALSE(pool.is_resident(1));
  std::vector<f16> back(page_values);
  pool.get(1, back.data());
  stream.wait();
  EXPECT_TRUE(same_bits(back, values));
}

// Any order of calls, beside a map. `make(seed)` gives pages; `same(put, back)`: is that what was promised?
template <class Make, class Same>
void random_calls(kv::pool_options options, uint64_t seed, const Make& make, const Same& same) {
  std::mt19937_64 random(seed);
  options.pages = static_cast<uint32_t>(2 + random() % 6);
  options.store_bytes = 1 << 16;
  options.evict_batch = static_cast<uint32_t>(1 + random() % 4);
  options.batch = static_cast<uint32_t>(1 + random() % 6);
  pool_fixture f(options);
  std::map<uint64_t, page> model;
  std::set<uint64_t> framed;  // evicted since they were put
  for (int i = 0; i < 150; ++i) {
    const uint64_t id = random() % 20;
    SCOPED_TRACE("seed " + std::to_string(seed) + " call " + std::to_string(i));
    switch (random() % 7) {
      case 0:
      case 1:
        framed.erase(id);
        f.put(id, model[id] = make(random()));
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
        std::vector<const bf16*> pages(wanted.size());
        f.pool.fetch(wanted, pages);
        for (size_t k = 0; k < wanted.size(); ++k) {
          ASSERT_TRUE(f.pool.is_resident(wanted[k]));
          page back(page_values);
          check(cudaMemcpyAsync(back.data(), pages[k], page_values * sizeof(bf16), cudaMemcpyDefault, f.stream));
          f.stream.wait();
          ASSERT_TRUE(same(model[wanted[k]], back));
        }
        break;
      }
      case 4: {
        ids hinted;
        for (const auto& [known, values] : model)
          if (hinted.size() < options.pages && random() % 4 == 0) hinted.push_back(known);
        f.pool.prefetch(hinted);
        break;
      }
      case 5:
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
      if (framed.contains(known)) held += bytes_in_pool(values, options);
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
    const auto same = [](const page& put, const page& back) { return same_bits(put, back); };
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      random_calls({}, seed, [](uint64_t s) { return page_of(s); }, same);
      random_calls({.page_budget = tight}, seed + 10, [](uint64_t s) { return page_of(s, .5); }, same);  // some raw
    }
  });
}

TEST(kv_pool, any_order_of_calls_gives_what_was_put_within_the_bound) {
  for_schedules(4, [] {
    const auto bound = error_bound::absolute(0x1p-4);
    const auto same = [codec = quantize<bf16>(bound)](const page& put, const page& back) {
      for (uint64_t i = 0; i < page_values; ++i)
        if (!allows(codec, put[i], back[i])) return false;
      return true;
    };
    random_calls({.page_budget = tight, .bound = bound}, 1, normals, same);
  });
}

// Where pinned memory is full, a block that has its frame there already goes before an older one that has none.
TEST(kv_pool, a_block_that_has_its_frame_can_always_go) {
  const uint64_t one = bytes_in_pool(page_of(1, 0));
  pool_fixture f({.pages = 2, .store_bytes = one, .evict_batch = 1});
  f.put(1, page_of(1, 0));
  f.pool.evict(uint64_t{1});
  static_cast<void>(f.pool.page(1));
  f.put(2, page_of(2, 0));
  static_cast<void>(f.pool.page(1));  // so that 2 is older
  f.put(3, page_of(3, 0));
  EXPECT_EQ(f.residents(3), (ids{2, 3}));
  for (const uint64_t id : {2, 3}) EXPECT_TRUE(same_bits(f.get(id), page_of(id, 0)));
  EXPECT_EQ(code_of([&] { f.pool.page(1); }), status::pool_full);  // neither of the two has one
  EXPECT_EQ(f.residents(3), (ids{2, 3}));
}

TEST(kv_pool, a_captured_stream_is_refused) {
  pool_fixture f({.pages = 2, .store_bytes = 1 << 14});
  f.put(1, page_of(1));
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(f.stream, cudaStreamCaptureModeThreadLocal));
  EXPECT_THROW(f.pool.put(1, page_of(2).data()), std::logic_error);
  EXPECT_THROW(f.pool.page(1), std::logic_error);
  EXPECT_THROW(f.pool.evict(uint64_t{1}), std::logic_error);
  check(cudaStreamEndCapture(f.stream, &graph));
  check(cudaGraphDestroy(graph));
  EXPECT_TRUE(same_bits(f.get(1), page_of(1)));
}

#if defined(TUCK_CUDASIM)
// The k-th CUDA call of an operation fails: the operation throws, all blocks have their values, and it can be repeated.
template <class Operation> void fail_each_call(const Operation& operation) {
  constexpr uint64_t blocks = 6, another = 8;
  bool failed = true;
  for (uint64_t k = 1; failed; ++k) {
    ASSERT_LT(k, 200u);
    SCOPED_TRACE("call " + std::to_string(k));
    auto values = page_of(another);
    pool_fixture f({.pages = 4, .store_bytes = 1 << 16, .evict_batch = 3, .batch = 2});
    for (uint64_t id = 0; id < blocks; ++id) f.put(id, page_of(id));  // 0 and 1 are evicted
    cudasim::fail_call(k, cudaErrorMemoryAllocation);
    failed = code_of([&] { operation(f, values); }) == status::cuda_error;
    cudasim::fail_call(0, cudaSuccess);
    f.stream.wait();
    const kv::pool_statistics now = f.pool.statistics();
    EXPECT_FALSE(failed && f.pool.contains(another));
    EXPECT_EQ(now.resident + now.evicted, f.pool.contains(another) ? blocks + 1 : blocks);
    uint64_t held = 0;
    for (uint64_t id = 0; id < blocks; ++id)
      if (id < 2 || !f.pool.is_resident(id)) held += bytes_in_pool(page_of(id));
    EXPECT_EQ(now.held_bytes, held);
    for (uint64_t id = 0; id < blocks; ++id) EXPECT_EQ(f.get(id), page_of(id)) << id;
    EXPECT_EQ(failed ? code_of([&] { operation(f, values); }) : status::ok, status::ok);
    f.stream.wait();
    EXPECT_TRUE(!f.pool.contains(another) || f.get(another) == page_of(another));
  }
}

TEST(kv_pool_faults, of_put) {
  fail_each_call([](auto& f, const auto& values) { f.pool.put(8, values.data()); });
}
TEST(kv_pool_faults, of_fetch) {
  fail_each_call([](auto& f, const auto&) {
    std::vector<const bf16*> pages(4);
    f.pool.fetch(ids{1, 0, 5, 3}, pages);
  });
}
TEST(kv_pool_faults, of_prefetch) {
  fail_each_call([](auto& f, const auto&) {
    f.pool.prefetch(ids{1, 0, 5});
    f.pool.evict(ids{2});
  });
}
TEST(kv_pool_faults, of_read) {
  const device_array<bf16> out(page_values);
  fail_each_call([&](auto& f, const auto&) { f.pool.read(0, 3, out.all().subspan(0, 200)); });
}
TEST(kv_pool_faults, of_get) {
  fail_each_call([](auto& f, auto& values) { f.pool.get(0, values.data()); });
}
TEST(kv_pool_faults, of_evict) {
  fail_each_call([](auto& f, const auto&) { f.pool.evict(ids{3, 4, 5, 0}); });
}

// Evicting takes two launches then. Where the second fails, the range that the first has found is nobody else's.
TEST(kv_pool_faults, a_batch_that_failed_does_not_widen_the_bound_of_the_next) {
  bool failed = true;
  for (uint64_t k = 1; failed; ++k) {
    ASSERT_LT(k, 200u);
    SCOPED_TRACE("call " + std::to_string(k));
    pool_fixture f(
        {.pages = 2, .store_bytes = 1 << 16, .page_budget = tight, .bound = error_bound::range_relative(0x1p-6)});
    const auto narrow = normals(1);
    auto wide = normals(2);
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
    pinned_resource pinned;
    cudasim::fail_call(k, cudaErrorMemoryAllocation);
    failed = code_of([&] {
               kv_pool<lossless> pool({}, {.page_values = page_values, .pages = 2, .store_bytes = 4096}, memory, pinned,
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
