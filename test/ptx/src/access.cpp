#include "access.hpp"

#include <algorithm>
#include <numeric>

namespace ptx {
namespace {

constexpr const char* name_of(space s) {
  constexpr const char* names[] = {"generic", "global", "shared", "local", "parameter", "constant"};
  return names[static_cast<int>(s)];
}

space space_of(uint64_t address, space named) {
  if (named != space::generic) return named;
  switch (address & window_mask) {
    case shared_window: return space::shared;
    case local_window: return space::local;
    case param_window: return space::param;
    default: return space::global;
  }
}

[[noreturn]] void out_of_bounds(const warp& w, space s, uint64_t address, uint64_t bytes, uint64_t size, int lane) {
  fault(w, "out of bounds",
        std::string(name_of(s)) + " memory: access of " + std::to_string(bytes) + " bytes at byte " +
            std::to_string(address) + " of " + std::to_string(size),
        lane);
}

bool fits(uint64_t address, uint64_t bytes, uint64_t size) { return address <= size && bytes <= size - address; }

bool needs(const instruction& i, unsigned byte) { return byte >= 32 || (i.used_bytes >> byte & 1) != 0; }

void check_written(warp& w, const instruction& i, const allocation& a, uint64_t address, unsigned bytes, int lane) {
  if (!a.written || a.written->complete()) return;
  const uint64_t first = address - a.begin;
  for (uint64_t at = a.written->first_unwritten(first, bytes); at < bytes;
       at += 1 + a.written->first_unwritten(first + at + 1, bytes - at - 1))
    if (needs(i, static_cast<unsigned>(at)))
      fault(w, "uninitialised",
            "global memory: byte " + std::to_string(first + at) + " of an allocation of " +
                std::to_string(a.end - a.begin) + " has never been written",
            lane);
}

target_place in_global(warp& w, const instruction& i, int lane, uint64_t address, unsigned bytes, access kind,
                       const std::byte* value) {
  const allocation* a = w.run->memory.find(address, bytes);
  if (a == nullptr) fault(w, "out of bounds", "global memory: " + w.run->memory.explain(address, bytes), lane);
  if (value == nullptr && w.run->how.check) check_written(w, i, *a, address, bytes, lane);
  if (i.read_only && w.run->how.weak && w.run->weak.wrote(*w.home, address, bytes))
    fault(w, "race", "a load through the read-only path of what this launch has written", lane);
  const bool writes = kind == access::write || kind == access::atomic;
  if (writes && w.run->sources.may_touch(address, bytes))
    if (const async_copy* c = w.run->copy_reading(address, bytes))
      fault(w, "pending copy", "global memory: a write to what is copied, before the wait\n" + describe(w, *c), lane);
  if (writes && a->written) {
    if (w.run->how.check)
      a->written->mark(address - a->begin, bytes);
    else
      a->written->set_complete();
  }
  return {space::global, address, reinterpret_cast<std::byte*>(address)};
}

target_place in_shared(warp& w, const instruction& i, int lane, uint64_t address, unsigned bytes, access kind,
                       const std::byte* value) {
  shared_memory& s = w.home->shared;
  check_shared_bounds(w, address, bytes, lane);
  if (s.checked()) {
    uint32_t other = 0;
    const char* wrong = s.touch(kind, static_cast<uint32_t>(address), bytes, w.index * 32 + static_cast<uint32_t>(lane),
                                w.clock, value, i.used_bytes, w.run->may_read_unwritten(w.pc), other);
    if (wrong != nullptr) fault_in_shared(w, wrong, address, other, lane);
  }
  return {space::shared, address, s.data() + address};
}

}  // namespace

std::string describe(const warp& w, const async_copy& c) {
  std::string s =
      "  of " + std::to_string(c.bytes) + " bytes, by thread " + std::to_string(c.thread) + ":\n" + w.code->place(c.pc);
  s.pop_back();  // the end of the line
  return s;
}

void check_shared_bounds(const warp& w, uint64_t address, uint64_t bytes, int lane) {
  const uint64_t size = w.home->shared.size();
  if (!fits(address, bytes, size)) out_of_bounds(w, space::shared, address, bytes, size, lane);
}

void check_source(warp& w, const instruction& i, int lane, uint64_t address, unsigned bytes) {
  in_global(w, i, lane, address, bytes, access::read, nullptr);
}

void fault_in_shared(const warp& w, const char* wrong, uint64_t address, uint32_t other, int lane) {
  const std::string_view what = wrong;
  const std::string byte = "shared memory, byte " + std::to_string(address), thread = "thread " + std::to_string(other);
  if (what == "race") fault(w, wrong, byte + ": " + thread + " touched it since the last barrier", lane);
  if (what == "pending copy")
    fault(w, wrong, byte + ": this thread knows of no wait for the copy\n" + describe(w, w.home->copies.all()[other]),
          lane);
  if (what == "proxy")
    fault(w, "race", byte + ": " + thread + " wrote it, and no fence.proxy.async lies between that and a bulk copy",
          lane);
  if (what == "mbarrier") fault(w, wrong, byte + " is of an mbarrier", lane);
  fault(w, wrong, byte + " has never been written", lane);
}

target_place find_place(warp& w, const instruction& i, int lane, uint64_t address, unsigned bytes, access kind,
                        const std::byte* value) {
  const space s = space_of(address, i.where);
  if (i.where == space::generic) address &= s == space::global ? ~uint64_t{0} : ~window_mask;
  if (address % bytes != 0)
    fault(w, "misaligned",
          std::string(name_of(s)) + " memory: address " + std::to_string(address) + " of " + std::to_string(bytes) +
              " bytes",
          lane);
  switch (s) {
    case space::shared: return in_shared(w, i, lane, address, bytes, kind, value);
    case space::local: {
      const uint32_t size = w.code->local_bytes;
      if (!fits(address, bytes, size)) out_of_bounds(w, s, address, bytes, size, lane);
      return {s, address, w.local.data() + static_cast<std::size_t>(lane) * size + address};
    }
    case space::param:
      if (kind == access::write || kind == access::atomic) fault(w, "out of bounds", "parameters are read-only", lane);
      if (!fits(address, bytes, w.code->parameter_bytes))
        out_of_bounds(w, s, address, bytes, w.code->parameter_bytes, lane);
      return {s, address, const_cast<std::byte*>(w.run->arguments()) + address};
    default: return in_global(w, i, lane, address, bytes, kind, value);
  }
}

namespace {

// Distinct numbers among those that fill `all`.
std::size_t unique_count(std::vector<uint64_t>& all) {
  if (!std::is_sorted(all.begin(), all.end())) std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all.size();
}

// The words that a warp's access touches, by bank. A lane touches at most one word of a bank.
class bank_words {
 public:
  void end_round() {
    ++round_;
    wavefronts_ += most_;
    lane_wavefronts_ += most_lanes_;
    most_ = most_lanes_ = 0;
    distinct_in_round_.fill(0);
    lanes_in_round_.fill(0);
  }
  void touch(uint64_t word) {
    const std::size_t bank = word % banks;
    most_lanes_ = std::max(most_lanes_, ++lanes_in_round_[bank]);
    seen* const first = words_[bank].data();
    seen* const last = first + distinct_[bank];
    seen* const found = std::find_if(first, last, [=](const seen& s) { return s.word == word; });
    if (found != last && found->round == round_) return;
    if (found == last) ++distinct_[bank];
    *found = {word, round_};
    most_ = std::max(most_, ++distinct_in_round_[bank]);
  }

  // Of the rounds that have ended.
  uint32_t wavefronts() const { return wavefronts_; }
  uint32_t lane_wavefronts() const { return lane_wavefronts_; }
  uint32_t distinct() const { return std::accumulate(distinct_.begin(), distinct_.end(), 0u); }

 private:
  static constexpr std::size_t banks = 32;
  struct seen {
    uint64_t word;
    uint32_t round;
  };
  std::array<std::array<seen, 32>, banks> words_;
  std::array<uint32_t, banks> distinct_{}, distinct_in_round_{}, lanes_in_round_{};
  uint32_t round_ = 0, most_ = 0, most_lanes_ = 0, wavefronts_ = 0, lane_wavefronts_ = 0;
};

// Accesses of 8 and 16 bytes take 2 and 4 rounds of lanes; in each, a bank gives one word, or changes one for one lane.
void count_shared(warp& w, const instruction& i, uint32_t lanes, unsigned bytes) {
  const int lanes_a_round = bytes <= 4 ? 32 : static_cast<int>(128 / bytes);
  bank_words words;
  for (int first = 0; first < 32; first += lanes_a_round) {
    for (int l = first; l < first + lanes_a_round; ++l) {
      if ((lanes >> l & 1) == 0) continue;
      const uint64_t a = address_in(w, i, l) & ~window_mask;
      for (uint64_t word = a / 4; word <= (a + bytes - 1) / 4; ++word) words.touch(word);
    }
    words.end_round();
  }
  pc_counts& c = w.run->counts[w.pc];
  c.wavefronts += i.moves == traffic::atomic ? words.lane_wavefronts() : words.wavefronts();
  c.least_wavefronts += (words.distinct() + 31) / 32;
  if (access_record* const r = w.run->record) {
    r->where = space::shared;
    r->wavefronts = words.wavefronts();
    r->lane_wavefronts = words.lane_wavefronts();
  }
}

}  // namespace

void count_traffic(warp& w, const instruction& i, uint32_t lanes, unsigned bytes, bool reads, bool writes) {
  const uint64_t first = address_in(w, i, std::countr_zero(lanes));
  const space s = space_of(first, i.where);
  if (s == space::shared) return count_shared(w, i, lanes, bytes);
  if (s != space::global) return;
  static thread_local std::vector<uint64_t> all, of_tensors;
  all.clear();
  of_tensors.clear();
  uint64_t tensor_bytes = 0, other_bytes = 0;
  for (uint32_t left = lanes; left != 0; left &= left - 1) {
    const uint64_t a = address_in(w, i, std::countr_zero(left));
    const bool tensor = w.run->is_tensor(a);
    (tensor ? tensor_bytes : other_bytes) += bytes;
    for (uint64_t sector = a / 32; sector <= (a + bytes - 1) / 32; ++sector) {
      all.push_back(sector);
      if (tensor) of_tensors.push_back(sector);
    }
  }
  const uint64_t n = unique_count(all), tensors = unique_count(of_tensors);
  if (access_record* const r = w.run->record) {
    r->where = space::global;
    r->sectors = all;
  }
  w.run->counts[w.pc].sectors += n;
  counters& c = w.run->totals;
  if (reads) {
    c.load_sectors += n;
    c.tensor_bytes_read += tensor_bytes;
    c.other_bytes_read += other_bytes;
    c.tensor_sectors_read += tensors;
    c.other_sectors_read += n - tensors;
  }
  if (writes) {
    c.store_sectors += n;
    c.tensor_bytes_written += tensor_bytes;
    c.other_bytes_written += other_bytes;
    c.tensor_sectors_written += tensors;
    c.other_sectors_written += n - tensors;
  }
}

}  // namespace ptx
