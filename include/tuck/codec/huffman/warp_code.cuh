// Huffman codes on one warp. The lengths are those of code.hpp, and the table words those of layout.hpp.
//
// Lane l has the symbols 8 l to 8 l + 7, which are one word of a table, or nine symbols if there are 288. If up to 32
// symbols occur, each symbol gets its own lane.
#pragma once

#include <tuck/codec/huffman/layout.hpp>
#include <tuck/core/device.cuh>

namespace tuck::inline TUCK_ABI::huffman_format {

// Returns the entry of a code in an encoder: the code in the highest 10 bits, its length in the lowest 4.
TUCK_HD constexpr uint32_t code_entry(uint32_t first_slot, uint32_t length) noexcept {
  return first_slot << (32 - max_length) | length;
}
TUCK_HD constexpr uint32_t entry_length(uint32_t entry) noexcept { return entry & 15; }

inline constexpr uint32_t only_symbol = 15;  // length of the only symbol

// The table that a warp made from the counts of a part.
struct warp_table {
  uint32_t word;    // this lane's word of eight lengths
  uint32_t groups;  // mask of the lanes whose words are stored: of bytes, those that are not 0
  uint32_t bits;    // bits of all coded symbols
};

// The lengths of a warp's symbols, K per lane.
template <int K> struct warp_lengths {
  uint32_t count[K], length[K];  // both 0 for symbols that do not occur

  __device__ uint32_t used() const {
    uint32_t sum = 0;
#pragma unroll
    for (int k = 0; k < K; ++k) sum += count[k] != 0 ? slots_of(length[k]) : 0;
    return device::warp_sum(sum);
  }

  // Adjusts the lengths by the rules of code.hpp.
  __device__ void mend() {
    uint32_t taken = used();
    while (taken > slots)
      taken -= change<true>([&](int k) { return count[k] != 0 && length[k] < max_length ? ~count[k] : 0; }) / 2;
    while (taken < slots)
      taken += change<false>(
          [&](int k) { return length[k] > 1 && taken + slots_of(length[k]) <= slots ? count[k] << length[k] : 0; });
  }
  __device__ uint32_t bits() const {
    uint32_t sum = 0;
#pragma unroll
    for (int k = 0; k < K; ++k) sum += count[k] * length[k];
    return device::warp_sum(sum);
  }

  // Sets the first slot of each code. Returns the number of slots that all codes take.
  __device__ uint32_t assign(uint32_t (&first)[K]) const {
    uint32_t next = 0;
#pragma unroll K <= 2 ? 10 : 1
    for (uint32_t l = 1; l <= max_length; ++l) {
      uint32_t before = 0, all = 0;
      if constexpr (K <= 2) {  // without waiting for one length after the other
        const uint32_t below = (1u << device::lane_id()) - 1;
#pragma unroll
        for (int k = 0; k < K; ++k) {
          const uint32_t who = device::ballot(length[k] == l);
          before += popcount(who & below);
          all += popcount(who);
        }
      } else {
        uint32_t mine = 0;
#pragma unroll
        for (int k = 0; k < K; ++k) mine += length[k] == l;
        if (!device::any(mine != 0)) continue;
        before = device::warp_inclusive_sum(mine) - mine;
        all = device::shfl(before + mine, device::warp_size - 1);
      }
      uint32_t at = next + before * slots_of(l);
#pragma unroll
      for (int k = 0; k < K; ++k)
        if (length[k] == l) {
          first[k] = at;
          at += slots_of(l);
        }
      next += all * slots_of(l);
    }
    return next;
  }

 private:
  // Makes the code of the first symbol with the largest key a bit longer or shorter. Returns the slots that it took
  // before.
  template <bool Longer, class Key> __device__ uint32_t change(const Key& key_of) {
    uint32_t key[K], best = 0;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      key[k] = key_of(k);
      best = key[k] > best ? key[k] : best;
    }
    best = device::warp_max(best);
    int mine = K;
#pragma unroll
    for (int k = K - 1; k >= 0; --k)
      if (key[k] == best) mine = k;
    const int who = device::ffs(device::ballot(mine != K)) - 1;
    uint32_t before = 0;
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (static_cast<int>(device::lane_id()) == who && mine == k) {
        before = slots_of(length[k]);
        length[k] += Longer ? 1u : ~0u;
      }
    return device::shfl(before, who);
  }
};

// Buffer that assigns a symbol to each lane.
struct warp_symbols {
  uint32_t of_symbol[few_symbols];
};

// Makes the code of a part on one warp. The counts of 16, 256 or 288 symbols in shared memory are replaced by entries.
template <uint32_t Symbols> class warp_code_maker {
  static constexpr int each = Symbols > 256 ? 9 : 8;  // symbols per lane
  static constexpr uint32_t lanes = Symbols / each;

 public:
  __device__ static warp_table make(uint32_t* counts, warp_symbols& room) {
    warp_lengths<each> all;
    uint32_t here = 0, total = 0;
#pragma unroll
    for (int k = 0; k < each; ++k) {
      all.count[k] = device::lane_id() < lanes ? counts[each * device::lane_id() + static_cast<uint32_t>(k)] : 0;
      all.length[k] = 0;
      here += all.count[k] != 0;
      total += all.count[k];
    }
    const uint32_t up_to = device::warp_inclusive_sum(here), present = device::shfl(up_to, device::warp_size - 1);
    device::sync_warp();  // all counts have been read
    warp_table made{};
    if (present > 1 && (Symbols <= few_symbols || present <= few_symbols))
      made.bits = few(all, up_to - here, present, counts, room);
    else if (present > 1)
      made.bits = many(all, device::warp_sum(total), counts);
    device::sync_warp();
#pragma unroll
    for (int k = 0; k < each; ++k)
      if (all.count[k] != 0) {
        const uint32_t at = each * device::lane_id() + static_cast<uint32_t>(k);
        if (present == 1) counts[at] = 0;
        if constexpr (each == 8) made.word |= (present == 1 ? only_symbol : entry_length(counts[at])) << (4 * k);
      }
    made.groups = Symbols == 16 ? 3 : device::ballot(made.word != 0);
    return made;
  }

 private:
  // Huffman's algorithm, one symbol per lane. room.of_symbol has the symbols that occur. Then each lane has the key of
  // a tree, named by the lane of one of its symbols, or all ones:
  //
  //    31              9 8            0      31                     5 4           0
  //   +-----------------+--------------+    +------------------------+-------------+
  //   |      count      |    symbol    |    |    count of the tree   |    lane     |
  //   +-----------------+--------------+    +------------------------+-------------+
  __device__ static uint32_t few(const warp_lengths<each>& all, uint32_t rank, uint32_t present, uint32_t* entries,
                                 warp_symbols& room) {
    const uint32_t lane = device::lane_id();
#pragma unroll
    for (int k = 0; k < each; ++k)
      if (all.count[k] != 0) room.of_symbol[rank++] = all.count[k] << 9 | (each * lane + static_cast<uint32_t>(k));
    device::sync_warp();
    const bool takes = lane < present;
    const uint32_t own = takes ? room.of_symbol[lane] : 0;
    device::sync_warp();
    warp_lengths<1> mine{{own >> 9}, {0}};
    uint32_t key = takes ? mine.count[0] << 5 | lane : ~0u, group = lane;
#pragma unroll 1
    for (uint32_t left = present; left > 1; --left) {
      const uint32_t a = device::warp_min(key);
      if (key == a) key = ~0u;
      const uint32_t b = device::warp_min(key);
      if (key == b) key = ~0u;
      if (lane == a % 32) key = (a / 32 + b / 32) << 5 | lane;
      if (group == a % 32 || group == b % 32) {
        ++mine.length[0];
        group = a % 32;
      }
    }
    mine.length[0] = takes ? min(mine.length[0], max_length) : 0;
    mine.mend();
    uint32_t first[1];
    mine.assign(first);
    if (takes) entries[own & 511] = code_entry(first[0], mine.length[0]);
    return mine.bits();
  }
  __device__ static uint32_t min(uint32_t a, uint32_t b) { return a < b ? a : b; }

  __device__ static uint32_t many(warp_lengths<each>& all, uint32_t total, uint32_t* entries) {
    uint32_t low = 0;
#pragma unroll 1
    for (uint32_t step = 32; step != 0; step /= 2) {
      round(all, round_begin(total, low + step - 1));
      if (all.used() > slots) low += step;
    }
    round(all, round_begin(total, low));
    all.mend();
    uint32_t first[each];
    all.assign(first);
#pragma unroll
    for (int k = 0; k < each; ++k)
      if (all.count[k] != 0)
        entries[each * device::lane_id() + static_cast<uint32_t>(k)] = code_entry(first[k], all.length[k]);
    return all.bits();
  }
  __device__ static void round(warp_lengths<each>& all, uint32_t least) {
#pragma unroll
    for (int k = 0; k < each; ++k) all.length[k] = all.count[k] != 0 ? rounded_length(all.count[k], least) : 0;
  }
};

// Makes a code by the rules of round_lengths (code.hpp) on one warp. The counts of `Symbols` <= 64 symbols in shared
// memory are replaced by entries, or 0 for symbols without a code. Returns the bits of all counted symbols.
template <uint32_t Symbols, uint32_t Most> __device__ uint32_t round_code(uint32_t* counts) {
  constexpr int each = Symbols > device::warp_size ? 2 : 1;
  const uint32_t lane = device::lane_id(), first_symbol = each * lane;
  warp_lengths<each> all;
  uint32_t total = 0, here = 0;
#pragma unroll
  for (int k = 0; k < each; ++k) {
    all.count[k] = first_symbol < Symbols ? counts[first_symbol + static_cast<uint32_t>(k)] : 0;
    total += all.count[k];
    here |= all.count[k] != 0 ? 1u << k : 0;
  }
  total = device::warp_sum(total);
  const uint32_t with = device::ballot(here != 0);
  if (popcount(with) <= 1 && !device::any(here == 3)) {  // one symbol: it and its neighbour get a bit
    const uint32_t pair = each == 2 ? with : with | (with & 0x55555555) << 1 | (with & 0xaaaaaaaa) >> 1;
#pragma unroll
    for (int k = 0; k < each; ++k) all.length[k] = pair >> lane & 1;
  } else {
    const auto round = [&](uint32_t least) {
#pragma unroll
      for (int k = 0; k < each; ++k) {
        const uint32_t l = all.count[k] != 0 ? rounded_length(all.count[k], least) : 0;
        all.length[k] = l < Most ? l : Most;
      }
    };
    uint32_t low = 0;
#pragma unroll 1
    for (uint32_t step = 32; step != 0; step /= 2) {
      round(round_begin(total, low + step - 1));
      if (all.used() > slots) low += step;
    }
    round(round_begin(total, low));
    for (uint32_t taken = all.used(); taken < slots;) {  // the key of a symbol: count << length, then its number
      uint32_t best = 0;
#pragma unroll
      for (uint32_t k = 0; k < each; ++k) {
        const uint32_t l = all.length[k], key = (all.count[k] << l) << 6 | (63 - first_symbol - k);
        best = l > 1 && taken + slots_of(l) <= slots && key > best ? key : best;
      }
      const uint32_t s = 63 - device::warp_max(best) % 64;
      taken += slots_of(device::shfl(s % each == 0 ? all.length[0] : all.length[each - 1], static_cast<int>(s / each)));
      if (lane == s / each) --(s % each == 0 ? all.length[0] : all.length[each - 1]);
    }
  }
  uint32_t first[each] = {};
  all.assign(first);
  const uint32_t bits = all.bits();
  device::sync_warp();
#pragma unroll
  for (int k = 0; k < each; ++k)
    if (first_symbol < Symbols)
      counts[first_symbol + static_cast<uint32_t>(k)] = all.length[k] != 0 ? code_entry(first[k], all.length[k]) : 0;
  return bits;
}

// Copies the entry of each code to all its slots. One warp calls it; each lane has 32 slots.
__device__ inline void spread_entries(device::vec128* rows) {
  const uint32_t lane = device::lane_id();
  device::vec128 mine[4];
  uint32_t last = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    mine[i] = rows[4 * lane + static_cast<uint32_t>(i)];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const uint32_t w = mine[i].w[k];
      last = w >> 16 != 0 ? w >> 16 : w != 0 ? w : last;
    }
  }
#pragma unroll
  for (unsigned delta = 1; delta < device::warp_size; delta *= 2) {
    const uint32_t before = device::shfl_up(last, delta);
    if (lane >= delta && last == 0) last = before;
  }
  uint32_t now = device::shfl_up(last, 1);
  if (lane == 0) now = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const uint32_t w = mine[i].w[k], low = (w & 0xffff) != 0 ? w & 0xffff : now;
      now = w >> 16 != 0 ? w >> 16 : low;
      mine[i].w[k] = low | now << 16;
    }
    rows[4 * lane + static_cast<uint32_t>(i)] = mine[i];
  }
  device::sync_warp();
}

// Writes the entry of each code, symbol << Shift | length, to its first slot, and zeros elsewhere. One warp calls it.
template <uint32_t Shift, int K>
__device__ void place_codes(const warp_lengths<K>& all, uint16_t (&table)[slots], warp_symbols& room) {
  const uint32_t lane = device::lane_id();
  uint32_t here = 0;
#pragma unroll
  for (int k = 0; k < K; ++k) here += all.length[k] != 0;
  auto* const rows = reinterpret_cast<device::vec128*>(table);
#pragma unroll
  for (uint32_t i = 0; i < slots * 2 / 16 / 32; ++i) rows[32 * i + lane] = {};
  const uint32_t up_to = device::warp_inclusive_sum(here), present = device::shfl(up_to, device::warp_size - 1);
  device::sync_warp();
  if (present <= few_symbols) {
    uint32_t rank = up_to - here;
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (all.length[k] != 0) room.of_symbol[rank++] = (K * lane + static_cast<uint32_t>(k)) << Shift | all.length[k];
    device::sync_warp();
    const uint32_t own = lane < present ? room.of_symbol[lane] : 0;
    const warp_lengths<1> mine{{own & 15}, {own & 15}};
    uint32_t first[1];
    mine.assign(first);
    if (own != 0) table[first[0]] = static_cast<uint16_t>(own);
  } else {
    uint32_t first[K];
    all.assign(first);
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (all.length[k] != 0)
        table[first[k]] = static_cast<uint16_t>((K * lane + static_cast<uint32_t>(k)) << Shift | all.length[k]);
  }
}

}  // namespace tuck::inline TUCK_ABI::huffman_format
