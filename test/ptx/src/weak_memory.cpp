#include "weak_memory.hpp"

#include "warp.hpp"

#include <algorithm>
#include <cstring>

namespace ptx {
namespace {

uint64_t word_of(uint64_t address) { return address & ~uint64_t{7}; }
std::byte* memory_at(uint64_t address) { return reinterpret_cast<std::byte*>(address); }
uint64_t load_word(uint64_t address) {
  uint64_t v;
  std::memcpy(&v, memory_at(address), 8);
  return v;
}

// Calls body(word, first byte in the word, bytes there, offset in the access).
template <class Body> void for_words(uint64_t address, unsigned bytes, const Body& body) {
  for (unsigned done = 0; done < bytes;) {
    const uint64_t at = address + done, word = word_of(at);
    const auto first = static_cast<unsigned>(at - word), n = std::min(8 - first, bytes - done);
    body(word, first, n, done);
    done += n;
  }
}

}  // namespace

void weak_memory::replace(history& h, uint64_t before, const block& b, uint64_t released) {
  version& old = h.old[h.count++ % h.old.size()];
  old = h.now;
  old.value = before;
  old.replaced = ++now_;
  h.now = {0, now_, released, 0, &b};
}

void weak_memory::arrive(const block& b, uint64_t address, const held_word& word) {
  replace(words_[address], load_word(address), b, word.released);
  const auto* bytes = reinterpret_cast<const std::byte*>(&word.value);
  if (word.bytes == 0xff) {
    __atomic_store_n(reinterpret_cast<uint64_t*>(address), word.value, __ATOMIC_RELEASE);
    return;
  }
  for (unsigned k = 0; k < 8; ++k) {
    const unsigned four = word.bytes >> k & 15;
    if (k % 4 == 0 && four == 15) {
      uint32_t half;
      std::memcpy(&half, bytes + k, 4);
      __atomic_store_n(reinterpret_cast<uint32_t*>(address + k), half, __ATOMIC_RELEASE);
      k += 3;
    } else if ((four & 1) != 0) {
      *memory_at(address + k) = bytes[k];
    }
  }
}

void weak_memory::release_all(block& b) {
  for (const auto& [address, word] : b.stores.words) arrive(b, address, word);
  b.stores.words.clear();
}

void weak_memory::release_some(block& b) {
  auto& words = b.stores.words;
  for (uint32_t n = random_.below(12); n > 0 && !words.empty(); --n) {
    arrive(b, words.begin()->first, words.begin()->second);
    words.erase(words.begin());
  }
}

uint64_t weak_memory::last_write(const block& b, uint64_t address, unsigned bytes) const {
  uint64_t last = 0;
  for_words(address, bytes, [&](uint64_t word, unsigned, unsigned, unsigned) {
    if (const auto f = words_.find(word); f != words_.end()) last = std::max(last, f->second.now.time);
    if (b.stores.words.contains(word)) last = ~uint64_t{0};
  });
  return last;
}

// A value that the block may see: none older than one that it wrote, saw or acquired. Null: what is in memory.
const weak_memory::version* weak_memory::choose(const history& h, const block& b, const weak_view& view,
                                                uint64_t address) {
  if (h.now.writer == &b || random_.below(2) == 0) return nullptr;
  uint64_t bound = view.acquired;
  if (const auto s = view.seen.find(address); s != view.seen.end()) bound = std::max(bound, s->second);
  const version* chosen = nullptr;
  for (std::size_t back = 1; back <= std::min<std::size_t>(h.count, h.old.size()); ++back) {
    const version& v = h.old[(h.count - back) % h.old.size()];
    if (v.replaced <= bound) break;
    chosen = &v;
    if (v.writer == &b || random_.below(2) == 0) break;
  }
  return chosen;
}

void weak_memory::read(block& b, weak_view& view, uint64_t address, void* to, unsigned bytes, bool acquires) {
  std::memcpy(to, memory_at(address), bytes);
  auto* out = static_cast<std::byte*>(to);
  for_words(address, bytes, [&](uint64_t word, unsigned first, unsigned n, unsigned done) {
    if (const auto f = words_.find(word); f != words_.end()) {
      const version* old = choose(f->second, b, view, word);
      const version& v = old != nullptr ? *old : f->second.now;
      if (old != nullptr) std::memcpy(out + done, reinterpret_cast<const std::byte*>(&old->value) + first, n);
      uint64_t& seen = view.seen[word];
      seen = std::max(seen, v.time);
      uint64_t& known = acquires ? view.acquired : view.pending;
      known = std::max(known, v.released);
    }
    if (const auto held = b.stores.words.find(word); held != b.stores.words.end())
      for (unsigned k = 0; k < n; ++k)
        if ((held->second.bytes >> (first + k) & 1) != 0)
          out[done + k] = reinterpret_cast<const std::byte*>(&held->second.value)[first + k];
  });
}

void weak_memory::write(block& b, weak_view& view, uint64_t address, const void* from, unsigned bytes, bool releases) {
  if (releases) release_all(b);
  for_words(address, bytes, [&](uint64_t word, unsigned first, unsigned n, unsigned done) {
    held_word fresh;
    held_word& held = releases ? fresh : b.stores.words[word];
    std::memcpy(reinterpret_cast<std::byte*>(&held.value) + first, static_cast<const std::byte*>(from) + done, n);
    held.bytes |= static_cast<uint8_t>(((1u << n) - 1) << first);
    held.released = releases ? now_ + 1 : view.fence;
    if (releases) arrive(b, word, held);
  });
}

void weak_memory::before_atomic(block& b, uint64_t address, bool releases) {
  if (releases) return release_all(b);
  const auto held = b.stores.words.find(word_of(address));
  if (held == b.stores.words.end()) return;
  arrive(b, held->first, held->second);
  b.stores.words.erase(held);
}

void weak_memory::after_atomic(block& b, weak_view& view, uint64_t address, uint64_t word_before, bool acquires,
                               bool releases) {
  history& h = words_[word_of(address)];
  uint64_t& known = acquires ? view.acquired : view.pending;
  known = std::max(known, h.now.released);
  // A read-modify-write hands on what the one before it released.
  const uint64_t released = std::max(h.now.released, releases ? now_ + 1 : view.fence);
  replace(h, word_before, b, released);
}

void weak_memory::fence(block& b, weak_view& view, bool sequential) {
  release_all(b);
  view.fence = now_;
  view.acquired = sequential ? now_ : std::max(view.acquired, view.pending);
}

}  // namespace ptx
