// Codecs that only run time knows. The sender chooses them by name, as options of a program would, and encodes on the
// device. The receiver sees only headers, which say which codec wrote a frame, of which element type: the codec of its
// list that fits decodes on the device.
#include <tuck/device.cuh>
#include <tuck/host.hpp>

#include <cmath>
#include <cstdio>
#include <new>
#include <vector>

namespace {

using byte_vector = std::vector<std::byte>;
// Lossless codecs look at bits only, so that untyped<4> is for f32 and all integers of 4 bytes.
using sent =
    tuck::codec_list<tuck::zvc<tuck::untyped<4>>, tuck::rle<uint8_t>, tuck::rle<double>, tuck::quantize<float>>;
using known = tuck::codec_list<tuck::zvc<float>, tuck::rle<uint8_t>, tuck::quantize<float>>;

constexpr size_t count = 50'000;

void check(cudaError_t e) {
  if (e != cudaSuccess) throw tuck::error(e);
}
tuck::device_buffer<tuck::async_resource> upload(const byte_vector& from, tuck::async_resource& memory,
                                                 cudaStream_t stream) {
  tuck::device_buffer on_device(memory, from.size(), stream);
  check(cudaMemcpyAsync(on_device.all().data(), from.data(), from.size(), cudaMemcpyDefault, stream));
  return on_device;
}
byte_vector download(tuck::const_bytes from) {
  byte_vector to(from.size());
  check(cudaMemcpy(to.data(), from.data(), from.size(), cudaMemcpyDefault));  // what ends in _sync has waited
  return to;
}

template <class T, class Make> byte_vector tensor(const Make& make) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = make(i);
  const auto bytes = tuck::as_bytes(tuck::span<const T>(values));
  return {bytes.begin(), bytes.end()};
}

byte_vector send(const char* name, tuck::dtype type, const byte_vector& values, cudaStream_t stream) {
  tuck::any_codec<sent> codec;
  if (const auto s = codec.choose(name, type, tuck::error_bound::absolute(1e-3)); s != tuck::status::ok)
    throw tuck::error(s);
  tuck::async_resource memory;
  const auto in = upload(values, memory, stream);
  auto frame = tuck::encode(codec, in.all(), memory, stream);
  const tuck::outcome written = frame.shrink_sync();
  byte_vector sent_frame = download(frame.frame());
  byte_vector on_host(tuck::max_frame_bytes(codec, count));
  on_host.resize(tuck::host::encode(codec, values, on_host).bytes);
  if (written.bytes != sent_frame.size() || sent_frame != on_host) throw tuck::error(tuck::status::bad_payload);
  return sent_frame;
}

byte_vector receive(const byte_vector& frame, const tuck::frame_header& header, cudaStream_t stream) {
  if (header.frame_bytes > frame.size()) throw tuck::error(tuck::status::truncated);
  tuck::async_resource memory;
  const auto in = upload(frame, memory, stream);
  const tuck::device_buffer out(memory, header.value_count * tuck::size_of(header.type), stream);
  const tuck::outcome seen = tuck::decode_sync(known{}, header, in.all(), out.all(), memory, stream);
  if (!seen) throw tuck::error(seen.code);
  return download(out.all());
}

}  // namespace

int main() {
  const struct {
    const char* codec;
    tuck::dtype type;
    byte_vector values;
  } tensors[] = {
      {"zvc", tuck::dtype::f32, tensor<float>([](size_t i) { return i % 3 == 0 ? float(i) : 0.0f; })},
      {"rle", tuck::dtype::u8, tensor<uint8_t>([](size_t i) { return uint8_t(i / 1000); })},
      {"quantize", tuck::dtype::f32, tensor<float>([](size_t i) { return std::sin(float(i) * 1e-3f); })},
      {"rle", tuck::dtype::f64, tensor<double>([](size_t i) { return double(i / 1000); })},  // not known there
      {"zip", tuck::dtype::u8, byte_vector(count)},                                          // nor here
      {"rle", tuck::dtype::f32, byte_vector(count * 4)},
  };
  cudaStream_t stream;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) return 1;
  int decoded = 0;
  std::vector<tuck::status> refused;
  for (const auto& t : tensors) try {
      std::printf("%-8s of %zu %s: ", t.codec, count, name(t.type));
      const byte_vector frame = send(t.codec, t.type, t.values, stream);
      tuck::frame_header header;
      if (const auto s = tuck::inspect(frame, header); s != tuck::status::ok) throw tuck::error(s);
      const byte_vector values = receive(frame, header, stream);
      byte_vector on_host(values.size());
      const bool same = tuck::host::decode(known{}, frame, on_host) && on_host == values;
      std::printf("%zu bytes from %zu, %s\n", values.size(), frame.size(),
                  same ? "as on the host" : "NOT as on the host");
      decoded += same;
    } catch (const tuck::error& e) {
      std::printf("%s\n", e.what());
      refused.push_back(e.code());
    } catch (const std::bad_alloc&) {  // a few bytes may stand for very many equal values
      std::printf("more values than there is memory for\n");
    }
  const bool right = decoded == 3 && refused == std::vector{tuck::status::type_mismatch, tuck::status::unknown_codec,
                                                            tuck::status::unsupported_type};
  return cudaStreamDestroy(stream) == cudaSuccess && right ? 0 : 1;
}
