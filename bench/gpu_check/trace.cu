// tuck-trace: where the time of a kernel goes, from inside it. A line of JSON for each point, as of tuck-experiments.
//   phases CODEC   clocks from barrier to barrier of one chunk alone on the GPU, by the warp that comes last
//   blocks CODEC   of each block the times of ticket, size, offset and end; all chunks go to --raw FILE.csv
//   machine        latencies and rates of instructions, of memory, and of messages between multiprocessors
#include "bench/gpu_check/traced_device.cuh"

#include "bench/gpu_check/experiments.hpp"
#include "bench/gpu_check/machine.cuh"
#include "bench/micro/points.hpp"
#include "bench/micro/tensors.hpp"
#include "support/on_device.cuh"

#include <tuck/device.cuh>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

__device__ bool tuck::trace::is_end(uint64_t word) { return chunk_state{word}.is_end(); }

namespace {

using namespace tuck;
using namespace tuck::bench;
using trace::event;
using trace::kind;

constexpr uint32_t warps = block_threads / device::warp_size;

__global__ void set_log(trace::log_view to) {
  if (blockIdx.x == 0 && threadIdx.x == 0) trace::log = to;
}

// The lists of events of one launch.
class event_log {
 public:
  event_log(uint32_t lists, uint32_t room, cudaStream_t stream)
      : stream_(stream), used_(lists * 4), events_(uint64_t{lists} * room * sizeof(event)), room_(room) {}

  void begin(uint32_t warps_a_block, const tools::device_memory& scratch) {
    tools::require(cudaMemsetAsync(used_.all().data(), 0, used_.all().size(), stream_));
    auto* const head = reinterpret_cast<scratch_head*>(scratch.all().data());
    trace::log_view view{reinterpret_cast<event*>(events_.all().data()),
                         reinterpret_cast<uint32_t*>(used_.all().data()),
                         room_,
                         warps_a_block,
                         &head->ticket,
                         reinterpret_cast<const uint64_t*>(scratch.all().data() + scratch_head_bytes),
                         reinterpret_cast<const uint64_t*>(scratch.all().data() + scratch.all().size())};
    tools::require(tuck::detail::launch(set_log, view, 1, {}, stream_));
  }
  // By list, in the order in which they were noted.
  std::vector<std::vector<event>> read() const {
    std::vector<uint32_t> used(used_.all().size() / 4);
    std::vector<event> all(events_.all().size() / sizeof(event));
    used_.download(as_writable_bytes(span<uint32_t>(used)), stream_);
    events_.download(as_writable_bytes(span<event>(all)), stream_);
    std::vector<std::vector<event>> lists;
    for (size_t i = 0; i < used.size(); ++i) {
      if (used[i] > room_) throw std::runtime_error("the log of a block is full");
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(i * room_);
      lists.emplace_back(first, first + used[i]);
    }
    return lists;
  }

 private:
  cudaStream_t stream_;
  tools::device_memory used_, events_;
  uint32_t room_;
};

template <class C> C codec_of() {
  if constexpr (is_lossy<C>)
    return C(error_bound::absolute(4e-3));
  else
    return {};
}

// A tensor in device memory, its frame, and calls on them.
template <class C> class traced_call {
  using T = value_t<C>;

 public:
  traced_call(const tensor& t, uint32_t lists, uint32_t events_a_list)
      : values_(t.values.size()),
        count_(t.values.size() / sizeof(T)),
        frame_(max_frame_bytes(codec_, count_)),
        scratch_(scratch_bytes(codec_, count_)),
        outcome_(sizeof(outcome)),
        log_(lists, events_a_list, stream_) {
    values_.upload(t.all(), stream_);
    tools::require(initialize(scratch_.scratch(), stream_));
  }
  std::vector<std::vector<event>> run(bool encodes, uint32_t warps_a_block) {
    const span<T> values(reinterpret_cast<T*>(values_.all().data()), count_);
    auto* const written = reinterpret_cast<outcome*>(outcome_.all().data());
    log_.begin(warps_a_block, scratch_);
    tools::require(encodes ? tuck::encode(codec_, values, frame_.all(), scratch_.scratch(), written, stream_)
                           : tuck::decode(codec_, frame_.all(), values, scratch_.scratch(), written, stream_));
    outcome done;
    outcome_.download(as_writable_bytes(span<outcome>(&done, 1)), stream_);
    tools::require(result{.code = done.code});
    return log_.read();
  }

 private:
  tools::device_stream stream_;
  C codec_ = codec_of<C>();
  tools::device_memory values_;
  uint64_t count_;
  tools::device_memory frame_, scratch_, outcome_;
  event_log log_;
};

const char* file_of(uint32_t site) {
  for (const char* const name : {"codec/mask_block.cuh",
                                 "codec/block.cuh",
                                 "quantize/quantize_block.cuh",
                                 "quantize/tile_quantizer.cuh",
                                 "rle/rle_block.cuh",
                                 "zvc/zvc_block.cuh",
                                 "frame/encode_kernel.cuh",
                                 "frame/decode_kernel.cuh",
                                 "frame/look_back.cuh",
                                 "frame/encode_job.cuh",
                                 "bitpack/bitpack_block.cuh",
                                 "bitpack/groups_block.cuh",
                                 "bitpack/groups_block_reader.cuh",
                                 "chain/chain_block.cuh",
                                 "transform/differences_block.cuh",
                                 "deflate/deflate_block.cuh",
                                 "deflate/decoder.cuh",
                                 "huffman/huffman_block.cuh",
                                 "huffman/decoder.cuh",
                                 "huffman/plane_parts.cuh"})
    if (trace::site_of(name, site & 0xffff) == site) return name;
  return "another";
}

// Clocks between barriers: from when the last one was left to when the last warp came to this one, and when the first.
void report_phases(const char* codec, bool encodes, const std::vector<std::vector<event>>& lists,
                   const experiment_settings& s) {
  size_t barriers = lists[0].size();
  for (uint32_t w = 1; w < warps; ++w) barriers = std::min(barriers, lists[w].size());
  for (size_t i = 1; i < barriers; ++i) {
    uint64_t begin = 0, first = ~uint64_t{0}, last = 0;
    double waited = 0;
    for (uint32_t w = 0; w < warps; ++w) {
      begin = std::max(begin, lists[w][i - 1].left);
      first = std::min(first, lists[w][i].arrived);
      last = std::max(last, lists[w][i].arrived);
    }
    for (uint32_t w = 0; w < warps; ++w) waited += static_cast<double>(last - lists[w][i].arrived) / warps;
    record r("phases");
    r.add("codec", codec).add("operation", encodes ? "encode" : "decode").add("barrier", uint64_t{i});
    r.add("file", file_of(lists[0][i].site)).add("line", uint64_t{lists[0][i].site & 0xffff});
    if (tools::simulated)
      s.found(r.add_nothing("clocks").add_nothing("first_clocks").add_nothing("waited_clocks"));
    else
      s.found(r.add("clocks", last > begin ? last - begin : 0)
                  .add("first_clocks", first > begin ? first - begin : 0)
                  .add("waited_clocks", waited));
  }
}

template <class C> void phases(const char* codec, const experiment_settings& s, const std::string&) {
  const tensor t =
      tensor_maker("").make({dtype_of<value_t<C>>, pattern::clustered, sizeof(value_t<C>) == 2 ? 0 : .6, 16 << 10});
  traced_call<C> call(t, warps, 1024);
  for (const bool encodes : {true, false}) {
    std::vector<std::vector<event>> lists;
    for (int run = 0; run < (tools::simulated ? 1 : 5); ++run) lists = call.run(encodes, warps);  // the last is warm
    report_phases(codec, encodes, lists, s);
  }
}

// What became of a chunk: nanoseconds, and the number of chunks that its block had before.
struct chunk_times {
  uint64_t ticket = 0, size = 0, offset = 0, end = 0;
  uint32_t block = 0, round = 0, processor = 0;
};

std::vector<chunk_times> by_chunk(const std::vector<std::vector<event>>& lists, uint64_t chunks) {
  std::vector<chunk_times> all(chunks);
  uint64_t lowest = ~uint64_t{0};
  for (const auto& list : lists)
    for (const event& e : list)
      if (e.what != kind::ticket) lowest = std::min(lowest, e.address);
  for (uint32_t block = 0; block < lists.size(); ++block) {
    uint32_t round = 0;
    chunk_times* last = nullptr;
    for (const event& e : lists[block]) {
      const uint64_t chunk = e.what == kind::ticket ? e.site : (e.address - lowest) / 8;
      if (e.what == kind::ticket && last != nullptr) last->end = e.arrived;  // where the next one is drawn
      if (chunk >= chunks) continue;                                         // a ticket behind the last chunk
      chunk_times& of = all[chunk];
      if (e.what == kind::ticket) {
        of.ticket = e.arrived;
        of.block = block;
        of.round = round++;
        of.processor = e.processor;
        last = &of;
      } else {
        (e.what == kind::size ? of.size : of.offset) = e.arrived;
      }
    }
  }
  for (chunk_times& c : all) {
    c.end = std::max(c.end, c.offset);  // a chunk that waits in shared memory finds its offset behind the next ticket
    if (c.ticket == 0 || c.size < c.ticket || c.offset < c.size)
      throw std::runtime_error("a chunk lacks a ticket, a size or an offset, or has them in another order");
  }
  return all;
}

void write_raw(const std::string& path, const std::vector<chunk_times>& all, uint64_t first) {
  std::string text = "chunk,block,round,processor,ticket_ns,size_ns,offset_ns,end_ns\n";
  for (size_t i = 0; i < all.size(); ++i) {
    const chunk_times& t = all[i];
    for (const uint64_t v : {uint64_t{i}, uint64_t{t.block}, uint64_t{t.round}, uint64_t{t.processor}})
      text += std::to_string(v) + ',';
    text += std::to_string(t.ticket - first) + ',' + std::to_string(t.size - first) + ',' +
            std::to_string(t.offset - first) + ',' + std::to_string(t.end - first) + '\n';
  }
  tools::output_file out(path);
  out.write(tools::bytes_of(text));
  out.commit();
}

template <class C> void blocks(const char* codec, const experiment_settings& s, const std::string& raw) {
  const tensor t = tensor_maker("").make({dtype_of<value_t<C>>, pattern::clustered, .6, s.raw_bytes});
  frame_header header;
  tools::require(result{.code = plan_header(codec_of<C>(), t.values.size() / sizeof(value_t<C>), {}, header)});
  const uint64_t chunks = layout_of(header).chunks;
  int of_gpu = 0;
  tools::require(cudaDeviceGetAttribute(&of_gpu, cudaDevAttrMultiProcessorCount, 0));
  // A list for each block that a GPU may have at once, with room for many times its share of chunks.
  const uint32_t lists = std::max(static_cast<uint32_t>(of_gpu) * 32, 256u);
  traced_call<C> call(t, lists, 256 + static_cast<uint32_t>(16 * 3 * chunks / lists));
  std::vector<chunk_times> all;
  for (int run = 0; run < (tools::simulated ? 1 : 3); ++run) all = by_chunk(call.run(true, 0), chunks);
  uint64_t first = ~uint64_t{0};
  for (const chunk_times& c : all) first = std::min(first, c.ticket);
  if (!raw.empty()) write_raw(raw, all, first);
  std::map<uint32_t, std::vector<const chunk_times*>> rounds;
  std::set<uint32_t> processors;
  for (const chunk_times& c : all) {
    rounds[c.round].push_back(&c);
    processors.insert(c.processor);
  }
  for (const auto& [round, of] : rounds) {
    record r("blocks");
    r.add("codec", codec).add("type", name(dtype_of<value_t<C>>)).add("raw_bytes", s.raw_bytes);
    r.add("round", uint64_t{round}).add("chunks", uint64_t{of.size()}).add("processors", uint64_t{processors.size()});
    for (const auto& [what, member] :
         {std::pair{"ticket", &chunk_times::ticket}, std::pair{"size", &chunk_times::size},
          std::pair{"offset", &chunk_times::offset}, std::pair{"end", &chunk_times::end}}) {
      std::vector<double> us;
      for (const chunk_times* c : of) us.push_back(static_cast<double>(c->*member - first) * 1e-3);
      std::sort(us.begin(), us.end());
      for (const auto& [share, where] : {std::pair{"_first", .0}, std::pair{"_median", .5}, std::pair{"_last", 1.}}) {
        const std::string key = std::string(what) + share + "_us";
        if (tools::simulated)
          r.add_nothing(key.c_str());
        else
          r.add(key.c_str(), us[static_cast<size_t>(where * static_cast<double>(us.size() - 1))]);
      }
    }
    s.found(r);
  }
}

struct traced {
  const char *experiment, *codec;
  void (*run)(const char* codec, const experiment_settings&, const std::string& raw);
};
constexpr traced all_traced[] = {
    {"phases", "huffman", phases<huffman<bf16>>},
    {"phases", "zvc+rle+huffman", phases<zvc_rle_huffman<float>>},
    {"phases", "deflate", phases<tuck::deflate<float>>},
    {"phases", "quantize", phases<quantize<float>>},
    {"blocks", "quantize", blocks<quantize<float>>},
    {"blocks", "bitpack", blocks<bitpack<float>>},
    {"blocks", "zvc", blocks<zvc<float>>},
    {"machine", "", [](const char*, const experiment_settings& s, const std::string&) { machine(s); }},
};

int run(const std::vector<std::string>& words) {
  std::string experiment, codec, raw, size = tools::simulated ? "256KiB" : "256MiB";
  for (size_t i = 0; i < words.size(); ++i) {
    if ((words[i] == "--raw" || words[i] == "--size") && i + 1 < words.size())
      (words[i] == "--raw" ? raw : size) = words[i + 1], ++i;
    else
      (experiment.empty() ? experiment : codec) = words[i];
  }
  const auto raw_bytes = size_of_name(size);
  bool found = false;
  const experiment_settings settings{raw_bytes.value_or(0), {}, [](const record& r) {
                                       if (std::puts(r.text().c_str()) < 0) throw std::runtime_error("standard output");
                                     }};
  for (const traced& t : all_traced)
    if (raw_bytes && *raw_bytes % 65536 == 0 && experiment == t.experiment && (codec.empty() || codec == t.codec)) {
      found = true;
      t.run(t.codec, settings, raw);
    }
  if (found) return 0;
  std::fputs("tuck-trace phases|blocks|machine [CODEC] [--size SIZE, a multiple of 64KiB] [--raw FILE.csv]\n", stderr);
  for (const traced& t : all_traced) std::fprintf(stderr, "  %s %s\n", t.experiment, t.codec);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tuck-trace: %s\n", error.what());
    return 1;
  }
}
