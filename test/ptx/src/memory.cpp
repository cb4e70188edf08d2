#include "memory.hpp"

#include <algorithm>
#include <mutex>

namespace ptx {
namespace {

struct registry {
  std::mutex mutex;
  std::shared_ptr<const std::vector<allocation>> table = std::make_shared<std::vector<allocation>>();
};

registry& all() {
  static registry& r = *new registry;
  return r;
}

uint64_t number(const void* p) { return reinterpret_cast<uint64_t>(p); }

auto after(const std::vector<allocation>& table, uint64_t address) {
  return std::upper_bound(table.begin(), table.end(), address,
                          [](uint64_t a, const allocation& x) { return a < x.begin; });
}

// The allocation that holds these bytes, or an empty one.
allocation holding(const void* p, std::size_t bytes) {
  const std::lock_guard lock(all().mutex);
  const auto i = after(*all().table, number(p));
  return i != all().table->begin() && std::prev(i)->holds(number(p), bytes) ? *std::prev(i) : allocation{};
}

// The bits of word `w` that belong to the bytes from first to last.
uint64_t bits_in(uint64_t w, uint64_t first, uint64_t end) {
  uint64_t bits = ~uint64_t{0};
  if (w == first / 64) bits &= ~uint64_t{0} << first % 64;
  if (end < (w + 1) * 64) bits &= (uint64_t{1} << end % 64) - 1;
  return bits;
}

}  // namespace

std::atomic<uint64_t> memory_map::current_version{1};

void written_bytes::mark(uint64_t first, uint64_t count) {
  if (complete() || count == 0) return;
  for (uint64_t w = first / 64; w * 64 < first + count; ++w) {
    const uint64_t bits = bits_in(w, first, first + count);
    if ((bits_[w].load(std::memory_order_relaxed) & bits) != bits) bits_[w].fetch_or(bits, std::memory_order_relaxed);
  }
}

uint64_t written_bytes::first_unwritten(uint64_t first, uint64_t count) const {
  if (complete()) return count;
  for (uint64_t w = first / 64; w * 64 < first + count; ++w) {
    const uint64_t missing = bits_in(w, first, first + count) & ~bits_[w].load(std::memory_order_relaxed);
    if (missing != 0) return w * 64 + static_cast<uint64_t>(__builtin_ctzll(missing)) - first;
  }
  return count;
}

void add_memory(const void* p, std::size_t bytes, memory_kind kind) {
  const std::lock_guard lock(all().mutex);
  auto changed = std::make_shared<std::vector<allocation>>(*all().table);
  changed->insert(
      after(*changed, number(p)),
      {number(p), number(p) + bytes, kind == memory_kind::device ? std::make_shared<written_bytes>(bytes) : nullptr});
  all().table = std::move(changed);
  memory_map::current_version.fetch_add(1, std::memory_order_release);
}

void remove_memory(const void* p) {
  const std::lock_guard lock(all().mutex);
  auto changed = std::make_shared<std::vector<allocation>>(*all().table);
  std::erase_if(*changed, [&](const allocation& a) { return a.begin == number(p); });
  all().table = std::move(changed);
  memory_map::current_version.fetch_add(1, std::memory_order_release);
}

void mark_written(const void* p, std::size_t bytes) {
  const allocation a = holding(p, bytes);
  if (a.written) a.written->mark(number(p) - a.begin, bytes);
}

void mark_copied(const void* to, const void* from, std::size_t bytes) {
  const allocation a = holding(from, bytes), b = holding(to, bytes);
  if (!b.written) return;
  if (!a.written) return b.written->mark(number(to) - b.begin, bytes);
  const uint64_t at = number(from) - a.begin;
  for (uint64_t done = 0; done < bytes;) {  // runs of written bytes, one by one
    const uint64_t run = a.written->first_unwritten(at + done, bytes - done);
    b.written->mark(number(to) - b.begin + done, run);
    done += run;
    while (done < bytes && a.written->first_unwritten(at + done, 1) == 0) ++done;
  }
}

void memory_map::renew() {
  const std::lock_guard lock(all().mutex);
  version_ = current_version.load(std::memory_order_relaxed);
  table_ = all().table;
  last_ = nullptr;
}

const allocation* memory_map::search(uint64_t address, uint64_t bytes) {
  const auto i = after(*table_, address);
  if (i == table_->begin() || !std::prev(i)->holds(address, bytes)) return nullptr;
  return last_ = &*std::prev(i);
}

std::string memory_map::explain(uint64_t address, uint64_t bytes) {
  renew();
  const std::string access = "access of " + std::to_string(bytes) + " bytes ";
  const auto i = after(*table_, address);
  if (i != table_->begin()) {
    const allocation& a = *std::prev(i);
    if (address < a.end + 4096)
      return access + "at byte " + std::to_string(address - a.begin) + " of an allocation of " +
             std::to_string(a.end - a.begin);
  }
  if (i != table_->end() && address + 4096 > i->begin)
    return access + std::to_string(i->begin - address) + " bytes before an allocation of " +
           std::to_string(i->end - i->begin);
  return access + "in no allocation";
}

}  // namespace ptx
