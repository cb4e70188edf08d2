// The program's commands. Each throws file_error for bad input (exit 1) and usage_error for a bad call (exit 2). As a
// file, "-" is standard input or standard output.
#pragma once

#include "codec_rules.hpp"
#include "codecs.hpp"
#include "frame_file.hpp"
#include "support/safetensors.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace tuck::tools {

struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class machine { host, device };

inline constexpr const char* once_is_without_base = "--once is for safetensors files, and not with --base";

inline bool has_device_deltas(std::string_view codec) {
  return std::find(std::begin(device_delta_codecs), std::end(device_delta_codecs), codec) !=
         std::end(device_delta_codecs);
}

struct encode_options {
  std::string in;
  std::string out;
  std::string base;  // file with the base of a delta; empty: no delta
  codec_rules codecs{"zvc"};
  error_bound bound = codec_choice{}.bound;
  uint32_t row = 0;            // row length in values, of chains with rows; 0: that of each tensor's shape
  bool chooses_codec = false;  // whether to use the default codec of deltas
  machine on = machine::host;
  dtype as = dtype::none;  // type that the integers of the file stand for; none: integers
  bool no_checksums = false;
  uint32_t chunk_values = 0;      // 0: the codec's default
  unsigned threads = 0;           // 0: one per core
  bool once = false;              // whether to store tensors of a safetensors file with equal values once
  bool is_silent = false;         // whether to show no progress
  std::string verb = "encoding";  // of the progress
};

struct decode_options {
  std::string in;
  std::string out;
  std::string base;
  std::string tensor;  // of a safetensors file, to a .npy file; empty: all
  machine on = machine::host;
  unsigned threads = 0;
  std::string verb = "decoding";  // of the progress
};

struct compact_options {
  std::string base;                 // of the first delta
  std::string in;                   // the first delta
  std::vector<std::string> others;  // the following deltas, then the output file
  unsigned threads = 0;
};

struct info_options {
  std::string in;
  bool json = false;
};

struct verify_options {
  std::string in;
};

struct compare_options {
  std::string in;  // the reference
  std::string other;
  dtype as = dtype::none;  // type that the integers of both files stand for; none: integers
  bool json = false;
};

// Finds tensors of safetensors files of a folder, and of the folders in it, whose values an earlier tensor has.
class equal_tensors {
 public:
  struct place {
    std::string path;  // of the file
    std::string file;  // its name without folders
    named_tensor tensor;
    uint64_t first;           // offset of the values in the file
    std::string digest = {};  // of what is stored of the tensor
  };

  // Returns an earlier tensor in the same folder with these values, or null and remembers `here`. `file` is the content
  // of the file of `here`.
  const place* find(const safetensors_file& file, place here);
  std::deque<place>& places() noexcept { return places_; }

 private:
  std::deque<place> places_;
  std::multimap<uint64_t, const place*> by_digest_;
};

// Returns the values that tensors have in the base, which are empty without a base.
using values_in_base = std::function<std::vector<const_bytes>(const std::vector<named_tensor>&)>;

void encode(const encode_options& options);
// Encodes a safetensors file of a folder. `equal`: null, or finds tensors to store once.
void encode_shard(const encode_options& options, input from, const values_in_base& of_base, equal_tensors* equal);
// Encodes tensors as those of a safetensors file: values[i] and of_base[i], which is empty without a base, belong to
// header.tensors[i]. Writes options.out. `path`: for messages.
struct written_tensors {
  uint64_t file_bytes = 0;
  std::vector<named_tensor> left_out;  // tensors that no codec takes, which are stored raw
};
written_tensors encode_tensors(const encode_options& options, const std::string& path, const safetensors_header& header,
                               const std::vector<const_bytes>& values, const std::vector<const_bytes>& of_base,
                               const safetensors_file* file = nullptr, equal_tensors* equal = nullptr);
void decode(const decode_options& options);
// Decodes a safetensors file of a folder.
void decode_shard(const decode_options& options, input from, const values_in_base& of_base);
void compact(const compact_options& options);
void info(const info_options& options);
void verify(const verify_options& options);
// Returns whether all values have equal bits.
bool compare(const compare_options& options);

}  // namespace tuck::tools
