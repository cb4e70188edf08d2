#include "checkpoint.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

namespace tuck::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* shard_suffix = ".safetensors";
constexpr const char* index_suffix = ".safetensors.index.json";
// Keys in the metadata of the index of encoded files: the index of the files that were encoded, and its digest.
constexpr const char* original_index = "tuck.index";
constexpr const char* original_index_digest = "tuck.index.digest";

// The names of all files of a folder, in order. Links to files are files.
std::vector<std::string> files_in(const std::string& folder) {
  std::error_code error, none;
  std::vector<std::string> names;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string path = entry->path().native();
    const bool is_folder = entry->is_directory(none);
    if (is_folder && entry->is_symlink(none)) throw file_error(path, "a link to a folder; copy the folder");
    if (is_folder) continue;
    if (!entry->is_regular_file(none)) throw file_error(path, "not a regular file");
    names.push_back(path.substr(folder.size() + 1));
  }
  if (error) throw file_error(folder, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string quoted(const std::string& text) {
  constexpr size_t most = 80;
  return "'" + text.substr(0, most) + (text.size() > most ? "..." : "") + "'";
}

// Returns whether JSON text has arrays and objects in each other deeper than `most`.
bool is_nested_deeper(const std::string& text, size_t most) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') in_string = !in_string;
    if (in_string && c == '\\') ++i;
    if (in_string) continue;
    if ((c == '[' || c == '{') && ++depth > most) return true;
    if ((c == ']' || c == '}') && depth != 0) --depth;
  }
  return false;
}

// Parses an index. Throws file_error about `path` unless it has an object of strings, "weight_map".
nlohmann::ordered_json parse_index(const std::string& text, const std::string& path) {
  constexpr size_t most_nested = 100;  // it is written by a recursive function
  if (is_nested_deeper(text, most_nested)) throw file_error(path, "its JSON is nested more than 100 deep");
  nlohmann::ordered_json index = nlohmann::ordered_json::parse(text, nullptr, false);
  if (index.is_discarded()) throw file_error(path, "not JSON");
  if (!index.is_object()) throw file_error(path, "not an index of shards: it is no JSON object");
  const auto map = index.find("weight_map");
  const auto is_text = [](const auto& value) { return value.is_string(); };
  if (map == index.end() || !map->is_object() || !std::all_of(map->begin(), map->end(), is_text))
    throw file_error(path, "not an index of shards: it has no 'weight_map' from tensors to files");
  const auto metadata = index.find("metadata");
  if (metadata != index.end() && !metadata->is_object() && !metadata->is_null())
    throw file_error(path, "its 'metadata' is no JSON object");
  return index;
}

shard read_shard(const std::string& path, const std::string& name) {
  shard read{.name = name, .path = path, .header = {}, .first = 0, .tensors = {}};
  read.header = read_safetensors_header(path, read.first);
  for (size_t i = 0; i < read.header.tensors.size(); ++i) read.tensors.emplace(read.header.tensors[i].name, i);
  return read;
}

void copy_file(const std::string& from, const std::string& to) {
  input_file in(from);
  output_file out(to);
  byte_buffer room(uint64_t{1} << 20);
  while (const uint64_t got = in.read(room.all())) out.write(room.all().subspan(0, got));
  out.commit();
  std::error_code ignored;
  fs::permissions(to, fs::status(from, ignored).permissions() & fs::perms(0777), ignored);
}

void write_text(const std::string& path, const std::string& text) {
  output_file out(path);
  out.write(bytes_of(text));
  out.commit();
}

void check_folder(const std::string& in, const std::string& out) {
  if (out == standard_stream || out.ends_with(shard_suffix))
    throw file_error(in, "a folder of safetensors files becomes a folder; name one for the output");
}

// Returns the index of encoded files. `tensors`: bytes of each tensor in the files of its folder.
std::string encoded_index(const shard_index& of, const std::map<std::string, uint64_t>& tensors) {
  nlohmann::ordered_json index = parse_index(of.text, of.path);
  nlohmann::ordered_json& metadata = index["metadata"];
  if (metadata.is_object() && metadata.contains(original_index))
    throw file_error(of.path, std::string("its metadata has '") + original_index + "': its files are encoded already");
  uint64_t bytes = 0;
  for (const auto& entry : index["weight_map"].items())
    bytes += tensors.at(entry.value().get<std::string>() + '/' + entry.key());
  metadata["total_size"] = bytes;
  metadata[original_index] = of.text;
  metadata[original_index_digest] = digest_text(checksum(bytes_of(of.text)));
  return index.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string decoded_index(const shard_index& of) {
  const nlohmann::ordered_json index = parse_index(of.text, of.path);
  const auto metadata = index.find("metadata");
  const auto text_of = [&](const char* key) -> std::string {
    if (metadata == index.end() || !metadata->is_object() || !metadata->contains(key) || !(*metadata)[key].is_string())
      throw file_error(of.path, std::string("its files are not encoded: no '") + key + "' in its metadata");
    return (*metadata)[key].get<std::string>();
  };
  std::string text = text_of(original_index);
  if (text_of(original_index_digest) != digest_text(checksum(bytes_of(text))))
    throw file_error(of.path, std::string("the metadata's '") + original_index + "' fails its checksum");
  return text;
}

std::string verb_for(const char* verb, size_t i, size_t count) {
  return verb + (count == 1 ? std::string() : " file " + std::to_string(i + 1) + " of " + std::to_string(count));
}

}  // namespace

bool is_checkpoint(const std::string& path) {
  std::error_code error;
  for (fs::recursive_directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().native().ends_with(shard_suffix) || entry->path().native().ends_with(index_suffix)) return true;
  return false;
}

checkpoint::checkpoint(const std::string& path) : path_(without_slashes(path)) {
  std::error_code none;
  if (!fs::is_directory(path_, none)) {
    shards_.push_back(read_shard(path_, path_.substr(path_.rfind('/') + 1)));
    return;
  }
  std::vector<std::string> names;
  for (std::string& name : files_in(path_)) {
    if (name.ends_with(index_suffix))
      names.push_back(std::move(name));
    else if (name.ends_with(shard_suffix))
      shards_.push_back(read_shard(path_of(name), name));
    else
      others_.push_back(std::move(name));
  }
  for (const std::string& name : names) read_index(name);
}

void checkpoint::read_index(const std::string& name) {
  const std::string path = path_of(name), folder = name.substr(0, name.rfind('/') + 1);
  const byte_buffer content = read_file(path);
  shard_index read{name, path, {reinterpret_cast<const char*>(content.all().data()), content.size()}};
  const nlohmann::ordered_json index = parse_index(read.text, path);
  for (const auto& entry : index["weight_map"].items()) {
    const auto& file = entry.value().get_ref<const std::string&>();
    const std::string about = about_tensor(entry.key());
    if (file.empty() || file.find('/') != std::string::npos)
      throw file_error(path, about + quoted(file) + " is not a file of this folder");
    const auto found =
        std::find_if(shards_.begin(), shards_.end(), [&](const shard& s) { return s.name == folder + file; });
    if (found == shards_.end()) throw file_error(path, about + "its file " + quoted(file) + " is missing");
    if (!found->tensors.contains(entry.key()))
      throw file_error(path, about + "its file " + quoted(file) + " does not have it");
  }
  indexes_.push_back(std::move(read));
}

// The file that has a tensor of this file of another checkpoint: one of the same name, else one in the same folder.
const shard* checkpoint::find(const std::string& file, const std::string& tensor) const {
  const std::string folder = file.substr(0, file.rfind('/') + 1);
  const shard* found = nullptr;
  for (const shard& s : shards_) {
    if (s.folder() != folder || !s.tensors.contains(tensor)) continue;
    if (s.name == file) return &s;
    found = &s;
  }
  return found;
}

void checkpoint::check_same_tensors(const std::vector<shard>& others, const std::string& of) const {
  std::set<std::pair<const shard*, std::string>> used;
  for (const shard& other : others)
    for (const named_tensor& t : other.header.tensors) {
      const subject about{path_, about_tensor(t.name)};
      const shard* const here = find(other.name, t.name);
      if (here == nullptr) throw about.error("it is in " + of + " but not in the base");
      const named_tensor& b = here->header.tensors[here->tensors.at(t.name)];
      if (b.dtype != t.dtype || b.shape != t.shape)
        throw about.error(b.dtype + " " + shape_text(b.shape) + " in the base, " + t.dtype + " " + shape_text(t.shape) +
                          " in " + of);
      used.emplace(here, t.name);
    }
  for (const shard& s : shards_)
    for (const named_tensor& t : s.header.tensors)
      if (!used.contains({&s, t.name}))
        throw file_error(path_, about_tensor(t.name) + "it is in the base but not in " + of);
}

std::vector<const_bytes> checkpoint::values_of(const std::string& file, const std::vector<named_tensor>& tensors,
                                               std::deque<byte_buffer>& room) const {
  std::vector<const_bytes> values;
  for (const named_tensor& t : tensors) {
    const shard* const here = find(file, t.name);
    if (here == nullptr) throw file_error(path_, about_tensor(t.name) + "it is not in the base");
    const named_tensor& b = here->header.tensors[here->tensors.at(t.name)];
    if (b.dtype != t.dtype || b.shape != t.shape)
      throw file_error(path_, about_tensor(t.name) + b.dtype + " " + shape_text(b.shape) +
                                  " in the base, the delta's is " + t.dtype + " " + shape_text(t.shape));
    room.emplace_back(read_range(here->path, here->first + b.begin, b.end - b.begin));
    values.push_back(room.back().all());
  }
  return values;
}

void encode_checkpoint(const encode_options& options) {
  if (options.as != dtype::none) throw usage_error("--as is for .npy files; safetensors files store their types");
  if (options.once && !options.base.empty()) throw usage_error(once_is_without_base);
  check_folder(options.in, options.out);
  const checkpoint in(options.in);
  std::optional<checkpoint> base;
  if (!options.base.empty()) {
    base.emplace(options.base);
    base->check_same_tensors(in.shards(), options.in);
  }
  output_folder out(options.out);
  equal_tensors equal;
  std::map<std::string, uint64_t> stored;  // bytes, by file and tensor
  for (size_t i = 0; i < in.shards().size(); ++i) {
    const shard& s = in.shards()[i];
    std::deque<byte_buffer> room;
    encode_options of_shard = options;
    of_shard.out = out.place(s.name);
    of_shard.verb = verb_for("encoding", i, in.shards().size());
    encode_shard(
        of_shard, read_input(s.path),
        [&](const std::vector<named_tensor>& tensors) {
          return base ? base->values_of(s.name, tensors, room) : std::vector<const_bytes>(tensors.size());
        },
        options.once ? &equal : nullptr);
    const shard written = read_shard(of_shard.out, s.name);
    for (const named_tensor& t : written.header.tensors) stored[s.name + '/' + t.name] = t.end - t.begin;
  }
  for (const shard_index& index : in.indexes()) {
    const std::string folder = index.name.substr(0, index.name.rfind('/') + 1);
    std::map<std::string, uint64_t> here;
    for (const auto& [name, bytes] : stored)
      if (name.starts_with(folder)) here.emplace(name.substr(folder.size()), bytes);
    write_text(out.place(index.name), encoded_index(index, here));
  }
  for (const std::string& name : in.others()) copy_file(in.path_of(name), out.place(name));
  out.commit();
}

void decode_checkpoint(const decode_options& options) {
  check_folder(options.in, options.out);
  if (!options.tensor.empty()) throw usage_error("--tensor is for a file; name the file of the folder that has it");
  const checkpoint in(options.in);
  std::optional<checkpoint> base;
  if (!options.base.empty()) base.emplace(options.base);
  output_folder out(options.out);
  for (size_t i = 0; i < in.shards().size(); ++i) {
    const shard& s = in.shards()[i];
    std::deque<byte_buffer> room;
    decode_options of_shard = options;
    of_shard.out = out.place(s.name);
    of_shard.verb = verb_for("decoding", i, in.shards().size());
    decode_shard(of_shard, read_input(s.path), [&](const std::vector<named_tensor>& tensors) {
      return base ? base->values_of(s.name, tensors, room) : std::vector<const_bytes>(tensors.size());
    });
  }
  for (const shard_index& index : in.indexes()) write_text(out.place(index.name), decoded_index(index));
  for (const std::string& name : in.others()) copy_file(in.path_of(name), out.place(name));
  out.commit();
}

void verify_checkpoint(const verify_options& options) {
  const checkpoint in(options.in);
  for (const shard_index& index : in.indexes()) static_cast<void>(decoded_index(index));
  for (const shard& s : in.shards()) verify({.in = s.path});
}

}  // namespace tuck::tools
