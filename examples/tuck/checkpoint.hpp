// Folders of safetensors files, such as a checkpoint in several files with an index, or in one. Other files of the
// folder are copied, those of folders in it too.
#pragma once

#include "commands.hpp"
#include "frame_file.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace tuck::tools {

// Returns whether the path is a folder with a safetensors file in it, or in a folder of it.
bool is_checkpoint(const std::string& path);

// A safetensors file of which only the header has been read.
struct shard {
  std::string name;  // in the folder: "unet/model.safetensors"
  std::string path;
  safetensors_header header;
  uint64_t first = 0;                     // offset of the data in the file
  std::map<std::string, size_t> tensors;  // by name: which of the header's

  std::string folder() const { return name.substr(0, name.rfind('/') + 1); }  // "unet/", or ""
};

// An index of shards: a JSON object that says for each tensor in which file it is, and the bytes of all.
struct shard_index {
  std::string name, path;
  std::string text;
};

class checkpoint {
 public:
  // Reads the headers of all safetensors files in a folder, or of a single file. Checks that the files which the
  // indexes name are in the folder, and have the tensors. Throws file_error.
  explicit checkpoint(const std::string& path);

  const std::vector<shard>& shards() const noexcept { return shards_; }
  const std::vector<shard_index>& indexes() const noexcept { return indexes_; }
  const std::vector<std::string>& others() const noexcept { return others_; }  // names of all other files
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }

  // Throws file_error unless both have tensors of the same names, types and shapes in folders of the same names. They
  // may be in other files. `of`: what messages call the other one.
  void check_same_tensors(const std::vector<shard>& others, const std::string& of) const;
  // Reads the values that tensors of this file of another checkpoint have here.
  std::vector<const_bytes> values_of(const std::string& file, const std::vector<named_tensor>& tensors,
                                     std::deque<byte_buffer>& room) const;

 private:
  const shard* find(const std::string& file, const std::string& tensor) const;
  void read_index(const std::string& name);

  std::string path_;
  std::vector<shard> shards_;
  std::vector<shard_index> indexes_;
  std::vector<std::string> others_;
};

// Encode and decode a checkpoint to a folder that does not exist, or is empty. It appears when it is complete.
void encode_checkpoint(const encode_options& options);
void decode_checkpoint(const decode_options& options);
// Verifies each file.
void verify_checkpoint(const verify_options& options);

}  // namespace tuck::tools
