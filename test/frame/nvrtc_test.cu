// The program of docs/guide.md that NVRTC compiles: it compiles for other codecs too, and its kernels write and read
// the bytes of the host.
#include <tuck/host.hpp>

#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <nvrtc.h>

#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace tuck;

constexpr uint32_t chunk_values = 4096, count = 2 * chunk_values + 1001, chunks = 3;

// The text between two marks of the guide.
std::string guide_source() {
  std::ifstream file(TUCK_ROOT "/docs/guide.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}}, begin = "source = r\"\"\"\n", end = "\"\"\"";
  const size_t first = text.find(begin);
  EXPECT_NE(first, text.npos) << "the guide has no such program any more";
  if (first == text.npos) return "";
  return text.substr(first + begin.size(), text.find(end, first + begin.size()) - first - begin.size());
}

std::string with_codec(std::string source, const std::string& codec) {
  const std::string of_guide = "tuck::zvc<float>";
  const size_t at = source.find(of_guide);
  EXPECT_NE(at, source.npos);
  return at == source.npos ? source : source.replace(at, of_guide.size(), codec);
}

struct compiled {
  std::string ptx, log;
};
compiled compile(const std::string& source, const std::string& architecture) {
  nvrtcProgram program;
  EXPECT_EQ(nvrtcCreateProgram(&program, source.c_str(), "guide.cu", 0, nullptr, nullptr), NVRTC_SUCCESS);
  const std::string arch = "-arch=" + architecture;
  const char* const options[] = {"-std=c++20",
                                 "-default-device",
                                 arch.c_str(),
                                 "-lineinfo",  // the engine names lines by it
                                 "-I" TUCK_ROOT "/include",
                                 "-I" TUCK_CUDA_INCLUDE,
                                 "-I" TUCK_CUDA_INCLUDE "/cccl"};
  const nvrtcResult result = nvrtcCompileProgram(program, std::size(options), options);
  compiled made;
  size_t size = 0;
  nvrtcGetProgramLogSize(program, &size);
  made.log.resize(size);
  nvrtcGetProgramLog(program, made.log.data());
  if (result == NVRTC_SUCCESS) {
    nvrtcGetPTXSize(program, &size);
    made.ptx.resize(size);
    nvrtcGetPTX(program, made.ptx.data());
  }
  nvrtcDestroyProgram(&program);
  return made;
}

template <class T> class buffer {
 public:
  explicit buffer(size_t size) { EXPECT_EQ(cudaMalloc(&data_, size * sizeof(T)), cudaSuccess); }
  buffer(const buffer&) = delete;
  ~buffer() { cudaFree(data_); }
  T* data() const { return data_; }
  void set(const std::vector<T>& values) {
    EXPECT_EQ(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyDefault), cudaSuccess);
  }
  std::vector<T> get(size_t size) const {
    std::vector<T> values(size);
    EXPECT_EQ(cudaMemcpy(values.data(), data_, size * sizeof(T), cudaMemcpyDefault), cudaSuccess);
    return values;
  }

 private:
  T* data_ = nullptr;
};

void launch(cudaLibrary_t library, const char* name, std::vector<void*> arguments) {
  cudaKernel_t kernel;
  ASSERT_EQ(cudaLibraryGetKernel(&kernel, library, name), cudaSuccess) << name;
  ASSERT_EQ(
      cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(chunks), dim3(128), arguments.data(), 0, nullptr),
      cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

std::vector<float> sparse_values() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& x : values) x = random() % 8 < 5 ? 0 : normal(random);
  return values;
}

// `name`: as programs write it.
template <class C> void expect_bytes_of_host(const C& codec, const std::string& name, const std::string& architecture) {
  SCOPED_TRACE(name + " " + architecture);
  const compiled program = compile(with_codec(guide_source(), name), architecture);
  ASSERT_FALSE(program.ptx.empty()) << program.log;
  EXPECT_NE(program.ptx.find(".target " + architecture), program.ptx.npos);
  cudaLibrary_t library;
  ASSERT_EQ(cudaLibraryLoadData(&library, program.ptx.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0), cudaSuccess);

  const std::vector<float> values = sparse_values();
  buffer<float> in(count), out(count);
  buffer<std::byte> encoded(chunks * chunk_values * sizeof(float));
  buffer<uint32_t> sizes(chunks);
  buffer<status> failed(1);
  in.set(values);
  failed.set({status::ok});
  float *from = in.data(), *to = out.data();
  std::byte* at = encoded.data();
  uint32_t *size = sizes.data(), n = count;
  status* why = failed.data();
  launch(library, "encode", {&from, &n, &at, &size});
  launch(library, "decode", {&at, &size, &to, &n, &why});

  EXPECT_EQ(failed.get(1)[0], status::ok);
  EXPECT_EQ(out.get(count), values);
  const std::vector<uint32_t> size_of_chunk = sizes.get(chunks);
  for (uint32_t i = 0; i < chunks; ++i) {
    const uint32_t first = i * chunk_values;
    const span<const float> chunk(values.data() + first, std::min(chunk_values, count - first));
    std::vector<std::byte> expected(codec.max_chunk_bytes(static_cast<uint32_t>(chunk.size())));
    const uint32_t used = codec.encode_chunk(chunk, expected);
    ASSERT_NE(used, incompressible);
    ASSERT_EQ(size_of_chunk[i], used) << "chunk " << i;
    expected.resize(used);
    std::vector<std::byte> written(used);
    cudaMemcpy(written.data(), encoded.data() + first * sizeof(float), used, cudaMemcpyDefault);
    EXPECT_EQ(written, expected) << "chunk " << i;
  }
  EXPECT_EQ(cudaLibraryUnload(library), cudaSuccess);
}

class Nvrtc : public testing::TestWithParam<const char*> {
 protected:
  // To compile a codec takes seconds: the engine's two architectures share them.
  static bool has_share([[maybe_unused]] bool older) {
#if defined(TUCK_CUDAPTX)
    return older == (std::string(GetParam()) == "sm_75");
#else
    return true;
#endif
  }
};

TEST_P(Nvrtc, KernelsWriteTheBytesOfTheHost) {
  if (has_share(true)) {
    expect_bytes_of_host(zvc<float>{}, "tuck::zvc<float>", GetParam());
    expect_bytes_of_host(zvc_rle_huffman<float>{}, "tuck::zvc_rle_huffman<float>", GetParam());
  }
  if (has_share(false)) {
    expect_bytes_of_host(rle<float>{}, "tuck::rle<float>", GetParam());
    expect_bytes_of_host(huffman<float>{}, "tuck::huffman<float>", GetParam());
  }
}

#if defined(TUCK_CUDAPTX)
INSTANTIATE_TEST_SUITE_P(Architectures, Nvrtc, testing::Values("sm_75", "sm_90"));
#else
std::string this_gpu() {
  cudaDeviceProp gpu{};
  cudaGetDeviceProperties(&gpu, 0);
  return "sm_" + std::to_string(10 * gpu.major + gpu.minor);
}
const std::string gpu = this_gpu();
INSTANTIATE_TEST_SUITE_P(Architectures, Nvrtc, testing::Values(gpu.c_str()));
#endif

// Every codec is compiled, also those that the test above does not run.
TEST(NvrtcPrograms, AllCodecsCompile) {
  const std::string guide = guide_source(), include = "#include <tuck/device.cuh>\n";
  ASSERT_TRUE(guide.starts_with(include));
  std::string source = include;
  for (const std::string name :
       {"bitpack", "codebooks", "steps", "deflate", "quantize", "quantize_delta_huffman", "delta_rle_bitpack"}) {
    std::string kernels = with_codec(guide.substr(include.size()), "tuck::" + name + "<float>");
    for (size_t at; (at = kernels.find("extern \"C\"")) != kernels.npos;) kernels.erase(at, 10);
    source += "namespace of_" + name + " {\n" + kernels + "}\n";
  }
  const compiled program = compile(source, "sm_90");
  EXPECT_FALSE(program.ptx.empty()) << program.log;
}

TEST(NvrtcPrograms, LibrariesThatAreWrongAreRefused) {
  cudaLibrary_t library;
  cudaKernel_t kernel;
  const auto load = [&](const char* text) {
    return cudaLibraryLoadData(&library, text, nullptr, nullptr, 0, nullptr, nullptr, 0);
  };
  EXPECT_NE(load("no PTX"), cudaSuccess);
  EXPECT_NE(load(".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k() { frobnicate; }"), cudaSuccess);
  ASSERT_EQ(load(".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k() { ret; }"), cudaSuccess);
  EXPECT_EQ(cudaLibraryGetKernel(&kernel, library, "k"), cudaSuccess);
  EXPECT_EQ(cudaLibraryGetKernel(&kernel, library, "l"), cudaErrorSymbolNotFound);
  EXPECT_EQ(cudaLibraryUnload(library), cudaSuccess);
#if defined(TUCK_CUDAPTX)  // undefined behaviour elsewhere
  EXPECT_EQ(cudaLibraryUnload(library), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(1), dim3(1), nullptr, 0, nullptr),
            cudaErrorInvalidDeviceFunction);
#endif
}

}  // namespace
