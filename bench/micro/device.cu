#include "bench/micro/device.hpp"

#include "bench/micro/device_timing.cuh"
#include "tuck/device_codecs.cuh"

#if !defined(TUCK_CUDASIM)
#include <dlfcn.h>
#endif

namespace tuck::bench {
namespace {

class tuck_coder final : public timed_coder {
 public:
  tuck_coder(std::unique_ptr<tools::chosen_device_codec> codec, const coder_request& request,
             const frame_options& options, const coder_way& way)
      : timed_coder(request.raw_bytes, codec->max_frame_bytes(values_of(request), options)),
        codec_(std::move(codec)),
        options_(options),
        how_{.max_blocks = way.blocks * static_cast<unsigned>(device_attribute(cudaDevAttrMultiProcessorCount)),
             .chunk_values = options.chunk_values},
        scratch_(codec_->scratch_bytes(values_of(request), options)),
        outcome_(sizeof(outcome)) {
    require(initialize(scratch_.scratch(), stream()));
    forget_outcome();
  }

  static uint64_t values_of(const coder_request& request) { return request.raw_bytes / size_of(request.type); }

 private:
  void launch_encode(uint32_t i) override {
    require(codec_->encode(tensor(i), result(i), scratch_.scratch(), written(), stream(), options_, how_));
  }
  uint64_t finish_encode() override { return frame_bytes_ = finish(); }

  void launch_decode(uint32_t i) override {
    require(
        codec_->decode(result(i).subspan(0, frame_bytes_), tensor(i), scratch_.scratch(), written(), stream(), how_));
  }
  void finish_decode() override { finish(); }

  outcome* written() const { return reinterpret_cast<outcome*>(outcome_.all().data()); }

  uint64_t finish() const {
    outcome seen;
    put(outcome_.all(), as_writable_bytes(span<outcome>(&seen, 1)));
    forget_outcome();
    require(tuck::result{.code = seen.code});
    return seen.bytes;
  }

  // One that is never written then says so.
  void forget_outcome() const { require(cudaMemsetAsync(written(), 0xff, sizeof(outcome), stream())); }

  std::unique_ptr<tools::chosen_device_codec> codec_;
  frame_options options_;
  launch_options how_;
  tools::device_memory scratch_, outcome_;
  uint64_t frame_bytes_ = 0;
};

}  // namespace

std::unique_ptr<device_coder> make_device_coder(const std::string& codec, const coder_request& request,
                                                const coder_way& way) {
  auto chosen = tools::choose_device_codec({codec, error_bound::absolute(request.tolerance)}, request.type);
  if (chosen == nullptr) return nullptr;
  const frame_options options{.chunk_values = static_cast<uint32_t>(way.chunk_bytes / size_of(request.type))};
  if (chosen->max_frame_bytes(tuck_coder::values_of(request), options) == 0)
    throw std::runtime_error(codec + " has no frame of that size, tolerance and chunk");
  return std::make_unique<tuck_coder>(std::move(chosen), request, options, way);
}

device_cost copy_on_device([[maybe_unused]] uint64_t raw_bytes, [[maybe_unused]] const run_limits& limits) {
  device_cost cost;
#if defined(TUCK_CUDAPTX)
  const device_timing timing(1, 2 * raw_bytes);
  cost = timing.measure(limits, [&](uint32_t i) { timing.copy_plainly(i, raw_bytes); }, [=] { return 2 * raw_bytes; });
#elif !defined(TUCK_CUDASIM)
  const uint64_t moved = 2 * raw_bytes;
  cost.seconds = device_timing(buffers_in_turn(raw_bytes), moved).copy_seconds(limits, moved);
#endif
  return cost;
}

std::optional<place> device_place() {
#if defined(TUCK_CUDAPTX)
  return place::ptx;
#else
  return describe_device() ? place::gpu : place::sim;
#endif
}

#if defined(TUCK_CUDASIM)

std::optional<device_description> describe_device() { return {}; }

#else

namespace {

std::string cuda_version(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string megahertz(cudaDeviceAttr kilohertz) { return std::to_string(device_attribute(kilohertz) / 1000) + " MHz"; }

// The driver's own version, which only NVML knows; its library comes with the driver and may be missing all the same.
std::string driver_version() {
  std::string version;
  if (void* const nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW)) {
    const auto init = reinterpret_cast<int (*)()>(dlsym(nvml, "nvmlInit_v2"));
    const auto ask = reinterpret_cast<int (*)(char*, unsigned)>(dlsym(nvml, "nvmlSystemGetDriverVersion"));
    const auto shut_down = reinterpret_cast<int (*)()>(dlsym(nvml, "nvmlShutdown"));
    if (init != nullptr && ask != nullptr && shut_down != nullptr && init() == 0) {
      char text[80];  // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE
      if (ask(text, sizeof text) == 0) version = text;
      shut_down();
    }
    dlclose(nvml);
  }
  if (!version.empty()) return version;
  int latest = 0;
  require(cudaDriverGetVersion(&latest));
  return "CUDA " + cuda_version(latest);
}

}  // namespace

std::optional<device_description> describe_device() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return {};
  int device = 0, runtime = 0;
  cudaDeviceProp properties;
  require(cudaGetDevice(&device));
  require(cudaGetDeviceProperties(&properties, device));
  require(cudaRuntimeGetVersion(&runtime));
  return device_description{
      .name = properties.name,
      .driver = driver_version(),
      .runtime = cuda_version(runtime),
      .clocks = "SM " + megahertz(cudaDevAttrClockRate) + ", memory " + megahertz(cudaDevAttrMemoryClockRate)};
}

#endif

}  // namespace tuck::bench
