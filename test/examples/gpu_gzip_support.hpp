// Files in memory for gpu_gzip's tests: compressed and decompressed by whom one wants, or made by hand.
#pragma once

#include "gpu_gzip/crc32.hpp"
#include "gpu_gzip/gzip.hpp"
#include "support/files.hpp"
#include "support/zlib.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>

namespace gzip_test {

using tuck::const_bytes;
using tuck::test::zlib_settings;
using tuck::tools::bytes_of;

enum class machine { host, device };
inline constexpr machine machines[] = {machine::host, machine::device};

inline const char* name(machine on) { return on == machine::host ? "host" : "device"; }

inline std::unique_ptr<gpu_gzip::coder> make_coder(machine on, uint64_t batch) {
  return on == machine::host ? gpu_gzip::make_host_coder() : gpu_gzip::make_device_coder(batch);
}

inline gpu_gzip::source source_of(const std::string& text) {
  return [&text, done = size_t{0}](tuck::bytes room) mutable {
    const size_t size = std::min<size_t>(room.size(), text.size() - done);
    std::copy_n(bytes_of(text).data() + done, size, room.data());
    done += size;
    return uint64_t{size};
  };
}
inline gpu_gzip::sink sink_into(std::string& text) {
  return [&text](const_bytes data) { text.append(reinterpret_cast<const char*>(data.data()), data.size()); };
}

inline std::string compressed(const std::string& text, machine on = machine::host, uint64_t batch = 3) {
  std::string file;
  gpu_gzip::compress(source_of(text), sink_into(file), *make_coder(on, batch), batch);
  return file;
}

// What the file gives, or in `wrong` what is wrong with it.
inline std::optional<std::string> decompressed(const std::string& file, std::string& wrong, gpu_gzip::coder& by,
                                               uint64_t batch) {
  std::string text;
  try {
    gpu_gzip::decompress(source_of(file), sink_into(text), by, batch);
  } catch (const gpu_gzip::bad_input& e) {
    wrong = e.what();
    return {};
  }
  return text;
}
inline std::optional<std::string> decompressed(const std::string& file, std::string& wrong, machine on = machine::host,
                                               uint64_t batch = 3) {
  return decompressed(file, wrong, *make_coder(on, batch), batch);
}

inline std::string text_of(const_bytes data) { return {reinterpret_cast<const char*>(data.data()), data.size()}; }
inline std::string end_member() { return text_of(gpu_gzip::end_member()); }

// A member with whatever a test wants to be wrong.
struct forged_member {
  std::string stream;
  uint32_t crc = 0;
  uint32_t size = 0;
  std::string subfields_before = {};
  int bsize_off_by = 0;

  std::string file() const {
    const auto number = [](uint64_t x, int bytes) {
      std::string text;
      for (int i = 0; i < bytes; ++i) text += static_cast<char>(x >> (8 * i) & 0xff);
      return text;
    };
    const size_t all = 12 + subfields_before.size() + 6 + stream.size() + 8;
    return std::string("\x1f\x8b\x08\x04\0\0\0\0\0\xff", 10) + number(subfields_before.size() + 6, 2) +
           subfields_before + std::string("BC\2\0", 4) + number(all - 1 + static_cast<uint64_t>(bsize_off_by), 2) +
           stream + number(crc, 4) + number(size, 4);
  }
};

inline forged_member member_of(const std::string& text, const zlib_settings& how = {}) {
  const tuck::test::byte_vector stream = tuck::test::zlib_deflated(bytes_of(text), how);
  return {text_of(stream), gpu_gzip::crc32(bytes_of(text)), static_cast<uint32_t>(text.size())};
}

// Lines of words of a small vocabulary.
inline std::string text_like(size_t size, uint32_t seed = 1) {
  std::mt19937 random(seed);
  const auto often_low = [&](uint32_t end) { return std::min(random() % end, random() % end); };
  std::vector<std::string> words(500);
  for (std::string& word : words)
    for (uint32_t letters = 2 + random() % 8; letters != 0; --letters) word += static_cast<char>('a' + often_low(26));
  std::string text;
  while (text.size() < size) text += words[often_low(500)] + (random() % 12 == 0 ? '\n' : ' ');
  text.resize(size);
  return text;
}

}  // namespace gzip_test
