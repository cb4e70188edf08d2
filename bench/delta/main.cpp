// Deltas by steps and by zvc+huffman on one CPU thread: bench_delta [OLD.npy NEW.npy]. The files have bf16 values as
// 16-bit integers. Prints ratios beside the bound by entropy, and speeds: for the pair, and for tensors of 64 MiB in
// which a share of the values changes at random positions. Their changes are drawn from those of the pair, or are 1, 3
// and 7.
#include <tuck/host.hpp>

#include "support/npy.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <exception>
#include <random>
#include <vector>

namespace {

using values = std::vector<uint16_t>;

values read(const char* path) {
  const tuck::tools::npy_file file = tuck::tools::read_npy(path);
  if (size_of(file.header.type) != 2) throw tuck::tools::file_error(path, "its values do not have 16 bits");
  values all(file.header.values);
  std::memcpy(all.data(), file.data().data(), 2 * all.size());
  return all;
}

// Bytes of independent draws with these counts.
double entropy(const std::vector<uint64_t>& counts) {
  double sum = 0, bits = 0;
  for (const uint64_t n : counts) sum += static_cast<double>(n);
  for (const uint64_t n : counts)
    if (n != 0) bits -= static_cast<double>(n) * std::log2(static_cast<double>(n) / sum);
  return bits / 8;
}
double least_bytes(const values& old, const values& next) {
  std::vector<uint64_t> changes(1 << 16), positions(2);
  for (size_t i = 0; i < old.size(); ++i) {
    const auto change = static_cast<uint16_t>(old[i] ^ next[i]);
    changes[change] += change != 0;
    ++positions[change != 0];
  }
  return entropy(changes) + entropy(positions);
}

// CPU time, which other work on the machine disturbs least.
template <class Call> double best_seconds(const Call& call) {
  std::clock_t best = 1'000'000'000;
  for (int i = 0; i < 9; ++i) {
    const std::clock_t begin = std::clock();
    call();
    best = std::min(best, std::clock() - begin);
  }
  return static_cast<double>(best) / CLOCKS_PER_SEC;
}

template <tuck::codec C> void measure(const char* name, const values& old, const values& next) {
  using tuck::bf16;
  const auto as_bf16 = [](const values& v) { return tuck::span(reinterpret_cast<const bf16*>(v.data()), v.size()); };
  const C codec;
  const tuck::frame_options options{.chunk_values = tuck::max_chunk_values(codec.stages(), sizeof(bf16)),
                                    .alignment = 16};
  std::vector<std::byte> frame(tuck::max_delta_bytes(codec, old.size(), options));
  std::vector<bf16> out(old.size());
  tuck::outcome packed, applied;
  const double encoding =
      best_seconds([&] { packed = tuck::host::encode_delta(codec, as_bf16(next), as_bf16(old), frame, options); });
  const tuck::const_bytes delta(frame.data(), packed.bytes);
  const double applying =
      best_seconds([&] { applied = tuck::host::decode_delta(codec, delta, as_bf16(old), tuck::span<bf16>(out)); });
  if (!packed || !applied || std::memcmp(out.data(), next.data(), 2 * next.size()) != 0)
    throw std::runtime_error(std::string(name) + ": the delta does not restore the values");
  const double bytes = 2 * static_cast<double>(old.size()), bound = least_bytes(old, next);
  std::printf("%-17s %8.1f %8.1f %7.3f %9.2f %9.2f\n", name, bytes / static_cast<double>(packed.bytes), bytes / bound,
              bound / static_cast<double>(packed.bytes), bytes / encoding / 1e9, bytes / applying / 1e9);
}

using by_huffman = tuck::zvc_huffman<tuck::bf16>;

void measure_all(int files, char** paths) {
  values old{0x3f80, 0x3f00}, next = old, changes{1, 3, 7};
  std::printf("                    ratio    bound   share    encode  verify and apply, GB/s\n");
  if (files == 2) {
    old = read(paths[0]), next = read(paths[1]);
    if (old.size() != next.size()) throw tuck::tools::file_error(paths[1], "it has another size than the first file");
    measure<tuck::steps<tuck::bf16>>("pair, steps", old, next);
    measure<by_huffman>("pair, zvc+huffman", old, next);
    changes.clear();
    for (size_t i = 0; i < old.size(); ++i)
      if (old[i] != next[i]) changes.push_back(static_cast<uint16_t>(old[i] ^ next[i]));
    if (changes.empty()) throw tuck::tools::file_error(paths[1], "it is equal to the first file");
  }
  values base(32 << 20);
  for (size_t i = 0; i < base.size(); ++i) base[i] = old[i % old.size()];
  for (const double share : {.0001, .001, .01, .02, .05, .1}) {
    std::mt19937_64 random(1);
    values changed = base;
    for (uint16_t& v : changed)
      if (std::uniform_real_distribution<>()(random) < share) v ^= changes[random() % changes.size()];
    char name[16];
    std::snprintf(name, sizeof name, "%g %%", 100 * share);
    measure<by_huffman>(name, base, changed);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 1 && argc != 3) {
    std::fprintf(stderr, "usage: bench_delta [OLD.npy NEW.npy]\n");
    return 2;
  }
  try {
    measure_all(argc - 1, argv + 1);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_delta: %s\n", e.what());
    return 1;
  }
}
