// Any bytes as a file for the program tuck: its commands refuse it in one line, or agree about what is in it, and
// that comes back to the byte. The first byte says what the others are: a .npy file, a .tuck file, one whose digests
// are made right first, or a safetensors file.
#include "fuzz/fuzz.hpp"
#include "tuck/commands.hpp"
#include "tuck/frame_file.hpp"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <sstream>

using namespace tuck;
using namespace tuck::fuzz;
using namespace tuck::tools;

// There is no device here.
outcome tuck::tools::encode_on_device(const codec_choice&, dtype, const_bytes, bytes, const frame_options&,
                                      const const_bytes*) {
  std::abort();
}
outcome tuck::tools::decode_on_device(const_bytes, bytes) { std::abort(); }

namespace {

// A folder in memory, where there is one.
struct folder {
  folder() {
    const std::filesystem::path memory = "/dev/shm";
    const auto parent = std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path();
    path = parent / ("tuck-files-fuzz-" + std::to_string(::getpid()));
    std::filesystem::create_directory(path);
  }
  ~folder() { std::filesystem::remove_all(path); }
  std::string operator/(const char* name) const { return path / name; }

  std::filesystem::path path;
};

const folder& files() {
  static const folder one;
  return one;
}

// Does a command do its work? What it refuses, it says in a line that can be shown; it throws nothing else.
template <class Command> bool accepts(const Command& command) {
  try {
    command();
    return true;
  } catch (const file_error& refused) {
    const std::string_view why = refused.what();
    require(!why.empty() && printable(why) == why, "a refusal is a line");
    return false;
  }
}

// What a command prints on std::cout.
template <class Command> std::string printed(const Command& command) {
  const std::ostringstream text;
  std::streambuf* const before = std::cout.rdbuf(text.rdbuf());
  command();
  std::cout.rdbuf(before);
  return text.str();
}

bool same(const_bytes a, const_bytes b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

// Whether the .npy file can be read. Then it comes back to the byte from a frame, and its array from another file.
bool try_npy(const std::string& path) {
  npy_file array;
  const bool good = accepts([&] { array = parse_npy(read_file(path), path); });
  const std::string packed = files() / "packed.tuck", back = files() / "back.npy", copy = files() / "copy.npy";
  const bool encodes = accepts([&] {
    const bool is_declared = good && !array.header.opaque.empty();
    encode({.in = path, .out = packed, .as = is_declared ? array.header.type : dtype::none, .threads = 1});
  });
  require(encodes == good, "what can be read can be encoded");
  if (!good) return false;
  require(reinterpret_cast<uintptr_t>(array.data().data()) % size_of(array.header.type) == 0, "values lie aligned");
  decode({.in = packed, .out = back, .threads = 1});
  require(same(read_file(back).all(), read_file(path).all()), "the file comes back");

  write_npy(copy, array.header.type, array.header.shape, array.data());
  const npy_file again = read_npy(copy);
  require(again.header.type == array.header.type && again.header.shape == array.header.shape, "the shape stays");
  require(same(again.data(), array.data()), "and so do the values");
  return true;
}

void try_frame(const std::string& path, uint64_t file_bytes) {
  frame_file frame;
  const bool opens = accepts([&] { frame = open_frame(read_input(path)); });
  bool described = false;
  const std::string json = printed([&] { described = accepts([&] { info({.in = path, .json = true}); }); });
  require(described ? nlohmann::json::accept(json) : json.empty(), "information is JSON, or there is none");
  require(accepts([&] { info({.in = path}); }) == described, "for people there is as much");
  require(opens || !described, "what has information is a frame");
  if (!opens) return;
  require(frame.header().frame_bytes == file_bytes, "the file is a frame and nothing else");
  require(raw_bytes(frame.view) <= file_bytes / sizeof(directory_entry) * 2 * max_chunk_raw_bytes,
          "memory is paid for");
  if (raw_bytes(frame.view) > 1 << 20) return;  // a few bytes may stand for very many values

  const std::string out = files() / "out.npy";
  std::filesystem::remove(out);
  bool sound = false;
  printed([&] { sound = accepts([&] { verify({.in = path}); }); });
  require(described || !sound, "what is sound has information");
  const bool is_array = accepts([&] { npy_header_of(frame, path); });
  const bool decodes = accepts([&] { decode({.in = path, .out = out, .threads = 1}); });
  require(decodes == (sound && is_array), "sound arrays decode, others do not");
  require(std::filesystem::exists(out) == decodes, "nothing is left of a failure");
  require(!decodes || try_npy(out), "what was decoded can be read");
}

// Of tensors that can be encoded, the file comes back from their frames; one of frames may decode, or not.
void try_safetensors(const std::string& path) {
  const std::string packed = files() / "packed.safetensors", out = files() / "out.safetensors";
  std::filesystem::remove(packed);
  std::filesystem::remove(out);
  bool described = false;
  const std::string json = printed([&] { described = accepts([&] { info({.in = path, .json = true}); }); });
  require(described ? nlohmann::json::accept(json) : json.empty(), "information is JSON, or there is none");
  bool encodes = false;
  const std::string notes =
      printed([&] { encodes = accepts([&] { encode({.in = path, .out = packed, .threads = 1}); }); });
  require(notes.empty() || printable(notes) == notes.substr(0, notes.size() - 1) + '?', "a note is a line");
  require(std::filesystem::exists(packed) == encodes, "nothing is left of a failure");
  require(described || !encodes, "what can be encoded has information");
  bool sound = false;
  printed([&] { sound = accepts([&] { verify({.in = encodes ? packed : path}); }); });
  require(sound || !encodes, "its frames are sound");
  const bool decodes = accepts([&] { decode({.in = encodes ? packed : path, .out = out, .threads = 1}); });
  require(decodes == sound && std::filesystem::exists(out) == decodes, "sound frames decode, others do not");
  if (!encodes) return;
  require(same(read_file(out).all(), read_file(path).all()), "the file comes back");
  require(compare({.in = path, .other = out}), "and has no differences");
}

void write_file(const std::string& path, const_bytes content) {
  output_file file(path);
  file.write(content);
  file.commit();
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  require(std::freopen("/dev/null", "w", stdout) != nullptr, "output goes nowhere");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const exact_room<std::byte> content(data + 1, size - 1);
  const int kind = data[0] % 4;
  if (kind == 2) mend(content.all());
  const bool is_safetensors = kind == 3 || (kind != 0 && looks_like_safetensors(content.all()));
  const std::string path = files() / (is_safetensors ? "in.safetensors" : "in");
  write_file(path, content.all());
  if (kind == 0)
    try_npy(path);
  else if (is_safetensors)
    try_safetensors(path);
  else
    try_frame(path, content.size());
  return 0;
}
