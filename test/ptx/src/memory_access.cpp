// Loads, stores, atomic operations and fences.
#include "access.hpp"
#include "floating.hpp"

#include <algorithm>

namespace ptx {
namespace {

enum class atomic : uint8_t { add, min, max, and_, or_, xor_, exch, cas, inc, dec, flushed_add };

// A value of a narrow load, in its register.
template <class T> void put_wide(std::byte* column, int lane, T v, unsigned bits) {
  using extended = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  const auto e = static_cast<uint64_t>(extended{v});
  if (bits == 64)
    put<uint64_t>(column, lane, e);
  else
    put<uint32_t>(column, lane, static_cast<uint32_t>(bits == 16 ? e & 0xffff : e));
}

template <class T> void run_load(warp& w, const instruction& i, uint32_t lanes) {
  const unsigned bytes = static_cast<unsigned>(sizeof(T)) * i.vector;
  launch_run& run = *w.run;
  if (run.how.traffic) count_traffic(w, i, lanes, bytes, true, false);
  w.clock.tick();
  bool global = false;
  for_lanes(lanes, [&](int l) {
    const target_place p = find_place(w, i, l, address_in(w, i, l), bytes,
                                      i.relaxed || i.acquires ? access::relaxed_read : access::read, nullptr);
    alignas(16) std::array<T, 16 / sizeof(T)> v;
    global |= p.where == space::global;
    if (p.where == space::global && run.how.weak && !i.read_only && i.where != space::constant)
      run.weak.read(*w.home, w.view, p.address, v.data(), bytes, i.acquires);
    else if (bytes == sizeof(T) && (i.relaxed || i.acquires))
      __atomic_load(reinterpret_cast<T*>(p.data), v.data(), __ATOMIC_ACQUIRE);
    else
      std::memcpy(v.data(), p.data, bytes);
    for (unsigned k = 0; k < i.vector; ++k)
      if (i.to[k] != no_operand) put_wide(w.out(i.to[k]), l, v[k], i.wide);
  });
  if (global && (i.relaxed || i.acquires)) {
    run.counts[w.pc].polls += static_cast<uint64_t>(std::popcount(lanes));
    w.yields = true;
  }
}

template <class T> void run_store(warp& w, const instruction& i, uint32_t lanes) {
  const unsigned bytes = static_cast<unsigned>(sizeof(T)) * i.vector;
  launch_run& run = *w.run;
  if (run.how.traffic) count_traffic(w, i, lanes, bytes, false, true);
  w.clock.tick();
  ++run.changes;
  for_lanes(lanes, [&](int l) {
    alignas(16) std::array<T, 16 / sizeof(T)> v;
    for (unsigned k = 0; k < i.vector; ++k) {
      const std::byte* column = w.in(i.from_columns[1 + k]);
      v[k] = i.wide == 64 ? static_cast<T>(get<uint64_t>(column, l)) : static_cast<T>(get<uint32_t>(column, l));
    }
    const auto* value = reinterpret_cast<const std::byte*>(v.data());
    const access kind = i.relaxed || i.releases ? access::atomic : access::write;
    const target_place p = find_place(w, i, l, address_in(w, i, l), bytes, kind, value);
    if (p.where == space::global && run.how.weak)
      run.weak.write(*w.home, w.view, p.address, value, bytes, i.releases);
    else if (bytes == sizeof(T) && (i.relaxed || i.releases))
      __atomic_store(reinterpret_cast<T*>(p.data), v.data(), __ATOMIC_RELEASE);
    else
      std::memcpy(p.data, value, bytes);
  });
}

template <class T> T combined(atomic op, T old, T v, T other) {
  switch (op) {
    case atomic::add:
      if constexpr (std::is_floating_point_v<T>)
        return old + v;
      else
        return static_cast<T>(static_cast<std::make_unsigned_t<T>>(old) + static_cast<std::make_unsigned_t<T>>(v));
    case atomic::min: return std::min(old, v);
    case atomic::max: return std::max(old, v);
    case atomic::exch: return v;
    case atomic::cas: return old == v ? other : old;
    case atomic::inc: return old >= v ? T(0) : T(old + 1);
    case atomic::dec: return old == T(0) || old > v ? v : T(old - 1);
    case atomic::flushed_add:
      if constexpr (std::is_same_v<T, float>) return flushed(flushed(old) + flushed(v));
      break;
    default: break;
  }
  if constexpr (!std::is_floating_point_v<T>) {
    if (op == atomic::and_) return old & v;
    if (op == atomic::or_) return old | v;
    if (op == atomic::xor_) return old ^ v;
  }
  return old;
}

// `changed`: is the value another one now? If not, nobody who waits for it gets on.
template <class T> T exchange(std::byte* at, atomic op, T v, T other, bool& changed) {
  using bits = slot<T>;
  auto* word = reinterpret_cast<bits*>(at);
  bits old = __atomic_load_n(word, __ATOMIC_ACQUIRE), now;
  do {
    now = std::bit_cast<bits>(combined(op, std::bit_cast<T>(old), v, other));
  } while (!__atomic_compare_exchange_n(word, &old, now, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
  changed |= now != old;
  return std::bit_cast<T>(old);
}

template <class T> void run_atomic(warp& w, const instruction& i, uint32_t lanes) {
  launch_run& run = *w.run;
  const auto op = static_cast<atomic>(i.mode);
  if (run.how.traffic) count_traffic(w, i, lanes, sizeof(T), true, true);
  w.clock.tick();
  bool changed = false;
  for_lanes(lanes, [&](int l) {
    const uint64_t address = address_in(w, i, l);
    const T v = get<T>(w.in(i.from_columns[1]), l);
    const T other = op == atomic::cas ? get<T>(w.in(i.from_columns[2]), l) : v;
    const target_place p = find_place(w, i, l, address, sizeof(T), access::atomic, nullptr);
    const bool weak = p.where == space::global && run.how.weak;
    ++(p.where == space::shared ? run.counts[w.pc].shared_atomics : run.counts[w.pc].atomics);
    uint64_t word = 0;
    if (weak) {
      run.weak.before_atomic(*w.home, p.address, i.releases);
      std::memcpy(&word, reinterpret_cast<const std::byte*>(p.address & ~uint64_t{7}), 8);
    }
    // In global memory subnormal floats are zero.
    const bool flushes = std::is_same_v<T, float> && p.where == space::global;
    const T old = exchange(p.data, flushes ? atomic::flushed_add : op, v, other, changed);
    if (weak) run.weak.after_atomic(*w.home, w.view, p.address, word, i.acquires, i.releases);
    if (i.to[0] != no_operand) put<T>(w.out(i.to[0]), l, old);
  });
  if (changed) ++run.changes;
  w.yields = w.yields || op == atomic::cas;
}

void run_fence(warp& w, const instruction& i, uint32_t) {
  if (w.run->how.weak) w.run->weak.fence(*w.home, w.view, i.flag);
}
void run_nothing(warp&, const instruction&, uint32_t) {}
void run_pause(warp& w, const instruction&, uint32_t) { w.yields = true; }

// --- decoding -------------------------------------------------------------------------------------------------------

void take_order(decoder& d) {
  const bool weak = d.take("weak");
  const bool is_volatile = d.take("volatile");
  d.i.acquires = d.take("acquire");
  d.i.releases = d.take("release");
  if (d.take("acq_rel")) d.i.acquires = d.i.releases = true;
  d.i.relaxed = d.take("relaxed") || is_volatile;
  const int scope = d.take_one({"cta", "gpu", "sys"});
  const bool atomic = d.mnemonic() == "atom" || d.mnemonic() == "red";
  const bool ordered = d.i.acquires || d.i.releases || (d.i.relaxed && !is_volatile);
  if (!atomic && ordered && scope < 0) d.fail("a scope is missing");
  if (is_volatile && (ordered || scope >= 0 || atomic)) d.fail("volatile, and more than that");
  if (weak && (scope >= 0 || d.i.relaxed || d.i.acquires || d.i.releases)) d.fail("weak, and more than that");
  if (scope == 0) {  // other blocks need not notice
    d.i.relaxed = true;
    d.i.acquires = d.i.releases = false;
  }
}

// What is only a hint.
void take_hints(decoder& d) {
  d.take_one({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  d.take_one({"L1::no_allocate", "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last"});
  d.take_one({"L2::64B", "L2::128B", "L2::256B"});
}

void take_vector(decoder& d, type& t) {
  const int v = d.take_one({"v2", "v4"});
  d.i.vector = v < 0 ? 1 : v == 0 ? 2 : 4;
  t = d.take_type();
  if (bits_of(t) < 8 || bits_of(t) > 64) d.fail("not of a type that is supported");
  if (bits_of(t) * d.i.vector > 128) d.fail("more than 16 bytes");
  d.i.t = t;
}

handler load_of(type t) {
  switch (bits_of(t)) {
    case 8: return t == type::s8 ? &run_load<int8_t> : &run_load<uint8_t>;
    case 16: return t == type::s16 ? &run_load<int16_t> : &run_load<uint16_t>;
    case 32: return t == type::s32 ? &run_load<int32_t> : &run_load<uint32_t>;
    default: return &run_load<uint64_t>;
  }
}
void decode_ld(decoder& d) {
  take_order(d);
  if (d.i.releases) d.fail("a load does not release");
  d.i.read_only = d.take("nc");
  d.i.where = d.take_space();
  if ((d.i.relaxed || d.i.acquires) && (d.i.read_only || d.i.where == space::constant || d.i.where == space::param))
    d.fail("what nobody writes is loaded in no order");
  take_hints(d);
  type t;
  take_vector(d, t);
  const auto to = d.vector_operand();
  if (to.size() != d.i.vector) d.fail("the vector has another length");
  for (std::size_t k = 0; k < to.size(); ++k) {
    uint8_t bits = 0;
    d.i.to[k] = d.wide_destination(to[k], t, bits);
    if (bits != 0 && d.i.wide != 0 && bits != d.i.wide) d.fail("registers of one width are wanted");
    d.i.wide = std::max(d.i.wide, bits);
  }
  if (d.i.wide == 0) d.fail("a destination is missing");
  d.address();
  d.i.moves = traffic::load;
  d.i.run = load_of(t);
}
void decode_st(decoder& d) {
  take_order(d);
  d.i.where = d.take_space();
  if (d.i.acquires || d.i.where == space::constant) d.fail("not a store");
  take_hints(d);
  type t;
  take_vector(d, t);
  d.address();
  const auto from = d.vector_operand();
  if (from.size() != d.i.vector) d.fail("the vector has another length");
  for (std::size_t k = 0; k < from.size(); ++k) {
    uint8_t bits = 0;
    d.i.from_columns[1 + k] = d.wide_source(from[k], t, bits);
    const uint8_t slot_bits = bits == 64 ? 64 : 32;
    if (d.i.wide != 0 && slot_bits != d.i.wide) d.fail("registers of one width are wanted");
    d.i.wide = slot_bits;
  }
  d.i.moves = traffic::store;
  constexpr handler stores[] = {&run_store<uint8_t>, &run_store<uint16_t>, &run_store<uint32_t>, &run_store<uint64_t>};
  d.i.run = stores[std::countr_zero(bits_of(t)) - 3];
}

handler atomic_of(type t) {
  switch (t) {
    case type::b32:
    case type::u32: return &run_atomic<uint32_t>;
    case type::s32: return &run_atomic<int32_t>;
    case type::b64:
    case type::u64: return &run_atomic<uint64_t>;
    case type::s64: return &run_atomic<int64_t>;
    case type::f32: return &run_atomic<float>;
    case type::f64: return &run_atomic<double>;
    default: return nullptr;
  }
}
void decode_atomic(decoder& d, bool returns) {
  take_order(d);
  d.i.where = d.take_space();
  take_hints(d);
  const int op = d.need_one({"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"});
  d.i.mode = static_cast<uint8_t>(op);
  const type t = d.take_type();
  d.i.moves = traffic::atomic;
  d.i.run = atomic_of(t);
  const auto what = static_cast<atomic>(op);
  const bool bits = t == type::b32 || t == type::b64;
  const bool wants_bits = what >= atomic::and_ && what <= atomic::cas;
  if (d.i.where != space::generic && d.i.where != space::global && d.i.where != space::shared)
    d.fail("no atomics in this memory");
  if (!returns && (what == atomic::exch || what == atomic::cas)) d.fail("not a reduction");
  if (d.i.run == nullptr || wants_bits != bits || (is_float(t) && what != atomic::add) ||
      ((what == atomic::inc || what == atomic::dec) && t != type::u32))
    d.fail("not of a type that is supported");
  if (returns) d.i.to[0] = d.destination_or_sink(d.next_operand(), t);
  d.address();
  d.i.from_columns[1] = d.source(t);
  if (what == atomic::cas) d.i.from_columns[2] = d.source(t);
}

void decode_membar(decoder& d) {
  const int scope = d.need_one({"cta", "gl", "sys"});
  d.i.flag = true;  // sequentially consistent
  d.i.run = scope == 0 ? &run_nothing : &run_fence;
}
void decode_fence(decoder& d) {
  if (d.has("proxy")) return decode_proxy_fence(d);
  d.i.flag = d.need_one({"acq_rel", "sc"}) == 1;
  const int scope = d.need_one({"cta", "gpu", "sys"});
  d.i.run = scope == 0 ? &run_nothing : &run_fence;
}
void decode_nanosleep(decoder& d) {
  d.need_type({type::u32});
  d.i.from_columns[0] = d.source(type::u32);
  d.i.run = &run_pause;
}
constexpr mnemonic table[] = {
    {"ld", &decode_ld},
    {"st", &decode_st},
    {"atom", [](decoder& d) { decode_atomic(d, true); }},
    {"red", [](decoder& d) { decode_atomic(d, false); }},
    {"membar", &decode_membar},
    {"fence", &decode_fence},
    {"nanosleep", &decode_nanosleep},
};

}  // namespace

std::span<const mnemonic> memory_mnemonics() { return table; }

}  // namespace ptx
