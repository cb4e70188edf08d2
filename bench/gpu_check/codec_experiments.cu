// Codecs in device memory, by the size of chunks.
#include "bench/gpu_check/experiments.hpp"
#include "bench/micro/device_timing.cuh"
#include "bench/micro/tensors.hpp"

#include <tuck/device.cuh>

namespace tuck::bench {
namespace {

constexpr double sparsities[] = {0, .5, .6, .9, .95, 1};
constexpr double quantize_bound = 4e-3;  // about a thousandth of the range of |N(0, 1)|

template <codec C> C codec_to_try() {
  if constexpr (is_lossy<C>)
    return C(error_bound::absolute(quantize_bound));
  else
    return {};
}

template <codec C> tensor tensor_for(double sparsity, uint64_t raw_bytes) {
  return tensor_maker("").make({dtype_of<value_t<C>>, pattern::clustered, sparsity, raw_bytes});
}

void require_same(dtype type, const_bytes raw, const_bytes restored, bool lossy) {
  const bool same = lossy ? max_error(type, raw, restored) <= quantize_bound
                          : std::equal(raw.begin(), raw.end(), restored.begin(), restored.end());
  if (!same) throw std::runtime_error("what was decoded is not what was encoded");
}

// A codec's frames by given options.
template <codec C> class variant final : public timed_coder {
  using T = value_t<C>;

 public:
  variant(uint64_t raw_bytes, const frame_options& options)
      : timed_coder(raw_bytes, max_frame_bytes(codec_to_try<C>(), raw_bytes / sizeof(T), options)),
        options_(options),
        scratch_(scratch_bytes(codec_to_try<C>(), raw_bytes / sizeof(T), options)),
        outcome_(sizeof(outcome)) {
    require(initialize(scratch_.scratch(), stream()));
  }

 private:
  span<T> values(uint32_t i) const { return {reinterpret_cast<T*>(tensor(i).data()), tensor(i).size() / sizeof(T)}; }
  outcome* written() const { return reinterpret_cast<outcome*>(outcome_.all().data()); }

  void launch_encode(uint32_t i) override {
    require(tuck::encode(codec_, values(i), result(i), scratch_.scratch(), written(), stream(), options_));
  }
  uint64_t finish_encode() override { return finish(); }
  void launch_decode(uint32_t i) override {
    require(tuck::decode(codec_, result(i), values(i), scratch_.scratch(), written(), stream()));
  }
  void finish_decode() override { finish(); }

  uint64_t finish() {
    outcome seen;
    put(outcome_.all(), as_writable_bytes(span<outcome>(&seen, 1)));
    require(tuck::result{.code = seen.code});
    return seen.bytes;
  }

  C codec_ = codec_to_try<C>();
  frame_options options_;
  tools::device_memory scratch_, outcome_;
};

template <codec C> record record_of(const char* operation, double sparsity, uint64_t raw_bytes) {
  record r("chunks");
  std::string stages;
  for (const stage& s : C{}.stages().at)
    if (s.id != codec_id::none) stages += (stages.empty() ? "" : "+") + std::string(name(s.id));
  r.add("operation", operation).add("codec", stages.c_str()).add("type", name(dtype_of<value_t<C>>));
  return r.add("sparsity", sparsity).add("raw_bytes", raw_bytes);
}

template <codec C>
void try_chunk(const experiment_settings& s, const tensor& t, double sparsity, uint32_t chunk_bytes) {
  variant<C> coder(s.raw_bytes, {.chunk_values = chunk_bytes / uint32_t{sizeof(value_t<C>)}});
  const auto hand_on = [&](const char* operation, const device_cost& cost) {
    record r = record_of<C>(operation, sparsity, s.raw_bytes);
    r.add("chunk_bytes", uint64_t{chunk_bytes}).add("default", chunk_bytes == C::chunk_bytes);
    s.found(r.add("encoded_bytes", coder.encoded_bytes()).add_cost(cost, s.raw_bytes));
  };
  hand_on("encode", coder.encode(t.all(), s.limits));
  std::vector<std::byte> restored(t.values.size());
  hand_on("decode", coder.decode({restored.data(), restored.size()}, s.limits));
  require_same(t.type, t.all(), {restored.data(), restored.size()}, is_lossy<C>);
}

template <codec C> void try_chunks(const experiment_settings& s) {
  for (const double sparsity : sparsities) {
    const tensor t = tensor_for<C>(sparsity, s.raw_bytes);
    for (uint32_t divisor : {4, 2, 1}) try_chunk<C>(s, t, sparsity, C::chunk_bytes / divisor);
  }
}

void chunks(const experiment_settings& s) {
  try_chunks<zvc<float>>(s);
  try_chunks<zvc<bf16>>(s);
  try_chunks<zvc<uint8_t>>(s);
  try_chunks<rle<float>>(s);
  try_chunks<quantize<float>>(s);
  try_chunks<deflate<float>>(s);
}

}  // namespace

std::span<const experiment> codec_experiments() {
  static const experiment all[] = {
      {"chunks", "each codec at six sparsities, by chunk size", chunks},
  };
  return all;
}

}  // namespace tuck::bench
