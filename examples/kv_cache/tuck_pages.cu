// libtuck_pages.so: the functions of tuck_pages.h, implemented with page_codec.cuh.
#include "page_codec.cuh"

namespace kv::detail {

// The sizes of the pools, from which items are made.
struct pools {
  uint64_t page_values, page_stride, page_count;
  uint64_t slot_bytes, slot_stride, slot_count;

  // A slot may extend over the next slots, but not over the end of the pool.
  __device__ uint64_t slot_room(uint64_t slot) const {
    const uint64_t left = (slot_count - slot) * slot_stride;
    return left < slot_bytes ? left : slot_bytes;
  }
};

// Make items from pairs. Items with a bad index have null values.
template <class T> struct gather_encode {
  uint64_t count;
  pools of;
  const tuck_page_pair* pairs;
  const std::byte* pages;
  std::byte* slots;
  tuck::encode_item<T>* items;

  __device__ void operator()(uint64_t i) const {
    const auto page = static_cast<uint64_t>(int64_t{pairs[i].src}), slot = static_cast<uint64_t>(int64_t{pairs[i].dst});
    tuck::encode_item<T> item{{nullptr, 1}, {}};
    if (page < of.page_count && slot < of.slot_count)
      item = {{reinterpret_cast<const T*>(pages + page * of.page_stride), of.page_values},
              {slots + slot * of.slot_stride, of.slot_room(slot)}};
    items[i] = item;
  }
};
template <class T> struct gather_decode {
  uint64_t count;
  pools of;
  const tuck_page_pair* pairs;
  const std::byte* slots;
  std::byte* pages;
  tuck::decode_item<T>* items;

  __device__ void operator()(uint64_t i) const {
    const auto page = static_cast<uint64_t>(int64_t{pairs[i].dst}), slot = static_cast<uint64_t>(int64_t{pairs[i].src});
    tuck::decode_item<T> item{{}, {nullptr, 1}};
    if (page < of.page_count && slot < of.slot_count)
      item = {{slots + slot * of.slot_stride, of.slot_room(slot)},
              {reinterpret_cast<T*>(pages + page * of.page_stride), of.page_values}};
    items[i] = item;
  }
};

}  // namespace kv::detail

namespace {

using kv::detail::gather_decode, kv::detail::gather_encode;

template <class T> using codec_of = kv::page_codec<tuck::codebooks<T>>;

tuck::error_bound bound_of(const tuck_pages_config& c) {
  switch (c.loss) {
    case TUCK_PAGES_ABSOLUTE: return tuck::error_bound::absolute(c.bound);
    case TUCK_PAGES_OF_RANGE: return tuck::error_bound::range_relative(c.bound);
    case TUCK_PAGES_POINTWISE: return tuck::error_bound::pointwise(c.bound);
    default: return {};
  }
}

uint64_t value_bytes(const tuck_pages_config& c) {
  return c.type == TUCK_PAGES_F8E4M3 || c.type == TUCK_PAGES_F8E5M2 ? 1 : 2;
}

bool is_sound(const tuck_pages_config& c) {
  constexpr uint64_t most = uint64_t{1} << 40;  // so that no product overflows
  const bool pages = c.page_values != 0 && c.page_values < most && c.page_stride % 4 == 0 && c.page_stride < most &&
                     c.page_stride >= value_bytes(c) * c.page_values && c.page_count <= INT32_MAX;
  const bool slots = c.slot_bytes % 16 == 0 && c.slot_bytes < most && c.slot_stride % 16 == 0 && c.slot_stride < most &&
                     c.slot_stride != 0 && c.slot_count <= INT32_MAX;
  const bool loss = c.loss == TUCK_PAGES_NO_LOSS ? c.bound == 0 : c.loss > 0 && c.loss <= TUCK_PAGES_POINTWISE;
  return pages && slots && loss && c.checksums <= 1;
}

// Returns visit(codec) for the codec of the type, or what is wrong with the configuration.
template <class Visit> tuck::status with_codec(const tuck_pages_config* c, const Visit& visit) noexcept {
  if (c == nullptr || !is_sound(*c)) return tuck::status::invalid_argument;
  const kv::page_codec_options options{c->page_values, c->most_pairs, c->chunk_values, bound_of(*c), c->checksums != 0};
  const auto checked = [&](const auto& codec) {
    const tuck::status s = c->loss != TUCK_PAGES_NO_LOSS && !(c->bound > 0) ? tuck::status::bad_bound : codec.check();
    return s == tuck::status::ok ? visit(codec) : s;
  };
  switch (c->type) {
    case TUCK_PAGES_BF16: return checked(codec_of<tuck::bf16>({}, options));
    case TUCK_PAGES_F16: return checked(codec_of<tuck::f16>({}, options));
    case TUCK_PAGES_F8E4M3: return checked(codec_of<tuck::f8e4m3>({}, options));
    case TUCK_PAGES_F8E5M2: return checked(codec_of<tuck::f8e5m2>({}, options));
    default: return tuck::status::type_mismatch;
  }
}
static_assert(TUCK_PAGES_BF16 == static_cast<int>(tuck::dtype::bf16) &&
              TUCK_PAGES_F16 == static_cast<int>(tuck::dtype::f16) &&
              TUCK_PAGES_F8E4M3 == static_cast<int>(tuck::dtype::f8e4m3) &&
              TUCK_PAGES_F8E5M2 == static_cast<int>(tuck::dtype::f8e5m2));
static_assert(TUCK_PAGES_NO_FIT == static_cast<int>(tuck::status::output_too_small) &&
              TUCK_PAGES_BAD_INDEX == static_cast<int>(tuck::status::bad_range) &&
              TUCK_PAGES_OTHER_TYPE == static_cast<int>(tuck::status::type_mismatch) &&
              TUCK_PAGES_NO_BOUNDS == static_cast<int>(tuck::status::unsupported_type));

template <template <class> class Gather, class From, class To>
int32_t run(const tuck_pages_config* config, const tuck_page_pair* pairs, uint32_t count, const From* from, To* to,
            tuck_page_result* results, void* workspace, uint64_t workspace_bytes, void* stream) noexcept {
  return static_cast<int32_t>(with_codec(config, [&]<class L>(const kv::page_codec<L>& codec) {
    using T = tuck::value_t<L>;
    const tuck::bytes space(static_cast<std::byte*>(workspace), workspace_bytes);
    if (count != 0 && (pairs == nullptr || results == nullptr || from == nullptr || to == nullptr))
      return tuck::status::invalid_argument;
    if (const tuck::status s = codec.check_call(count, space); s != tuck::status::ok) return s;
    using item = std::remove_pointer_t<decltype(Gather<T>::items)>;
    constexpr bool encodes = std::is_same_v<item, tuck::encode_item<T>>;
    if (!tuck::aligned(encodes ? static_cast<const void*>(from) : to, 4) ||
        !tuck::aligned(encodes ? static_cast<const void*>(to) : from, 16) ||
        !tuck::aligned(pairs, alignof(tuck_page_pair)) || !tuck::aligned(results, alignof(tuck_page_result)))
      return tuck::status::misaligned;
    const auto queue = static_cast<cudaStream_t>(stream);
    auto* const items = codec.template own_items<item>(space);
    const kv::detail::pools of{config->page_values, config->page_stride, config->page_count,
                               config->slot_bytes,  config->slot_stride, config->slot_count};
    const Gather<T> gather{count, of, pairs, static_cast<const std::byte*>(from), static_cast<std::byte*>(to), items};
    tuck::result r = kv::detail::for_each_page(gather, queue);
    if (!r) return r.code;
    if constexpr (encodes)
      r = codec.encode({items, count}, results, space, queue);
    else
      r = codec.decode({items, count}, results, space, queue);
    return r.code;
  }));
}

}  // namespace

extern "C" {

const char* tuck_pages_message(int32_t status) noexcept { return message(static_cast<tuck::status>(status)); }

uint64_t tuck_pages_worst_slot_bytes(const tuck_pages_config* config) noexcept {
  uint64_t bytes = 0;
  static_cast<void>(with_codec(config, [&](const auto& codec) {
    bytes = codec.worst_frame_bytes();
    return tuck::status::ok;
  }));
  return bytes;
}

int32_t tuck_pages_workspace_bytes(const tuck_pages_config* config, uint64_t* bytes) noexcept {
  return static_cast<int32_t>(with_codec(config, [&](const auto& codec) {
    if (bytes == nullptr) return tuck::status::invalid_argument;
    *bytes = codec.workspace_bytes();
    return tuck::status::ok;
  }));
}

int32_t tuck_pages_initialize(const tuck_pages_config* config, void* workspace, uint64_t workspace_bytes,
                              void* stream) noexcept {
  return static_cast<int32_t>(with_codec(config, [&](const auto& codec) {
    const tuck::bytes space(static_cast<std::byte*>(workspace), workspace_bytes);
    if (const tuck::status s = codec.check_call(0, space); s != tuck::status::ok) return s;
    return codec.initialize(space, static_cast<cudaStream_t>(stream)).code;
  }));
}

int32_t tuck_pages_encode(const tuck_pages_config* config, const tuck_page_pair* pairs, uint32_t count,
                          const void* pages, void* slots, tuck_page_result* results, void* workspace,
                          uint64_t workspace_bytes, void* stream) noexcept {
  return run<gather_encode>(config, pairs, count, pages, slots, results, workspace, workspace_bytes, stream);
}

int32_t tuck_pages_decode(const tuck_pages_config* config, const tuck_page_pair* pairs, uint32_t count,
                          const void* slots, void* pages, tuck_page_result* results, void* workspace,
                          uint64_t workspace_bytes, void* stream) noexcept {
  return run<gather_decode>(config, pairs, count, slots, pages, results, workspace, workspace_bytes, stream);
}

}  // extern "C"
