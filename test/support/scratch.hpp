// Temporary directories, whole files and .npy bytes made by hand, for the tests of programs.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace scratch {

// A directory that goes with all in it.
class directory {
 public:
  directory() {
    std::string name = (std::filesystem::temp_directory_path() / "tuck-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
    path_ = name;
  }
  ~directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  directory(const directory&) = delete;
  directory& operator=(const directory&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

  // Names of all entries, in order: a temporary left behind shows.
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      all.push_back(entry.path().filename().string());
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  std::filesystem::path path_;
};

inline std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

// `dict` as the header of a .npy file of that version, as short as can be and so hardly ever aligned.
inline std::string npy(const std::string& dict, const std::string& data, int version = 1) {
  const std::string header = dict + "\n";
  std::string content("\x93NUMPY");
  content += static_cast<char>(version);
  content += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) content += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return content + header + data;
}

inline std::string dict(const std::string& descr, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
}

// Bytes of which about half the 8-byte groups are zero.
inline std::string sparse_data(size_t size) {
  std::string data(size, '\0');
  uint32_t state = 1;
  for (size_t i = 0; i < size; ++i) {
    state = state * 1664525u + 1013904223u;
    if (i / 8 % 3 != 0) data[i] = static_cast<char>(state >> 24);
  }
  return data;
}

}  // namespace scratch
