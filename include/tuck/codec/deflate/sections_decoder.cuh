// Rows of sections from deflate-lite by one thread block: a lane for each sub-block of all of them.
#pragma once

#include <tuck/codec/deflate/lanes.cuh>
#include <tuck/codec/deflate/sections_encoder.cuh>
#include <tuck/codec/deflate/shared_tables.cuh>

namespace tuck::inline TUCK_ABI::deflate_format {

// Where the bytes of a section go: the words that lane_output hands over, as far as the section has them.
struct section_sink {
  std::byte* to;
  uint32_t size;

  __device__ void operator()(uint32_t first, uint32_t x) {
    for (uint32_t k = first; k < first + 4 && k < size; ++k, x >>= 8) to[k] = static_cast<std::byte>(x);
  }
  __device__ void operator()(uint32_t first, const device::vec128& x) {
    if (reinterpret_cast<uintptr_t>(to + first) % 4 == 0 && first + 16 <= size) {
#pragma unroll
      for (uint32_t k = 0; k < 4; ++k) reinterpret_cast<uint32_t*>(to + first)[k] = x.w[k];
    } else {
#pragma unroll
      for (uint32_t k = 0; k < 4; ++k) (*this)(first + 4 * k, x.w[k]);
    }
  }
};

// Restores sections from untrusted bytes, as decode_sections does and in its order.
template <int Threads, uint32_t Sections> class sections_decoder {
  using index = shared_index<Threads>;

 public:
  struct TempStorage {
    shared_tables tables[Sections];
    shared_header header;
    typename index::scan::TempStorage scan_storage;
    uint32_t first_bit[Sections];        // of the symbols, or of stored bytes
    uint32_t first_group[Sections + 1];  // of those in dynamic blocks
    uint32_t bits_before[Sections + 1];  // of the symbols of the blocks before
    uint32_t found;                      // sections at whose begin an entry begins
    uint32_t begin_bit;                  // of the next block
    uint32_t failure;                    // entry << 16 | status of the first that failed
    status verdict;
  };

  __device__ explicit sections_decoder(TempStorage& temp) : temp_(temp) {}

  __device__ status decode(const_bytes encoded, const row_sections& sections, std::byte* row) {
    if (encoded.size() < sections_index_bytes(0)) return status::deflate_ends_early;
    const uint32_t stored = last_byte(encoded, 2), entries = last_byte(encoded, 1);
    sections_parts parts;
    if (!split_sections(encoded, entries, parts) || !stored_sections_fit(stored, sections.list))
      return status::deflate_index;
    if (!find_entries(parts.index, entries, sections.list, stored)) return status::deflate_index;
    if (const status s = read_headers(parts.stream, sections.list, stored); s != status::ok) return s;
    for (uint32_t i = 0; i < sections.list.count; ++i) {
      if ((stored >> i & 1) != 0)
        copy_stored(parts.stream.data() + temp_.first_bit[i] / 8, sections.list.size(i), row + sections.at[i]);
      else if (sections.list.size(i) != 0)
        table_builder<Threads>::build(temp_.tables[i]);
    }
    device::sync_block();
    restore(parts, entries, sections, row);
    device::sync_block();
    return temp_.failure == no_failure ? status::ok : static_cast<status>(temp_.failure & 0xffff);
  }

 private:
  static constexpr uint32_t no_failure = ~0u;

  __device__ static uint32_t last_byte(const_bytes encoded, uint32_t i) {
    return device::load_uniform(reinterpret_cast<const uint8_t*>(encoded.data() + (encoded.size() - i)));
  }
  __device__ static uint32_t groups_of(const section_list& sections, uint32_t stored, uint32_t i) {
    return (stored >> i & 1) != 0 ? 0 : ceil_div(sections.size(i), group_bytes);
  }

  // Do the entries fit the sections? With bits_before of each.
  __device__ bool find_entries(const_bytes entries_of_index, uint32_t entries, const section_list& sections,
                               uint32_t stored) {
    if (threadIdx.x == 0) {
      uint32_t group = 0;
      for (uint32_t i = 0; i < sections.count; ++i) {
        temp_.first_group[i] = group;
        group += groups_of(sections, stored, i);
      }
      temp_.first_group[sections.count] = group;
      temp_.found = 0;
      temp_.failure = no_failure;
      temp_.begin_bit = 0;
    }
    device::sync_block();
    index_sums all;
    index_sums before = index::sums_before(temp_.scan_storage, entries_of_index, entries, all);
    for (uint32_t e = threadIdx.x * index::own; e < (threadIdx.x + 1) * index::own && e < entries; ++e) {
      for (uint32_t i = 0; i < sections.count; ++i)
        if (before.groups == temp_.first_group[i]) {
          temp_.bits_before[i] = before.bits;
          device::atomic_or(&temp_.found, 1u << i);
        }
      before.add(index::entry(entries_of_index, e));
    }
    const uint32_t groups = temp_.first_group[sections.count];
    if (threadIdx.x == 0) temp_.bits_before[sections.count] = all.bits;
    device::sync_block();
    bool fits = all.groups == groups;
    for (uint32_t i = 0; i < sections.count; ++i)
      fits &= groups_of(sections, stored, i) == 0 || (temp_.found >> i & 1) != 0;
    // Sections without entries begin with the next that has some.
    if (threadIdx.x == 0)
      for (uint32_t i = sections.count; i-- > 0;)
        if (temp_.first_group[i] == groups) temp_.bits_before[i] = all.bits;
    device::sync_block();
    return fits;
  }

  // One block after the other: each begins where the symbols of the one before it end.
  __device__ status read_headers(const_bytes stream, const section_list& sections, uint32_t stored) {
    for (uint32_t i = 0; i < sections.count; ++i) {
      const uint32_t size = sections.size(i);
      if (size == 0) continue;
      const uint32_t loaded = temp_.header.template load<Threads>(stream, temp_.begin_bit / 8);
      if (threadIdx.x == 0) temp_.verdict = read_header(stream, sections, stored, i, loaded);
      device::sync_block();
      if (temp_.verdict != status::ok) return temp_.verdict;
    }
    return ceil_div(temp_.begin_bit, 8u) == stream.size() ? status::ok : status::deflate_trailing;
  }
  // By one thread.
  __device__ status read_header(const_bytes stream, const section_list& sections, uint32_t stored, uint32_t i,
                                uint32_t loaded) {
    const uint32_t begin = temp_.begin_bit, size = sections.size(i);
    const bool is_stored = (stored >> i & 1) != 0;
    bit_input in({temp_.header.bytes, loaded});
    in.take(begin % 8);
    code_lengths& lengths = temp_.tables[i].lengths;
    if (const status s = read_section_header(in, is_stored, sections.is_last(i), size, lengths, temp_.header.precode);
        s != status::ok)
      return s;
    const uint32_t first = begin / 8 * 8 + static_cast<uint32_t>(in.position());
    const uint32_t bits = temp_.bits_before[i + 1] - temp_.bits_before[i];
    temp_.first_bit[i] = first;
    temp_.begin_bit = first + (is_stored ? 8 * size : bits + lengths.of[end_of_block]);
    return temp_.begin_bit > 8 * stream.size() ? status::deflate_index : status::ok;
  }

  __device__ static void copy_stored(const std::byte* from, uint32_t size, std::byte* to) {
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < size; i += Threads) to[i] = device::load(from + i);
  }

  __device__ void restore(const sections_parts& parts, uint32_t entries, const row_sections& sections, std::byte* row) {
    index_sums all;
    index_sums before = index::sums_before(temp_.scan_storage, parts.index, entries, all);
    for (uint32_t e = threadIdx.x * index::own; e < (threadIdx.x + 1) * index::own && e < entries; ++e) {
      uint32_t i = 0;
      while (temp_.first_group[i + 1] <= before.groups) ++i;
      const index_entry entry = index::entry(parts.index, e);
      const uint32_t size = sections.list.size(i), first_byte = (before.groups - temp_.first_group[i]) * group_bytes;
      const uint32_t end_byte = first_byte + entry.groups * group_bytes;
      const uint32_t first_bit = temp_.first_bit[i] + before.bits - temp_.bits_before[i];
      const sub_block part{first_bit, first_bit + entry.bits, first_byte, end_byte < size ? end_byte : size,
                           true,      end_byte >= size};
      section_sink sink{row + sections.at[i], size};
      restore_sub_block(parts.stream, part, e, temp_.tables[i].tables, sink);
      before.add(entry);
    }
  }
  __device__ void restore_sub_block(const_bytes stream, const sub_block& part, uint32_t e, const decode_tables& tables,
                                    section_sink& sink) {
    lane_input in(stream, part.first_bit);
    lane_output<uint8_t, section_sink> out(part.first_byte, sink);
    status s = decode_sub_block(tables, part, in, out);
    if (s == status::ok && part.is_last) {
      out.finish();
      s = read_end_of_block(tables, in);
    }
    if (s != status::ok) device::atomic_min(&temp_.failure, e << 16 | static_cast<uint32_t>(s));
  }

  TempStorage& temp_;
};

}  // namespace tuck::inline TUCK_ABI::deflate_format
