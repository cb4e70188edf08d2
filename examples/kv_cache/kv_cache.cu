// A paged KV cache that does not fit its memory, on recorded keys and values.
//
// The first part measures how many tokens a store holds: raw, without loss, and within bounds. Each store is filled
// until it is full, so the figures include headers, directories, padding and unused space between extents. The second
// part is a decode loop. Sequences take turns. Each turn adds tokens to the last page of a sequence and reads all its
// pages, as attention does, while the pages of the next sequence are prefetched.
//
//   kv_cache [FILE.npy | DIRECTORY ...]    bf16 as uint16, of shape (batch, heads, tokens, head size)
#include "kv_pool.cuh"

#include "support/npy.hpp"

#include <cmath>
#include <cstdio>
#include <random>

namespace {

constexpr uint32_t page_tokens = 32, chunk_tokens = 8;
constexpr double gib = 1 << 30;

using format = tuck::float_format<tuck::bf16>;
using page = std::vector<tuck::bf16>;
double number(tuck::bf16 x) { return format::widen(x.bits); }

// The keys or the values of a sequence in a layer: tokens x heads x head size, the order in which kernels append them.
struct recording {
  uint64_t tokens = 0, channels = 0;
  std::vector<tuck::bf16> values;

  page tokens_at(uint64_t first, uint64_t count) const {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first * channels);
    return {begin, begin + static_cast<std::ptrdiff_t>(count * channels)};
  }
};

void read_recordings(const std::string& path, std::vector<recording>& all) {
  const auto file = tuck::tools::read_npy(path);
  const std::vector<uint64_t>& shape = file.header.shape;
  if (file.header.type != tuck::dtype::u16 || shape.size() != 4 || shape[2] < page_tokens ||
      shape[1] * shape[3] % 2 != 0)
    throw tuck::tools::file_error(path, "not bf16 as uint16 of shape (batch, heads, tokens, head size)");
  const auto* from = reinterpret_cast<const tuck::bf16*>(file.data().data());
  const uint64_t heads = shape[1], tokens = shape[2], size = shape[3];
  if (!all.empty() && all[0].channels != heads * size)
    throw tuck::tools::file_error(path, "other heads than the file before it");
  for (uint64_t b = 0; b < shape[0]; ++b, from += heads * tokens * size) {
    recording& r = all.emplace_back(recording{tokens, heads * size, page(tokens * heads * size)});
    for (uint64_t h = 0; h < heads; ++h)
      for (uint64_t t = 0; t < tokens; ++t)
        std::copy_n(from + (h * tokens + t) * size, size,
                    r.values.begin() + static_cast<std::ptrdiff_t>((t * heads + h) * size));
  }
}

struct memories {
  tuck::async_resource device;
  tuck::pinned_resource pinned;
};

// Returns the largest error of a restored page as a share of its range. Adds the number of errors above the reported
// bound to `wrong`.
double error_of(const page& put, const page& back, const kv::page_report& report, uint64_t& wrong) {
  double low = number(put[0]), high = low, most = 0;
  for (size_t i = 0; i < put.size(); ++i) {
    low = std::min(low, number(put[i])), high = std::max(high, number(put[i]));
    const double error = put[i] == back[i] ? 0 : std::fabs(number(put[i]) - number(back[i]));
    wrong += !(error <= report.bound);
    most = std::max(most, error);
  }
  return most / (high - low);
}

struct plan {
  const char* name;
  double budget;  // share of the page's bytes
  double bound;   // share of the page's range; 0: no loss allowed
};

// Fills the store with the pages in turn. Returns how many fit, as a multiple of raw pages. Adds errors to `wrong`.
template <tuck::codec L>
double fill(const plan& how, const std::vector<page>& pages, uint64_t& wrong, cudaStream_t stream) {
  memories from;
  const uint64_t page_values = pages[0].size(), page_bytes = page_values * sizeof(tuck::bf16), raw_pages = 64;
  kv::pool_options options{.page_values = page_values, .pages = 8, .store_bytes = raw_pages * page_bytes};
  options.page_budget = static_cast<uint64_t>(how.budget * static_cast<double>(page_bytes)) + 1;
  if (how.bound != 0) options.bound = tuck::error_bound::range_relative(how.bound);
  options.chunk_values = static_cast<uint32_t>(page_values / page_tokens * chunk_tokens);
  if (options.chunk_values % 32 != 0 || options.chunk_values > 8192) options.chunk_values = 0;
  kv::kv_pool<L> pool({}, options, from.device, from.pinned, stream);
  uint64_t held = 0;
  for (bool room = true; room;) {
    pool.put(held, pages[held % pages.size()].data());
    try {
      pool.evict(std::vector<uint64_t>{held});
      ++held;
    } catch (const tuck::error& e) {
      if (e.code() != tuck::status::pool_full) throw;
      pool.erase(held);
      room = false;
    }
  }
  double error = 0;
  for (uint64_t i = 0; i < std::min<uint64_t>(held, pages.size()); ++i) {
    page back(page_values);
    pool.get(i, back.data());
    kv::check(cudaStreamSynchronize(stream));
    error = std::max(error, error_of(pages[i], back, pool.report(i), wrong));
  }
  const kv::pool_statistics is = pool.statistics();
  const double times = static_cast<double>(held) / static_cast<double>(raw_pages);
  const double token_bytes = 2 * static_cast<double>(page_bytes) / page_tokens;  // keys and values
  std::printf("%-34s %9.0f %6.3f %9llu %8llu %5llu   %.2g\n", how.name, times * gib / token_bytes, times,
              static_cast<unsigned long long>(is.lossless), static_cast<unsigned long long>(is.bounded),
              static_cast<unsigned long long>(is.raw), error);
  return times;
}

// A sequence of the loop: its recording, the tokens generated so far, and its block table, as in vLLM.
struct sequence {
  const recording* from;
  uint64_t tokens = 0;
  std::vector<uint64_t> table;
};

using lossless_pool = kv::kv_pool<tuck::codebooks<tuck::bf16>>;

void append_token(lossless_pool& pool, sequence& s, uint64_t& blocks, cudaStream_t stream) {
  const uint64_t place = s.tokens % page_tokens, channels = s.from->channels;
  const page empty(page_tokens * channels), row = s.from->tokens_at(s.tokens++, 1);
  if (place == 0) pool.put(s.table.emplace_back(blocks++), empty.data());
  kv::check(cudaMemcpyAsync(pool.edit(s.table.back()) + place * channels, row.data(), channels * sizeof(tuck::bf16),
                            cudaMemcpyDefault, stream));
  kv::check(cudaStreamSynchronize(stream));  // `row` is destroyed next
}

// Reads all pages of a sequence and prefetches those of the next. Returns the number of wrong values.
uint64_t attend(lossless_pool& pool, const sequence& s, const sequence& next, cudaStream_t stream) {
  std::vector<const tuck::bf16*> at(s.table.size());
  pool.fetch(s.table, at);  // for an attention kernel
  const page written = s.from->tokens_at(0, s.tokens);
  page read(written.size());
  for (uint64_t i = 0; i < at.size(); ++i) {
    const uint64_t first = i * page_tokens * s.from->channels;
    kv::check(cudaMemcpyAsync(read.data() + first, at[i],
                              std::min<uint64_t>(page_tokens * s.from->channels, read.size() - first) * sizeof read[0],
                              cudaMemcpyDefault, stream));
  }
  pool.prefetch(next.table);
  kv::check(cudaStreamSynchronize(stream));
  uint64_t wrong = 0;
  for (size_t i = 0; i < read.size(); ++i) wrong += !(read[i] == written[i]);
  return wrong;
}

uint64_t decode_loop(const std::vector<recording>& recordings, cudaStream_t stream) {
  memories from;
  const uint64_t page_values = page_tokens * recordings[0].channels;
  lossless_pool pool({}, {.page_values = page_values, .pages = 10, .store_bytes = 1 << 20}, from.device, from.pinned,
                     stream);
  std::vector<sequence> sequences;
  for (const recording& r : recordings)
    if (sequences.size() < 4) sequences.push_back({.from = &r, .table = {}});
  uint64_t blocks = 0, wrong = 0;
  for (uint64_t turn = 0; turn < 12 * sequences.size(); ++turn) {
    sequence& s = sequences[turn % sequences.size()];
    for (uint32_t i = 0; i < 8 && s.tokens < std::min<uint64_t>(s.from->tokens, 4 * page_tokens); ++i)
      append_token(pool, s, blocks, stream);
    wrong += attend(pool, s, sequences[(turn + 1) % sequences.size()], stream);
  }
  const auto count = pool.counts();
  std::printf(
      "\ndecode loop: %llu pages, %llu at a time on the device; %llu launches for %llu pages; %llu values wrong\n",
      static_cast<unsigned long long>(blocks), 10ull, static_cast<unsigned long long>(count.encodes + count.decodes),
      static_cast<unsigned long long>(count.pages_out + count.pages_in), static_cast<unsigned long long>(wrong));
  return wrong;
}

}  // namespace

int main(int count, char** arguments) try {
  std::vector<std::string> paths(arguments + 1, arguments + count);
  const bool own = paths.empty();
  if (own) paths.emplace_back(TUCK_KV_DATA);
  std::vector<recording> recordings;
  for (const std::string& path : paths)
    if (std::filesystem::is_directory(path))
      for (const auto& file : tuck::tools::npy_files(path)) read_recordings(file.string(), recordings);
    else
      read_recordings(path, recordings);
  if (recordings.empty()) throw tuck::tools::file_error(paths[0], "no .npy files");
  std::vector<page> pages;
  for (const recording& r : recordings)
    for (uint64_t t = 0; t + page_tokens <= r.tokens; t += page_tokens) pages.push_back(r.tokens_at(t, page_tokens));

  cudaStream_t stream;
  kv::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::printf("%zu pages of %u tokens x %llu channels of bf16, of keys or of values; %u tokens decode alone\n\n",
              pages.size(), page_tokens, static_cast<unsigned long long>(recordings[0].channels), chunk_tokens);
  std::puts("a page's budget, and bound          tokens*  times  lossless  bounded   raw   largest error / range");
  uint64_t wrong = 0;
  using codebooks = tuck::codebooks<tuck::bf16>;
  fill<codebooks>({"none: as it is", 0, 0}, pages, wrong, stream);
  const double lossless = fill<codebooks>({"its own bytes, no loss", 1, 0}, pages, wrong, stream);
  fill<tuck::huffman<tuck::bf16>>({"its own bytes, no loss, by huffman", 1, 0}, pages, wrong, stream);
  fill<codebooks>({"0.68 of them, 1e-3 of its range", .68, 1e-3}, pages, wrong, stream);
  const double bounded = fill<codebooks>({"half of them, 1e-2 of its range", .5, 1e-2}, pages, wrong, stream);
  fill<codebooks>({"a third, 3e-2 of its range", 1. / 3, 3e-2}, pages, wrong, stream);
  std::puts("\n* a layer's keys and values, a GiB");
  wrong += decode_loop(recordings, stream);
  kv::check(cudaStreamDestroy(stream));
  return wrong == 0 && (!own || (lossless >= 1.33 && bounded >= 2)) ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "kv_cache: %s\n", e.what());
  return 1;
}
