// libtuck_torch.so as PyTorch has it: loaded while the program runs, called by name.
#include "support/device.hpp"

#include <torch_allocator/tuck_torch.h>

#include <dlfcn.h>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>

#if defined(__SANITIZE_THREAD__)
// When a thread's stack goes to another, glibc frees what that thread had of a loaded library's thread_locals, under
// locks that ThreadSanitizer does not see.
extern "C" const char* __tsan_default_suppressions() { return "race:_dl_deallocate_tls\n"; }
#endif

namespace tuck::test {
namespace {

constexpr uint64_t pinned_bytes = 1 << 20;

// Where it was built, unless the environment says where it was carried to.
std::string path_of_library() {
  const char* const carried = std::getenv("TUCK_TORCH_LIBRARY");
  return carried != nullptr ? carried : TUCK_TORCH_LIBRARY;
}

// Loaded once: it keeps what it has of a device for as long as the process runs.
struct library {
  static const library& get() {
    static const library l;
    return l;
  }
  library() {
    static_cast<void>(setenv("TUCK_PINNED_BYTES", std::to_string(pinned_bytes).c_str(), 1));
    file = dlopen(path_of_library().c_str(), RTLD_NOW | RTLD_LOCAL);
    if (file == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::exit(1);
    }
    find(alloc, "tuck_alloc");
    find(free, "tuck_free");
    find(offload, "tuck_offload");
    find(offload_as, "tuck_offload_as");
    find(stored_bytes, "tuck_stored_bytes");
    find(restore, "tuck_restore");
    find(prefetch, "tuck_prefetch");
    find(drop, "tuck_drop");
    find(wait, "tuck_wait");
    find(host_bytes, "tuck_host_bytes");
    find(last_error, "tuck_last_error");
  }
  template <class F> void find(F*& f, const char* name) const { f = reinterpret_cast<F*>(dlsym(file, name)); }

  void* file;
  decltype(tuck_alloc)* alloc;
  decltype(tuck_free)* free;
  decltype(tuck_offload)* offload;
  decltype(tuck_offload_as)* offload_as;
  decltype(tuck_stored_bytes)* stored_bytes;
  decltype(tuck_restore)* restore;
  decltype(tuck_prefetch)* prefetch;
  decltype(tuck_drop)* drop;
  decltype(tuck_wait)* wait;
  decltype(tuck_host_bytes)* host_bytes;
  decltype(tuck_last_error)* last_error;
};

class torch_allocator : public ::testing::Test {
 protected:
  const library& tuck = library::get();
  device_stream stream;

  void ok(int code) const { EXPECT_EQ(code, TUCK_OK) << tuck.last_error(); }
  void says(int code, int expected, const std::string& text) const {
    EXPECT_EQ(code, expected) << tuck.last_error();
    EXPECT_EQ(tuck.last_error(), text);
  }

  // A tensor in memory of the library's.
  template <class T> T* upload(const std::vector<T>& values, cudaStream_t on) const {
    void* const p = tuck.alloc(values.size() * sizeof(T), 0, on);
    EXPECT_EQ(p == nullptr, values.empty()) << tuck.last_error();
    if (!values.empty()) check(cudaMemcpyAsync(p, values.data(), values.size() * sizeof(T), cudaMemcpyDefault, on));
    check(cudaStreamSynchronize(on));  // it may read the vector until then
    return static_cast<T*>(p);
  }
  template <class T> std::vector<T> restored(uint64_t id, uint64_t count, cudaStream_t on) const {
    std::vector<T> values(count);
    void* const p = tuck.alloc(count * sizeof(T), 0, on);
    ok(tuck.restore(id, p, count * sizeof(T), on));
    if (count != 0) check(cudaMemcpyAsync(values.data(), p, count * sizeof(T), cudaMemcpyDefault, on));
    check(cudaStreamSynchronize(on));
    tuck.free(p, count * sizeof(T), 0, on);
    return values;
  }

  // Out, its memory freed at once and had by another, and back by another stream.
  template <class T> void round_trip(int dtype, uint64_t count) const {
    SCOPED_TRACE("dtype " + std::to_string(dtype) + ", " + std::to_string(count) + " values");
    const auto values = sparse_tensor<T>(count, .6);
    const uint64_t bytes = count * sizeof(T);
    for (const bool ahead : {false, true}) {
      T* const p = upload(values, stream);
      uint64_t id = 0;
      ok(tuck.offload(p, bytes, dtype, 0, stream, &id));
      EXPECT_NE(id, 0u);
      if (count != 0) check(cudaMemsetAsync(p, 0xff, bytes, stream));
      tuck.free(p, bytes, 0, stream);
      void* const other = tuck.alloc(bytes, 0, stream);
      if (count != 0) check(cudaMemsetAsync(other, 0xee, bytes, stream));
      tuck.free(other, bytes, 0, stream);

      if (ahead) ok(tuck.prefetch(id));
      const device_stream consumer;
      EXPECT_TRUE(same_bits(restored<T>(id, count, consumer), values));
      EXPECT_TRUE(same_bits(restored<T>(id, count, stream), values)) << "the second time";
      ok(tuck.drop(id));
    }
    ok(tuck.wait(0));
    EXPECT_EQ(tuck.host_bytes(0), 0u);
  }
};

TEST_F(torch_allocator, restores_what_was_offloaded) {
  for (const uint64_t count : {4096 * 5 + 77, 1, 0}) {
    round_trip<uint8_t>(TUCK_BYTES, count);
    round_trip<f16>(TUCK_F16, count);
    round_trip<bf16>(TUCK_BF16, count);
    round_trip<float>(TUCK_F32, count);
    round_trip<double>(TUCK_F64, count);
  }
}

TEST_F(torch_allocator, stores_no_zeros_of_floats) {
  const uint64_t count = 40960, bytes = count * sizeof(float);
  float* const p = upload(sparse_tensor<float>(count, .75), stream);
  uint64_t id = 0;
  ok(tuck.offload(p, bytes, TUCK_F32, 0, stream, &id));
  ok(tuck.wait(0));
  EXPECT_GT(tuck.host_bytes(0), bytes / 4);
  EXPECT_LT(tuck.host_bytes(0), bytes / 3);
  ok(tuck.drop(id));
  EXPECT_EQ(tuck.host_bytes(0), 0u);
  tuck.free(p, bytes, 0, stream);
}

TEST_F(torch_allocator, offloads_by_the_codec_that_is_named) {
  const uint64_t count = 40960, bytes = count * sizeof(float);
  const auto values = sparse_tensor<float>(count, .5);
  float* const p = upload(values, stream);
  for (const auto& [codec, mode, bound] :
       {std::tuple{"raw", 0, 0.}, {"zvc", 7, -1.}, {"quantize", 0, 1e-2}, {"quantize", 2, .5}}) {
    SCOPED_TRACE(codec);
    uint64_t id = 0, stored = 7;
    ok(tuck.offload_as(p, bytes, TUCK_F32, codec, mode, bound, 0, stream, &id));
    const std::vector<float> back = restored<float>(id, count, stream);
    ok(tuck.wait(0));
    ok(tuck.stored_bytes(id, &stored));
    const bool lossy = bound > 0;
    EXPECT_EQ(stored, tuck.host_bytes(0));
    EXPECT_LE(stored, lossy ? bytes / 2 : mode == 7 ? bytes * 6 / 10 : bytes + 256);
    EXPECT_GE(stored, lossy ? bytes / 50 : bytes / 2);
    if (!lossy) {
      EXPECT_TRUE(same_bits(back, values));
    }
    for (uint64_t i = 0; lossy && i < count; ++i) {
      const double size = std::abs(double(values[i]));
      if (std::isfinite(size)) {
        ASSERT_LE(std::abs(double(back[i]) - values[i]), mode == 2 ? bound * size : bound) << i;
      }
    }
    ok(tuck.drop(id));
    says(tuck.stored_bytes(id, &stored), TUCK_NO_SUCH_ID, "tuck_stored_bytes: id: no tensor " + std::to_string(id));
  }

  uint64_t untouched = 77;
  const auto offload_as = [&](int dtype, const char* codec, int mode, double bound) {
    return tuck.offload_as(p, bytes, dtype, codec, mode, bound, 0, stream, &untouched);
  };
  says(offload_as(TUCK_F32, "zip", 0, 0), TUCK_BAD_ARGUMENT, "tuck_offload_as: codec: there is no 'zip'");
  says(offload_as(TUCK_F32, nullptr, 0, 0), TUCK_BAD_ARGUMENT, "tuck_offload_as: codec: there is no ''");
  says(offload_as(TUCK_BYTES, "zvc", 0, 0), TUCK_BAD_ARGUMENT,
       "tuck_offload_as: codec: it is not for values of dtype 0");
  says(offload_as(TUCK_F64, "quantize", 0, 1), TUCK_BAD_ARGUMENT,
       "tuck_offload_as: codec: it is not for values of dtype 4");
  for (const int mode : {3, 255, 256, 257, 65536, INT_MAX, INT_MIN, INT_MIN + 2, -1, -254})
    says(offload_as(TUCK_F32, "quantize", mode, 1), TUCK_BAD_ARGUMENT,
         "tuck_offload_as: mode: there is none of number " + std::to_string(mode));
  for (const double bad : {0., -1., double(INFINITY), double(NAN)})
    EXPECT_EQ(offload_as(TUCK_F32, "quantize", 0, bad), TUCK_BAD_ARGUMENT) << tuck.last_error();
  EXPECT_EQ(std::string(tuck.last_error()).rfind("tuck_offload_as: bound: ", 0), 0u) << tuck.last_error();
  EXPECT_EQ(untouched, 77u);
  tuck.free(p, bytes, 0, stream);
}

// The frames of all codecs differ in size, and a chain's is smaller than that of its first stage.
TEST_F(torch_allocator, each_name_is_a_codec_of_its_own) {
  // Zeros in runs, and few different values.
  std::vector<float> values(40960);
  std::vector<f16> halves(values.size());
  std::vector<bf16> brains(values.size());
  for (uint64_t i = 0; i < values.size(); ++i) {
    values[i] = i / 64 % 2 != 0 ? 0.f : 1 + .25f * static_cast<float>(i * i % 5);
    halves[i] = __builtin_bit_cast(f16, float_format<f16>::narrow(values[i]));
    brains[i] = __builtin_bit_cast(bf16, float_format<bf16>::narrow(values[i]));
  }
  const auto stored_by = [&](const auto& tensor, int dtype, const char* codec) {
    SCOPED_TRACE(std::string(codec) + ", dtype " + std::to_string(dtype));
    const bool lossy = std::string(codec).starts_with("quantize");
    const uint64_t bytes = tensor.size() * sizeof(tensor[0]);
    auto* const p = upload(tensor, stream);
    uint64_t id = 0, stored = 0;
    ok(tuck.offload_as(p, bytes, dtype, codec, 0, lossy ? 1e-2 : 0, 0, stream, &id));
    using value = std::decay_t<decltype(tensor[0])>;
    const std::vector<value> back = restored<value>(id, tensor.size(), stream);
    if (!lossy) {
      EXPECT_TRUE(same_bits(back, tensor));
    }
    double error = 0;
    if constexpr (std::is_same_v<value, float>)
      for (uint64_t i = 0; i < tensor.size(); ++i) error = std::max(error, std::abs(double(back[i]) - tensor[i]));
    EXPECT_LE(error, 1e-2);
    ok(tuck.wait(0));
    ok(tuck.stored_bytes(id, &stored));
    ok(tuck.drop(id));
    tuck.free(p, bytes, 0, stream);
    return stored;
  };
  const auto all_differ = [&](const auto& tensor, int dtype) {
    std::map<std::string, uint64_t> stored;
    std::set<uint64_t> sizes;
    for (const char* codec : {"raw", "zvc", "rle", "zvc+rle+huffman", "quantize", "quantize+delta+zvc+huffman"})
      sizes.insert(stored[codec] = stored_by(tensor, dtype, codec));
    EXPECT_EQ(sizes.size(), 6u);
    EXPECT_LT(stored["zvc+rle+huffman"], stored["zvc"] * 3 / 4);
    EXPECT_LT(stored["quantize+delta+zvc+huffman"], stored["quantize"]);
  };
  all_differ(values, TUCK_F32);
  all_differ(halves, TUCK_F16);
  all_differ(brains, TUCK_BF16);

  uint64_t id = 0;
  void* const p = tuck.alloc(8, 0, stream);
  for (const char* codec : {"zvc+rle+huffman", "quantize+delta+zvc+huffman"})
    says(tuck.offload_as(p, 8, TUCK_F64, codec, 0, 1, 0, stream, &id), TUCK_BAD_ARGUMENT,
         "tuck_offload_as: codec: it is not for values of dtype 4");
  says(tuck.offload_as(p, 8, TUCK_F32, "zvc+huffman", 0, 1, 0, stream, &id), TUCK_BAD_ARGUMENT,
       "tuck_offload_as: codec: there is no 'zvc+huffman'");
  tuck.free(p, 8, 0, stream);
}

TEST_F(torch_allocator, threads_work_side_by_side) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t)
    threads.emplace_back([this, t] {
      const device_stream mine, other;
      const uint64_t count = 3000 + 500 * t;
      std::vector<std::pair<uint64_t, std::vector<float>>> offloaded;
      for (unsigned i = 0; i < 4; ++i) {
        const auto values = sparse_tensor<float>(count, .7, pattern::iid, 10 * t + i);
        float* const p = upload(values, mine);
        uint64_t id = 0;
        ok(tuck.offload(p, count * sizeof(float), TUCK_F32, 0, mine, &id));
        tuck.free(p, count * sizeof(float), 0, mine);
        offloaded.emplace_back(id, values);
      }
      for (const auto& [id, values] : offloaded) {
        ok(tuck.prefetch(id));
        EXPECT_TRUE(same_bits(restored<float>(id, count, other), values));
        ok(tuck.drop(id));
        EXPECT_EQ(tuck.drop(id), TUCK_NO_SUCH_ID);
      }
    });
  for (std::thread& t : threads) t.join();
  ok(tuck.wait(0));
  EXPECT_EQ(tuck.host_bytes(0), 0u);
}

TEST_F(torch_allocator, a_tensor_that_there_is_no_room_for_stays_where_it_is) {
  const auto large = noise<uint8_t>(pinned_bytes), values = noise<uint8_t>(100);
  uint8_t *const p = upload(large, stream), *const q = upload(values, stream);
  uint64_t first = 0, second = 0, third = 0;
  ok(tuck.offload(p, large.size(), TUCK_BYTES, 0, stream, &first));
  says(tuck.offload(q, values.size(), TUCK_BYTES, 0, stream, &second), TUCK_KEPT,
       "tuck_offload: the pinned memory is full; the tensor was kept where it is");
  ok(tuck.prefetch(second));
  EXPECT_TRUE(same_bits(restored<uint8_t>(second, values.size(), stream), values));
  ok(tuck.restore(second, q, values.size(), stream));
  ok(tuck.drop(second));

  ok(tuck.drop(first));
  ok(tuck.wait(0));
  uint8_t* const larger = upload(noise<uint8_t>(pinned_bytes + 1), stream);  // than all of it
  says(tuck.offload(larger, pinned_bytes + 1, TUCK_BYTES, 0, stream, &second), TUCK_KEPT,
       "tuck_offload: the pinned memory is full; the tensor was kept where it is");
  ok(tuck.drop(second));
  tuck.free(larger, pinned_bytes + 1, 0, stream);
  ok(tuck.offload(q, values.size(), TUCK_BYTES, 0, stream, &third));
  ok(tuck.drop(third));
  tuck.free(p, large.size(), 0, stream);
  tuck.free(q, values.size(), 0, stream);
}

TEST_F(torch_allocator, refuses_what_is_wrong_and_changes_nothing) {
  const auto values = sparse_tensor<float>(1000, .5);
  constexpr size_t bytes = 4000;
  float* const p = upload(values, stream);
  uint64_t id = 0, untouched = 77;
  ok(tuck.offload(p, bytes, TUCK_F32, 0, stream, &id));

  int devices = 0;
  check(cudaGetDeviceCount(&devices));
  const std::string no_device =
      "device: " + std::to_string(devices) + "; there are " + std::to_string(devices) + ", from 0";
  const auto offload = [&](const void* from, size_t size, int dtype, int device, cudaStream_t s) {
    return tuck.offload(from, size, dtype, device, s, &untouched);
  };
  says(tuck.offload(p, bytes, TUCK_F32, 0, stream, nullptr), TUCK_BAD_ARGUMENT, "tuck_offload: id: is null");
  says(offload(nullptr, bytes, TUCK_F32, 0, stream), TUCK_BAD_ARGUMENT, "tuck_offload: values: is null");
  says(offload(values.data(), bytes, TUCK_F32, 0, stream), TUCK_BAD_ARGUMENT,
       "tuck_offload: values: is not device memory");
  says(offload(p, bytes - 2, TUCK_F32, 0, stream), TUCK_WRONG_SIZE,
       "tuck_offload: bytes: 3998 are no whole values of 4");
  for (const int dtype : {5, -1, 256, 256 + TUCK_F32, 65536 + TUCK_F32, INT_MAX, INT_MIN, INT_MIN + TUCK_F32})
    says(offload(p, bytes, dtype, 0, stream), TUCK_BAD_ARGUMENT,
         "tuck_offload: dtype: there is none of number " + std::to_string(dtype));
  says(offload(p, bytes, TUCK_F32, devices, stream), TUCK_BAD_DEVICE, "tuck_offload: " + no_device);
  for (const int device : {-1, 256, 65536, INT_MIN}) {
    EXPECT_EQ(offload(p, bytes, TUCK_F32, device, stream), TUCK_BAD_DEVICE);
    EXPECT_EQ(tuck.wait(device), TUCK_BAD_DEVICE);
    EXPECT_EQ(tuck.alloc(bytes, device, stream), nullptr);
  }
  says(offload(reinterpret_cast<std::byte*>(p) + 2, bytes - 4, TUCK_F32, 0, stream), TUCK_BAD_ARGUMENT,
       "tuck_offload: values: a pointer is misaligned");
  EXPECT_EQ(untouched, 77u);

  says(tuck.restore(0, p, bytes, stream), TUCK_NO_SUCH_ID, "tuck_restore: id: no tensor 0");
  says(tuck.restore(id, p, bytes - 4, stream), TUCK_WRONG_SIZE, "tuck_restore: bytes: 3996, where it is 4000");
  says(tuck.restore(id, nullptr, bytes, stream), TUCK_BAD_ARGUMENT, "tuck_restore: destination: is null");
  std::vector<float> on_host(1000);
  says(tuck.restore(id, on_host.data(), bytes, stream), TUCK_BAD_ARGUMENT,
       "tuck_restore: destination: is not device memory");
  says(tuck.prefetch(id + 1), TUCK_NO_SUCH_ID, "tuck_prefetch: id: no tensor " + std::to_string(id + 1));
  says(tuck.drop(id + 1), TUCK_NO_SUCH_ID, "tuck_drop: id: no tensor " + std::to_string(id + 1));
  says(tuck.wait(devices), TUCK_BAD_DEVICE, "tuck_wait: " + no_device);

  EXPECT_EQ(tuck.alloc(bytes, devices, stream), nullptr);
  EXPECT_EQ(tuck.last_error(), "tuck_alloc: " + no_device);
  tuck.free(p, bytes, devices, stream);
  EXPECT_EQ(tuck.last_error(), "tuck_free: " + no_device);
  EXPECT_EQ(tuck.alloc(0, 0, stream), nullptr);
  tuck.free(nullptr, 0, 0, stream);

  std::string seen_elsewhere = "?";
  std::thread([&] { seen_elsewhere = tuck.last_error(); }).join();
  EXPECT_EQ(seen_elsewhere, "");

  EXPECT_TRUE(same_bits(restored<float>(id, values.size(), stream), values));
  ok(tuck.drop(id));
  tuck.free(p, bytes, 0, stream);
}

TEST_F(torch_allocator, works_on_the_default_stream) {
  const auto values = sparse_tensor<float>(2000, .5);
  auto* const p = static_cast<float*>(tuck.alloc(8000, 0, nullptr));
  ASSERT_NE(p, nullptr);
  check(cudaMemcpyAsync(p, values.data(), 8000, cudaMemcpyDefault, nullptr));
  uint64_t id = 0;
  ok(tuck.offload(p, 8000, TUCK_F32, 0, nullptr, &id));
  check(cudaMemsetAsync(p, 0xff, 8000, nullptr));
  ok(tuck.restore(id, p, 8000, nullptr));
  std::vector<float> back(values.size());
  check(cudaMemcpyAsync(back.data(), p, 8000, cudaMemcpyDefault, nullptr));
  check(cudaStreamSynchronize(nullptr));
  EXPECT_TRUE(same_bits(back, values));
  ok(tuck.drop(id));
  tuck.free(p, 8000, 0, nullptr);
}

#if defined(TUCK_CUDASIM)
// Whatever CUDA call fails: an error, and all is as it was.
TEST_F(torch_allocator, an_error_leaves_everything_as_it_was) {
  const auto values = sparse_tensor<float>(2000, .5);
  constexpr size_t bytes = 8000;
  float* const p = upload(values, stream);
  uint64_t id = 0;
  ok(tuck.offload(p, bytes, TUCK_F32, 0, stream, &id));
  ok(tuck.wait(0));
  const auto sweep = [&](const auto& call) {
    for (uint64_t k = 1;; ++k) {
      ASSERT_LT(k, 100u);
      cudasim::fail_call(k, cudaErrorUnknown);
      const int code = call();
      cudasim::fail_call(0, cudaSuccess);
      if (code == TUCK_OK) return;
      EXPECT_EQ(code, TUCK_CUDA_ERROR) << tuck.last_error();
      EXPECT_TRUE(same_bits(restored<float>(id, values.size(), stream), values)) << "call " << k;
    }
  };
  sweep([&] {
    uint64_t other = 0;
    const int code = tuck.offload(p, bytes, TUCK_F32, 0, stream, &other);
    EXPECT_EQ(other != 0, code == TUCK_OK);
    if (other != 0) ok(tuck.drop(other));
    return code;
  });
  sweep([&] { return tuck.prefetch(id); });
  sweep([&] { return tuck.restore(id, p, bytes, stream); });
  ok(tuck.drop(id));
  ok(tuck.wait(0));
  EXPECT_EQ(tuck.host_bytes(0), 0u);
  tuck.free(p, bytes, 0, stream);
}
#endif

// In a process of its own, which has not used the device yet.
using torch_environment = torch_allocator;
TEST_F(torch_environment, must_be_a_number) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        float* const p = upload(std::vector<float>(100), stream);
        uint64_t id = 0;
        for (const char* text : {"", "0", "-1", "1k", "0x10", " 1", "99999999999999999999"}) {
          static_cast<void>(setenv("TUCK_PINNED_BYTES", text, 1));
          says(tuck.offload(p, 400, TUCK_F32, 0, stream, &id), TUCK_BAD_ENVIRONMENT,
               std::string("tuck_offload: TUCK_PINNED_BYTES: '") + text + "' is not a positive number of bytes");
        }
        static_cast<void>(setenv("TUCK_PINNED_BYTES", "65536", 1));
        ok(tuck.offload(p, 400, TUCK_F32, 0, stream, &id));
        std::_Exit(HasFailure() ? 1 : 0);  // nothing of it is printed
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(torch_allocator, exports_its_functions_and_nothing_else) {
  FILE* const nm = popen(("nm -D --defined-only '" + path_of_library() + "'").c_str(), "r");
  ASSERT_NE(nm, nullptr);
  std::string text;
  for (char line[512]; std::fgets(line, sizeof line, nm) != nullptr;) text += line;
  if (pclose(nm) != 0) GTEST_SKIP() << "there is no nm";
  std::set<std::string> names;
  std::istringstream lines(text);
  for (std::string address, kind, name; lines >> address >> kind >> name;) names.insert(name);
  const std::set<std::string> expected = {"tuck_alloc",        "tuck_free",       "tuck_offload",   "tuck_offload_as",
                                          "tuck_restore",      "tuck_prefetch",   "tuck_drop",      "tuck_wait",
                                          "tuck_stored_bytes", "tuck_host_bytes", "tuck_last_error"};
  EXPECT_EQ(names, expected);
}

}  // namespace
}  // namespace tuck::test
