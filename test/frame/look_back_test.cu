// Look-back over words that the host made and over words that other blocks publish; the wrap of the epoch; the state
// that the blocks of a call share.
#include "support/device_memory.hpp"

#include <tuck/frame/look_back.cuh>
#include <tuck/frame/sums.cuh>

#include <cstring>
#include <numeric>

namespace tuck::test {
namespace {

constexpr uint32_t last_epoch = (1u << 22) - 1;
constexpr uint64_t state_of(uint32_t epoch, bool end, uint64_t units) {
  return uint64_t{epoch + 1} << 41 | uint64_t{end} << 40 | units;
}

__global__ void one_look(const uint64_t* states, uint32_t chunk, uint32_t epoch, uint64_t first, uint64_t* to) {
  device::store(to + device::lane_id(), look_back(states, chunk, epoch, first));
}
void expect_offset(const std::vector<uint64_t>& states, uint32_t epoch, uint64_t first, uint64_t expected) {
  const device_stream stream;
  const device_array<uint64_t> words(states, stream), to(32);
  launch_on(stream, 1, 32, one_look, static_cast<const uint64_t*>(words.data()), static_cast<uint32_t>(states.size()),
            epoch, first, to.data());
  EXPECT_EQ(to.download(stream), std::vector<uint64_t>(32, expected)) << states.size() << ' ' << epoch;
}

TEST(look_back, adds_sizes_from_the_first_chunk) {
  for (const uint32_t epoch : {0u, last_epoch})
    for (const uint32_t chunks : {0u, 1u, 32u, 33u, 65u}) {
      std::vector<uint64_t> states;
      for (uint32_t i = 0; i < chunks; ++i) states.push_back(state_of(epoch, false, i + 1));
      expect_offset(states, epoch, 7, 7 + chunks * (chunks + 1) / 2);
    }
}
TEST(look_back, stops_at_the_nearest_end) {
  constexpr uint64_t large = (uint64_t{1} << 40) - 1000;
  for (const uint32_t distance : {1u, 2u, 32u, 33u, 65u}) {
    std::vector<uint64_t> states(100, state_of(3, true, 1));  // farther ends, which nobody reads
    states[100 - distance] = state_of(3, true, large);
    for (uint32_t i = 101 - distance; i < 100; ++i) states[i] = state_of(3, false, 2);
    expect_offset(states, 3, 7, large + 2 * (distance - 1));
  }
}

// Each block draws a chunk, publishes its size, and its end when it has found its offset. Words of other epochs are
// those of earlier calls.
__global__ void chunks_by_ticket(scratch_head* head, uint64_t* states, uint32_t epoch, uint64_t* offsets) {
  const uint32_t drawn = device::lane_id() == 0 ? device::atomic_add(&head->ticket, 1u) : 0;
  const uint32_t chunk = device::shfl(drawn, 0), size = chunk % 5;
  if (device::lane_id() == 0)
    device::store_relaxed(states + chunk, chunk_state::make(chunk_state::has_size, epoch, size).word);
  const uint64_t begin = look_back(states, chunk, epoch, 3);
  if (device::lane_id() == 0) {
    device::store_relaxed(states + chunk, chunk_state::make(chunk_state::has_end, epoch, begin + size).word);
    device::store(offsets + chunk, begin);
  }
}
TEST(look_back, waits_for_chunks_of_its_epoch) {
  constexpr uint32_t chunks = 70;
  for_schedules(4, [&] {
    for (const uint32_t epoch : {1u, last_epoch}) {
      const device_stream stream;
      const device_array<scratch_head> head(std::vector<scratch_head>(1), stream);
      const device_array<uint64_t> states(std::vector<uint64_t>(chunks, state_of(epoch - 1, true, 12345)), stream);
      const device_array<uint64_t> offsets(chunks);
      launch_on(stream, chunks, 32, chunks_by_ticket, head.data(), states.data(), epoch, offsets.data());
      const auto got = offsets.download(stream);
      for (uint64_t i = 0, at = 3; i < chunks; at += i++ % 5) ASSERT_EQ(got[i], at) << i;
    }
  });
}

constexpr int clearers = 64;
__global__ void clear_words(uint64_t* states, uint64_t count, uint32_t epoch) {
  clear_at_wrap<clearers>(states, count, epoch);
}
TEST(look_back, words_are_cleared_when_the_epoch_wraps) {
  for (const uint32_t epoch : {0u, last_epoch - 1, last_epoch})
    for (const uint64_t count : {0, 63, 65, 200}) {
      const device_stream stream;
      std::vector<uint64_t> words(201, 9);
      const device_array<uint64_t> states(words, stream);
      launch_on(stream, 1, clearers, clear_words, states.data(), count, epoch);
      if (epoch == last_epoch) std::fill_n(words.begin(), count, 0);
      EXPECT_EQ(states.download(stream), words) << epoch << ' ' << count;
    }
}

__global__ void next_epoch(scratch_head* head, uint32_t next) {
  if (threadIdx.x == 0) reset(*head, next);
}
TEST(scratch_head, is_reset_to_the_next_epoch) {
  for (const auto& [next, epoch] : {std::pair{1u, 1u}, {last_epoch, last_epoch}, {last_epoch + 1, 0u}}) {
    const device_stream stream;
    scratch_head used{};
    std::memset(static_cast<void*>(&used), 0xa5, offsetof(scratch_head, ready));
    const device_array<scratch_head> head(std::vector<scratch_head>{used}, stream);
    launch_on(stream, 1, 32, next_epoch, head.data(), next);
    const auto got = head.download(stream);
    EXPECT_EQ(got[0].failure | got[0].contents | got[0].ticket | got[0].done, 0u);
    EXPECT_EQ(got[0].range.lowest | got[0].range.highest, 0u);
    EXPECT_EQ(got[0].epoch, epoch);
  }
}

// The blocks of an item share its state, which holds anything before.
__global__ void share_item(scratch_head* item, uint32_t epoch, uint32_t* last) {
  if (threadIdx.x != 0) return;
  const uint32_t slot = device::atomic_add(last + 2, 1u);  // blocks may start in any order
  open_item(*item, slot, gridDim.x == 1, epoch);
  add_contents(*item, {uint64_t{1} << slot});
  if (!finish_shares(*item, 1, gridDim.x)) return;
  device::atomic_add(last, 1u);
  device::store(last + 1, static_cast<uint32_t>(device::load_relaxed(&item->contents)));
}
TEST(scratch_head, of_an_item_is_cleared_by_its_first_slot) {
  for_schedules(4, [&] {
    for (const uint32_t shares : {1u, 2u, 7u}) {
      const device_stream stream;
      scratch_head any{};
      std::memset(static_cast<void*>(&any), 0xa5, sizeof any);
      const device_array<scratch_head> item(std::vector<scratch_head>{any}, stream);
      const device_array<uint32_t> last(std::vector<uint32_t>(3), stream);
      launch_on(stream, shares, 32, share_item, item.data(), 4u, last.data());
      EXPECT_EQ(last.download(stream), (std::vector<uint32_t>{1, (1u << shares) - 1, shares})) << shares;
    }
  });
}

__global__ void sum_threads(uint64_t* to) {
  using sums = block_sums<64, 2>;
  TUCK_SHARED(sums::TempStorage, temp);
  word_sum mine[] = {{threadIdx.x}, {uint64_t{1} << 40}};
  sums::reduce(temp, mine);
  if (threadIdx.x != 0) return;
  device::store(to, mine[0].sum);
  device::store(to + 1, mine[1].sum);
}
TEST(block_sums, add_up_all_threads) {
  const device_stream stream;
  const device_array<uint64_t> to(2);
  launch_on(stream, 1, 64, sum_threads, to.data());
  EXPECT_EQ(to.download(stream), (std::vector<uint64_t>{63 * 32, uint64_t{64} << 40}));
}

}  // namespace
}  // namespace tuck::test
