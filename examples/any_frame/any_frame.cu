// Frames that come from elsewhere: only their headers say which codec wrote them, of which element type. The program
// names the codecs that it is ready to meet; the one that fits decodes on the device.
#include <tuck/device.cuh>
#include <tuck/host.hpp>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <new>
#include <vector>

namespace {

using byte_vector = std::vector<std::byte>;
using known = tuck::codec_list<tuck::zvc<float>, tuck::rle<uint8_t>, tuck::quantize<float>>;

template <tuck::codec C, class Make> byte_vector received(const C& codec, const Make& make) {
  std::vector<tuck::value_t<C>> values(50'000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = make(i);
  byte_vector frame(tuck::max_frame_bytes(codec, values.size()));
  frame.resize(tuck::host::encode(codec, values, frame).bytes);
  return frame;
}

// A frame on the host to its values on the host, by the device. Throws where CUDA does, and where the header says more
// than the frame has.
byte_vector decode(const byte_vector& frame, const tuck::frame_header& header, cudaStream_t stream) {
  if (header.frame_bytes > frame.size()) throw tuck::error(tuck::status::truncated);
  tuck::async_resource memory;
  byte_vector values(header.value_count * tuck::size_of(header.type));
  const tuck::device_buffer in(memory, frame.size(), stream), out(memory, values.size(), stream);
  const tuck::device_buffer scratch(memory, tuck::scratch_head_bytes, stream), written(memory, 16, stream);
  auto* const outcome = reinterpret_cast<tuck::outcome*>(written.all().data());
  const auto require = [](tuck::result r) {
    if (!r) throw tuck::error(r);
  };
  const auto copy = [&](void* to, const void* from, size_t size) {
    if (const auto e = cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, stream); e != cudaSuccess)
      throw tuck::error(e);
  };
  copy(in.all().data(), frame.data(), frame.size());
  require(tuck::initialize(scratch.scratch(), stream));
  require(tuck::decode(known{}, header, in.all(), out.all(), scratch.scratch(), outcome, stream));
  tuck::outcome seen;
  copy(&seen, outcome, sizeof seen);
  copy(values.data(), out.all().data(), values.size());
  if (const auto e = cudaStreamSynchronize(stream); e != cudaSuccess) throw tuck::error(e);
  if (!seen) throw tuck::error(seen.code);
  return values;
}

}  // namespace

int main() {
  const byte_vector frames[] = {
      received(tuck::zvc<float>{}, [](size_t i) { return i % 3 == 0 ? float(i) : 0.0f; }),
      received(tuck::rle<uint8_t>{}, [](size_t i) { return uint8_t(i / 1000); }),
      received(tuck::quantize<float>(tuck::error_bound::absolute(1e-3)),
               [](size_t i) { return std::sin(float(i) * 1e-3f); }),
      received(tuck::rle<double>{}, [](size_t i) { return double(i / 1000); }),  // not of the list
  };
  cudaStream_t stream;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) return 1;
  int decoded = 0, refused = 0;
  for (const byte_vector& frame : frames) try {
      tuck::frame_header header;
      if (const auto s = tuck::inspect(frame, header); s != tuck::status::ok) throw tuck::error(s);
      std::printf("%-8s of %llu %s: ", name(header.stages.at[0].id),
                  static_cast<unsigned long long>(header.value_count), name(header.type));
      const byte_vector values = decode(frame, header, stream);
      byte_vector on_host(values.size());
      const bool same = tuck::host::decode(known{}, frame, on_host) && on_host == values;
      std::printf("%zu bytes from %zu, %s\n", values.size(), frame.size(),
                  same ? "as on the host" : "NOT as on the host");
      decoded += same;
    } catch (const tuck::error& e) {
      std::printf("%s\n", e.what());
      refused += e.code() == tuck::status::type_mismatch;
    } catch (const std::bad_alloc&) {  // a few bytes may stand for very many equal values
      std::printf("more values than there is memory for\n");
    }
  return cudaStreamDestroy(stream) == cudaSuccess && decoded == 3 && refused == 1 ? 0 : 1;
}
