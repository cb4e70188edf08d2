// A chain on one thread.
#pragma once

#include <tuck/codec/chain/flow.hpp>

#include <cstring>
#include <memory>
#include <new>

namespace tuck::inline TUCK_ABI::detail {

// A chunk of up to 64 KiB of values on one thread: a row of the values that reach a stage, with the sides behind them.
template <class Chain> class host_chain {
  static constexpr int last = Chain::size - 1;
  template <int I> using stage = typename Chain::template stage_type<I>;
  template <int I> using value = typename stage<I>::value_type;

  static constexpr uint32_t max_raw = max_chunk_raw_bytes;
  static constexpr uint32_t growth = growth_of<Chain>();
  static_assert(growth <= 4096, "tuck: the splitters of a chain have a max_growth of up to 4 KiB together");

 public:
  explicit host_chain(const Chain& codec) noexcept : codec_(codec) {}

  static constexpr uint32_t max_bytes(const Chain& codec, uint32_t count) noexcept {
    const uint32_t raw = count * uint32_t{sizeof(value<0>)};
    uint32_t room = raw;
    if constexpr (sections_codec<stage<last>>) {
      room = stage<last>::max_sections_bytes(raw + growth) + Chain::record_bytes;
    } else {
      room += growth + Chain::record_bytes;  // what the last stage wants beyond that, it leaves to the sides
      const uint32_t wanted = codec.template stage<last>().max_chunk_bytes(raw / uint32_t{sizeof(value<last>)});
      if (wanted > room) room = wanted;
    }
    return room;
  }

  uint32_t encode(span<const value<0>> values, bytes room) noexcept {
    if (values.empty() || values.size_bytes() > max_raw) return declined;
    std::memcpy(row_, values.data(), values.size_bytes());
    flow_.values[0] = static_cast<uint32_t>(values.size());
    prepare<0>();
    const uint32_t used = finish(room.data());
    uint32_t records[max_stages] = {};
    flow_.list_records(records);
    std::memcpy(room.data() + used, records, Chain::record_bytes);
    return used + Chain::record_bytes;
  }

  status decode(const_bytes encoded, span<value<0>> restored) noexcept {
    if (restored.size_bytes() > max_raw) return status::bad_payload;
    if constexpr (Chain::record_bytes != 0)  // else nvcc finds the comparison pointless
      if (encoded.size() < Chain::record_bytes) return status::bad_payload;
    const const_bytes body = encoded.subspan(0, encoded.size() - Chain::record_bytes);
    flow_.values[0] = static_cast<uint32_t>(restored.size());
    if (!flow_.read(body.data() + body.size())) return status::bad_payload;
    if (const status s = restore_row(body); s != status::ok) return s;
    if (const status s = undo<last - 1>(); s != status::ok) return s;
    std::memcpy(restored.data(), row_, restored.size_bytes());
    return status::ok;
  }

 private:
  template <int I> span<const value<I>> values() const noexcept {
    return {reinterpret_cast<const value<I>*>(row_), flow_.values[I]};
  }
  template <int I> const stage<I>& at() const noexcept { return codec_.template stage<I>(); }

  // Stages I and on, but the last.
  template <int I> void prepare() noexcept {
    if constexpr (I < last) {
      if constexpr (splitter<stage<I>>) {
        split<I>();
        flow_.template step<I>();
      } else {
        flow_.template step<I>();
        at<I>().apply(values<I>(), {reinterpret_cast<value<I + 1>*>(other_), flow_.values[I + 1]});
        std::memcpy(row_, other_, flow_.template bytes<I>());
      }
      prepare<I + 1>();
    }
  }

  template <int I> void split() noexcept {
    const uint32_t count = flow_.values[I], raw = flow_.template bytes<I>();
    flow_.records[I] = split_record::none();
    if (count == 0) return;
    // The library's own need no more than there is.
    const uint32_t wanted = at<I>().max_chunk_bytes(count);
    const std::unique_ptr<std::byte[]> more(wanted > sizeof other_ ? new (std::nothrow) std::byte[wanted] : nullptr);
    if (wanted > sizeof other_ && more == nullptr) return;
    std::byte* const encoded = more != nullptr ? more.get() : other_;
    const uint32_t used = at<I>().encode_chunk(values<I>(), {encoded, wanted});
    if (used == declined) return;
    const uint32_t side = stage<I>::side_bytes({encoded, used}, count), kept = used - side;
    if (!split_record::allows(raw, stage<I>::max_growth, kept, side)) return;
    std::memmove(row_ + used, row_ + raw, flow_.template sides_before<I>());
    std::memcpy(row_, encoded + side, kept);
    std::memcpy(row_ + kept, encoded, side);
    flow_.records[I] = split_record::make(kept / uint32_t{sizeof(value<I>)}, side);
  }

  // The last stage, and the sides where it leaves them; the bytes of both.
  uint32_t finish(std::byte* to) noexcept {
    const uint32_t bytes_left = flow_.template bytes<last>(), sides = flow_.template sides_before<last>();
    if constexpr (sections_codec<stage<last>>) {
      section_list sections{};
      flow_.list_sections(sections);
      return stage<last>::encode_sections({row_, bytes_left + sides}, sections, to);
    } else {
      uint32_t used = 0;
      if (bytes_left != 0)
        used = at<last>().encode_chunk(values<last>(), {to, at<last>().max_chunk_bytes(flow_.values[last])});
      if (used == declined || used >= bytes_left) std::memcpy(to, row_, used = bytes_left);
      std::memcpy(to + used, row_ + bytes_left, sides);
      return used + sides;
    }
  }

  status restore_row(const_bytes body) noexcept {
    const uint32_t bytes_left = flow_.template bytes<last>(), sides = flow_.template sides_before<last>();
    if constexpr (sections_codec<stage<last>>) {
      section_list sections{};
      flow_.list_sections(sections);
      return stage<last>::decode_sections(body, sections, {row_, bytes_left + sides});
    } else {
      if (body.size() < sides || body.size() - sides > bytes_left) return status::bad_payload;
      const auto used = static_cast<uint32_t>(body.size()) - sides;
      std::memcpy(row_ + bytes_left, body.data() + used, sides);
      if (used == bytes_left) {
        std::memcpy(row_, body.data(), used);
        return status::ok;
      }
      return used == 0 ? status::bad_payload
                       : at<last>().decode_chunk(body.subspan(0, used),
                                                 {reinterpret_cast<value<last>*>(row_), flow_.values[last]});
    }
  }

  // From the values that reach stage I + 1 back to those that reached the first.
  template <int I> status undo() noexcept {
    if constexpr (splitter<stage<I>>) {
      if (const status s = join<I>(); s != status::ok) return s;
    } else {
      const span<const value<I + 1>> results = values<I + 1>();
      at<I>().invert(results, {reinterpret_cast<value<I>*>(other_), flow_.values[I]});
      std::memcpy(row_, other_, results.size_bytes());
    }
    if constexpr (I > 0) return undo<I - 1>();
    return status::ok;
  }

  template <int I> status join() noexcept {
    if (flow_.records[I].done_without()) return status::ok;
    const uint32_t side = flow_.records[I].side(), kept = flow_.template bytes<I + 1>();
    std::memcpy(other_, row_ + kept, side);
    std::memcpy(other_ + side, row_, kept);
    std::memmove(row_ + flow_.template bytes<I>(), row_ + kept + side, flow_.template sides_before<I>());
    const const_bytes encoded(other_, side + kept);
    const uint32_t count = flow_.values[I];
    if (const status s = at<I>().decode_chunk(encoded, {reinterpret_cast<value<I>*>(row_), count}); s != status::ok)
      return s;
    return stage<I>::side_bytes(encoded, count) == side ? status::ok : status::bad_payload;
  }

  const Chain& codec_;
  chain_flow<Chain> flow_;
  alignas(16) std::byte row_[max_raw + growth];
  alignas(16) std::byte other_[max_raw + max_raw / 4];
};

}  // namespace tuck::inline TUCK_ABI::detail
