// Codecs in device memory, by options that programs can set: chunk sizes, alignment, checksums, threads of a block's
// own kernel; and what short calls cost, alone, one behind the other, in a graph and in a batch.
#include "bench/gpu_check/experiments.hpp"
#include "bench/micro/device_timing.cuh"
#include "bench/micro/tensors.hpp"

#include <tuck/device.cuh>

#include <cstring>

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
  variant(uint64_t raw_bytes, const frame_options& options, bool only_count = false)
      : timed_coder(raw_bytes, max_frame_bytes(codec_to_try<C>(), raw_bytes / sizeof(T), options)),
        options_(options),
        only_count_(only_count),
        scratch_(scratch_bytes(codec_to_try<C>(), raw_bytes / sizeof(T), options)),
        outcome_(sizeof(outcome)) {
    require(initialize(scratch_.scratch(), stream()));
  }

 private:
  span<T> values(uint32_t i) const { return {reinterpret_cast<T*>(tensor(i).data()), tensor(i).size() / sizeof(T)}; }
  outcome* written() const { return reinterpret_cast<outcome*>(outcome_.all().data()); }

  void launch_encode(uint32_t i) override {
    if (only_count_)
      require(tuck::encoded_bytes(codec_, values(i), scratch_.scratch(), written(), stream(), options_));
    else
      require(tuck::encode(codec_, values(i), result(i), scratch_.scratch(), written(), stream(), options_));
  }
  uint64_t finish_encode() override {
    const uint64_t frame_bytes = finish();
    return only_count_ ? 0 : frame_bytes;
  }
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
  bool only_count_;
  tools::device_memory scratch_, outcome_;
};

template <codec C>
record record_of(const char* experiment, const char* operation, double sparsity, uint64_t raw_bytes) {
  record r(experiment);
  std::string stages;
  for (const stage& s : C{}.stages().at)
    if (s.id != codec_id::none) stages += (stages.empty() ? "" : "+") + std::string(name(s.id));
  r.add("operation", operation).add("codec", stages.c_str()).add("type", name(dtype_of<value_t<C>>));
  return r.add("sparsity", sparsity).add("raw_bytes", raw_bytes);
}

// -- chunk sizes ---------------------------------------------------------------------------------------------------

template <codec C>
void try_chunk(const experiment_settings& s, const tensor& t, double sparsity, uint32_t chunk_bytes) {
  variant<C> coder(s.raw_bytes, {.chunk_values = chunk_bytes / uint32_t{sizeof(value_t<C>)}});
  const auto hand_on = [&](const char* operation, const device_cost& cost) {
    record r = record_of<C>("chunks", operation, sparsity, s.raw_bytes);
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

// -- look-back -----------------------------------------------------------------------------------------------------

// The smaller the chunks, the more of the time is look-back's; where all is zero, little else is left.
void look_back(const experiment_settings& s) {
  using C = zvc<float>;
  for (const double sparsity : {.9, 1.}) {
    const tensor t = tensor_for<C>(sparsity, s.raw_bytes);
    for (const uint64_t chunk_bytes : {512, 1024, 2048, 4096, 8192, 16384}) {
      variant<C> coder(s.raw_bytes, {.chunk_values = static_cast<uint32_t>(chunk_bytes / sizeof(float))});
      const device_cost cost = coder.encode(t.all(), s.limits);
      const double chunks = static_cast<double>(s.raw_bytes / chunk_bytes);
      record r = record_of<C>("look_back", "encode", sparsity, s.raw_bytes);
      r.add("chunk_bytes", chunk_bytes).add("encoded_bytes", coder.encoded_bytes()).add_cost(cost, s.raw_bytes);
      s.found(r.add("chunks_per_us", chunks / statistics_of(cost.seconds).median * 1e-6));
    }
  }
}

// -- threads of a block, with neither look-back nor directory ------------------------------------------------------

using slot_codec = zvc<float>;

struct slots_job {
  const float* values;
  uint32_t chunks;
  std::byte* slots;
  uint32_t* sizes;
};

// Each chunk of 16 KiB into a slot of its own.
template <int Threads> __global__ void __launch_bounds__(Threads) slots_kernel(slots_job job) {
  using encoder = block_encode<slot_codec, Threads>;
  using storage = typename encoder::TempStorage;
  constexpr uint32_t capacity = encoder::tile::capacity;
  TUCK_SHARED(storage, temp);
  for (uint32_t chunk = blockIdx.x; chunk < job.chunks; chunk += gridDim.x) {
    const uint32_t size = encoder(temp)(slot_codec{}, job.values + uint64_t{chunk} * capacity, capacity,
                                        job.slots + uint64_t{chunk} * tile_bytes);
    if (threadIdx.x == 0) device::store(job.sizes + chunk, size);
    device::sync_block();
  }
}

template <int Threads> class slots_coder final : public timed_coder {
 public:
  explicit slots_coder(uint64_t raw_bytes)
      : timed_coder(raw_bytes, raw_bytes),
        chunks_(static_cast<uint32_t>(raw_bytes / tile_bytes)),
        sizes_(chunks_ * sizeof(uint32_t)) {
    int resident = 0;
    require(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, slots_kernel<Threads>, Threads, 0));
    blocks_ = static_cast<unsigned>(std::max(resident * device_attribute(cudaDevAttrMultiProcessorCount), 1));
  }

  uint64_t blocks() const { return std::min(blocks_, chunks_); }

  // Does the scalar codec read the slots of the last call? Chunks that were incompressible are the values.
  void check(const_bytes raw) const {
    std::vector<std::byte> slots(raw.size());
    put(result(last_), {slots.data(), slots.size()});
    const std::vector<uint32_t> sizes = sizes_of_chunks();
    std::vector<float> chunk(tile_bytes / sizeof(float));
    for (size_t i = 0; i < sizes.size(); ++i) {
      const std::byte* const slot = slots.data() + i * tile_bytes;
      status s = status::ok;
      if (sizes[i] == tile_bytes)
        std::memcpy(chunk.data(), slot, tile_bytes);
      else
        s = slot_codec{}.decode_chunk({slot, sizes[i]}, {chunk.data(), chunk.size()});
      if (s != status::ok || std::memcmp(chunk.data(), raw.data() + i * tile_bytes, tile_bytes) != 0)
        throw std::runtime_error("a block encoded what is no chunk of these values");
    }
  }

 private:
  void launch_encode(uint32_t i) override {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(blocks()));
    config.blockDim = dim3(Threads);
    config.stream = stream();
    const slots_job job{reinterpret_cast<const float*>(tensor(i).data()), chunks_, result(i).data(),
                        reinterpret_cast<uint32_t*>(sizes_.all().data())};
    require(cudaLaunchKernelEx(&config, slots_kernel<Threads>, job));
    last_ = i;
  }
  uint64_t finish_encode() override {
    uint64_t sum = 0;
    for (const uint32_t size : sizes_of_chunks()) sum += size;
    return sum;
  }

  std::vector<uint32_t> sizes_of_chunks() const {
    std::vector<uint32_t> sizes(chunks_);
    put(sizes_.all(), as_writable_bytes(span<uint32_t>(sizes.data(), sizes.size())));
    return sizes;
  }

  uint32_t chunks_;
  tools::device_memory sizes_;
  unsigned blocks_ = 1;
  uint32_t last_ = 0;
};

template <int Threads> void try_threads(const experiment_settings& s, const tensor& t, double sparsity) {
  slots_coder<Threads> coder(s.raw_bytes);
  const device_cost cost = coder.encode(t.all(), s.limits);
  coder.check(t.all());
  record r = record_of<slot_codec>("threads", "encode", sparsity, s.raw_bytes);
  r.add("threads", uint64_t{Threads}).add("blocks", coder.blocks()).add("encoded_bytes", coder.encoded_bytes());
  s.found(r.add_cost(cost, s.raw_bytes));
}

void threads(const experiment_settings& s) {
  for (const double sparsity : {.5, .9}) {
    const tensor t = tensor_for<slot_codec>(sparsity, s.raw_bytes);
    try_threads<128>(s, t, sparsity);
    try_threads<256>(s, t, sparsity);
    try_threads<512>(s, t, sparsity);
  }
}

// -- what a call is made of ----------------------------------------------------------------------------------------

void try_without(const experiment_settings& s, const tensor& t, double sparsity, const char* what,
                 const frame_options& options, bool only_count = false) {
  variant<zvc<float>> coder(s.raw_bytes, options, only_count);
  const device_cost cost = coder.encode(t.all(), s.limits);
  s.found(record_of<zvc<float>>("ablation", "encode", sparsity, s.raw_bytes)
              .add("what", what)
              .add("encoded_bytes", coder.encoded_bytes())
              .add_cost(cost, s.raw_bytes));
}

// A part more or less each. Without look-back and directory it is `threads` at 128.
void ablation(const experiment_settings& s) {
  for (const double sparsity : {.5, .9}) {
    const tensor t = tensor_for<zvc<float>>(sparsity, s.raw_bytes);
    try_without(s, t, sparsity, "default", {});
    try_without(s, t, sparsity, "checksums", {.checksums = true});
    try_without(s, t, sparsity, "alignment 16", {.alignment = 16});
    try_without(s, t, sparsity, "alignment 128", {.alignment = 128});
    try_without(s, t, sparsity, "counted, not written", {}, true);
  }
}

}  // namespace

std::span<const experiment> codec_experiments() {
  static const experiment all[] = {
      {"chunks", "each codec at six sparsities, by chunk size", chunks},
      {"look_back", "ZVC by chunk sizes so small that look-back decides", look_back},
      {"threads", "ZVC's block coder by 128, 256 and 512 threads, without look-back and directory", threads},
      {"ablation", "ZVC with checksums, with other alignments, and counting alone", ablation},
  };
  return all;
}

}  // namespace tuck::bench
