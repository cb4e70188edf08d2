// A decode loop of an LLM whose KV cache does not fit: sequences take turns, each turn adds tokens to the last block of
// one and reads all its blocks, as attention does. What others need only later is evicted, encoded, to pinned memory,
// and comes back for its turn. All that is read is checked against what was written: bit for bit where the codec is
// lossless, and to within its bound where it is not.
#include "kv_pool.cuh"

#include <cmath>
#include <cstdio>
#include <random>

namespace {

constexpr uint32_t sequences = 4, turns = 60, tokens_a_turn = 8;
constexpr uint32_t block_tokens = 16, heads = 4, head_size = 64, channels = heads * head_size;
constexpr uint64_t block_values = uint64_t{block_tokens} * channels;

using format = tuck::float_format<tuck::bf16>;
double number(tuck::bf16 x) { return format::widen(x.bits); }

// Keys as layers have them: normal, each channel with a scale of its own, a few of them much larger.
class keys {
 public:
  keys() {
    std::mt19937 random(1);
    std::lognormal_distribution<float> scale(-1, 0.8f);
    for (float& s : scales_) s = scale(random);
  }
  // Those of one token.
  std::vector<tuck::bf16> operator()(uint32_t sequence, uint32_t token) const {
    std::mt19937 random(sequence << 16 | token);
    std::normal_distribution<float> normal;
    std::vector<tuck::bf16> row(channels);
    for (uint32_t c = 0; c < channels; ++c) row[c] = {format::narrow(normal(random) * scales_[c])};
    return row;
  }

 private:
  std::vector<float> scales_ = std::vector<float>(channels);
};

// How many values of a sequence are not what was written, give or take `bound`.
template <class Pool>
uint64_t count_wrong(Pool& pool, const std::vector<uint64_t>& table, uint32_t sequence, uint32_t tokens, double bound,
                     const keys& written, cudaStream_t stream) {
  std::vector<const tuck::bf16*> pages(table.size());
  pool.fetch(table, pages);  // an attention kernel would be launched with these
  std::vector<tuck::bf16> read(table.size() * block_values);
  for (size_t i = 0; i < pages.size(); ++i)
    kv::check(cudaMemcpyAsync(read.data() + i * block_values, pages[i], block_values * sizeof(tuck::bf16),
                              cudaMemcpyDefault, stream));
  kv::check(cudaStreamSynchronize(stream));
  uint64_t wrong = 0;
  for (uint32_t token = 0; token < tokens; ++token) {
    const std::vector<tuck::bf16> row = written(sequence, token);
    for (uint32_t c = 0; c < channels; ++c) {
      const tuck::bf16 back = read[uint64_t{token} * channels + c];
      wrong += !(back == row[c]) && !(std::fabs(number(back) - number(row[c])) <= bound);
    }
  }
  return wrong;
}

template <tuck::codec C> uint64_t decode_loop(const char* name, const C& codec, double bound, cudaStream_t stream) {
  tuck::async_resource memory;
  kv::kv_pool<C> pool(codec, {.page_values = block_values, .pages = 12, .pinned_bytes = 256 << 10, .evict_batch = 4},
                      memory, stream);
  const keys key_of;
  std::mt19937 random(2);
  std::vector<uint64_t> tables[sequences];  // vLLM's block tables: the blocks of each sequence
  uint32_t tokens[sequences] = {};
  uint64_t blocks = 0, wrong = 0;
  for (uint32_t turn = 0; turn < turns; ++turn) {
    const uint32_t s = static_cast<uint32_t>(random() % sequences);
    for (uint32_t i = 0; i < tokens_a_turn; ++i) {
      const uint32_t token = tokens[s]++, place = token % block_tokens;
      if (place == 0) {
        const std::vector<tuck::bf16> nothing(block_values);
        pool.put(tables[s].emplace_back(blocks++), nothing.data());
        kv::check(cudaStreamSynchronize(stream));  // before `nothing` goes
      }
      const std::vector<tuck::bf16> row = key_of(s, token);
      kv::check(cudaMemcpyAsync(pool.edit(tables[s].back()) + place * channels, row.data(),
                                channels * sizeof(tuck::bf16), cudaMemcpyDefault, stream));
      kv::check(cudaStreamSynchronize(stream));
    }
    wrong += count_wrong(pool, tables[s], s, tokens[s], bound, key_of, stream);
  }

  const kv::pool_statistics is = pool.statistics();
  const auto batches = pool.counts();
  const auto u = [](uint64_t x) { return static_cast<unsigned long long>(x); };
  std::printf("%-22s %6llu %8llu %7llu %7llu %9llu %9llu %5.2f %8llu %12llu %5llu\n", name, u(blocks), u(is.resident),
              u(is.evicted), u(is.framed), u(is.raw_bytes), u(is.held_bytes),
              static_cast<double>(is.raw_bytes) / static_cast<double>(is.held_bytes),
              u(batches.encodes + batches.decodes), u(batches.pages_out + batches.pages_in), u(wrong));
  return wrong;
}

}  // namespace

int main() try {
  cudaStream_t stream;
  kv::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::printf("%u sequences, blocks of %u tokens x %u heads x %u, bf16\n\n", sequences, block_tokens, heads, head_size);
  std::puts(
      "codec                  blocks resident evicted  framed raw bytes      held ratio launches single calls wrong");
  const double bound = 0x1p-6;
  uint64_t wrong = decode_loop("huffman", tuck::huffman<tuck::bf16>{}, 0, stream);
  wrong += decode_loop("quantize within 2^-6", tuck::quantize<tuck::bf16>(tuck::error_bound::absolute(bound)), bound,
                       stream);
  kv::check(cudaStreamDestroy(stream));
  return wrong == 0 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "kv_cache: %s\n", e.what());
  return 1;
}
