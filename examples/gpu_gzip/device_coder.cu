#include "coder.hpp"
#include "crc32.cuh"
#include "support/on_device.cuh"

#include <algorithm>
#include <vector>

namespace gpu_gzip {
namespace {

using tuck::tools::device_memory;
using tuck::tools::require;

struct crc_job {
  const const_bytes* pieces;
  uint32_t* crcs;
};

// One block a piece.
template <int Threads> __global__ void __launch_bounds__(Threads) crc_kernel(const __grid_constant__ crc_job job) {
  using block = block_crc32<Threads>;
  using storage = typename block::TempStorage;
  TUCK_SHARED(storage, temp);
  const uint32_t crc = block::run(temp, job.pieces[blockIdx.x]);
  if (threadIdx.x == 0) job.crcs[blockIdx.x] = crc;
}

template <class T> T* as(const device_memory& memory) noexcept { return reinterpret_cast<T*>(memory.all().data()); }

// Everything that a batch needs on the device, for as many batches as there are.
class device_coder : public coder {
 public:
  explicit device_coder(uint64_t batch)
      : plain_(batch * max_output),
        packed_(std::max(max_frame_bytes(codec{}, batch * member_input, frame_shape), batch * max_member_bytes)),
        scratch_(scratch_bytes(codec{}, batch * member_input, frame_shape)),
        written_(sizeof(tuck::outcome)),
        items_(batch * sizeof(tuck::inflate_item)),
        results_(batch * sizeof(tuck::inflate_result)),
        pieces_(batch * sizeof(const_bytes)),
        crcs_(batch * sizeof(uint32_t)) {
    require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    require(initialize(scratch_.scratch(), stream_));
  }
  ~device_coder() override {
    static_cast<void>(cudaStreamSynchronize(stream_));  // of the memory that goes next
    static_cast<void>(cudaStreamDestroy(stream_));
  }

  uint64_t encode(tuck::span<const uint8_t> input, bytes frame, tuck::span<uint32_t> crcs) override {
    plain_.upload(as_bytes(input), stream_);
    require(tuck::encode(codec{}, {as<const uint8_t>(plain_), input.size()}, packed_.all(), scratch_.scratch(),
                         as<tuck::outcome>(written_), stream_, frame_shape));
    std::vector<const_bytes> pieces;
    for (uint64_t first = 0; first < input.size(); first += member_input)
      pieces.emplace_back(plain_.all().subspan(first, std::min<uint64_t>(input.size() - first, member_input)));
    find_crcs(pieces, crcs);
    tuck::outcome done;
    download(written_, tuck::span<tuck::outcome>(&done, 1));
    if (!done) throw std::runtime_error(message(done.code));
    packed_.download(frame.subspan(0, done.bytes), stream_);
    return done.bytes;
  }

  void decode(const_bytes file, tuck::span<const decode_item> items, bytes out,
              tuck::span<decoded> decoded_items) override {
    if (items.empty()) return;
    std::vector<tuck::inflate_item> on_device;
    std::vector<const_bytes> pieces;
    for (const decode_item& item : items) {
      const auto at = static_cast<uint64_t>(item.stream.data() - file.data());
      on_device.push_back({packed_.all().subspan(at, item.stream.size()), plain_.all().subspan(item.at, item.size)});
      pieces.emplace_back(on_device.back().out);
    }
    packed_.upload(file, stream_);
    upload(on_device, items_);
    require(tuck::inflate_batch({as<const tuck::inflate_item>(items_), items.size()},
                                {as<tuck::inflate_result>(results_), items.size()}, stream_));
    std::vector<tuck::inflate_result> results(items.size());
    download(results_, tuck::span<tuck::inflate_result>(results));
    for (uint64_t i = 0; i < items.size(); ++i)
      pieces[i] = pieces[i].subspan(0, results[i] ? results[i].bytes : 0);  // what is there
    std::vector<uint32_t> crcs(items.size());
    find_crcs(pieces, crcs);
    for (uint64_t i = 0; i < items.size(); ++i) decoded_items[i] = {results[i], crcs[i]};
    plain_.download(out.subspan(0, items[items.size() - 1].at + items[items.size() - 1].size), stream_);
  }

 private:
  template <class T> void upload(const std::vector<T>& from, const device_memory& to) const {
    to.upload(as_bytes(tuck::span<const T>(from)), stream_);
  }
  template <class T> void download(const device_memory& from, tuck::span<T> to) const {
    from.download(as_writable_bytes(to), stream_);
  }

  void find_crcs(const std::vector<const_bytes>& pieces, tuck::span<uint32_t> crcs) const {
    upload(pieces, pieces_);
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(pieces.size()));
    config.blockDim = dim3(tuck::block_threads);
    config.stream = stream_;
    const crc_job job{as<const const_bytes>(pieces_), as<uint32_t>(crcs_)};
    require(cudaLaunchKernelEx(&config, crc_kernel<tuck::block_threads>, job));
    download(crcs_, crcs.subspan(0, pieces.size()));
  }

  device_memory plain_;   // what members are of
  device_memory packed_;  // a frame, or a part of a file
  device_memory scratch_, written_;
  device_memory items_, results_, pieces_, crcs_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

std::unique_ptr<coder> make_device_coder(uint64_t batch) { return std::make_unique<device_coder>(batch); }

}  // namespace gpu_gzip
