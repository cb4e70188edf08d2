// zlib as the oracle of what a raw DEFLATE stream is, and as an encoder.
#pragma once

#include "support/deflate_streams.hpp"

#include <gtest/gtest.h>

#include <zlib.h>

namespace tuck::test {

struct zlib_settings {
  int level = 6;
  int strategy = Z_DEFAULT_STRATEGY;
  int memory = 8;  // 1: blocks end after 127 tokens
};

inline byte_vector zlib_deflated(const_bytes data, const zlib_settings& how = {}) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, how.level, Z_DEFLATED, -15, how.memory, how.strategy), Z_OK);
  byte_vector out(deflateBound(&z, data.size()) + 64);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(data.data()));
  z.avail_in = static_cast<uInt>(data.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(::deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  EXPECT_EQ(deflateEnd(&z), Z_OK);
  return out;
}

// One inflater for many streams.
class zlib_inflater {
 public:
  zlib_inflater() { EXPECT_EQ(inflateInit2(&z_, -15), Z_OK); }
  zlib_inflater(const zlib_inflater&) = delete;
  zlib_inflater& operator=(const zlib_inflater&) = delete;
  ~zlib_inflater() { inflateEnd(&z_); }

  struct verdict {
    bool accepted;  // the stream ends, and `out` had room for all of it
    uint64_t consumed, produced;
  };
  verdict inflate(const_bytes stream, bytes out) {
    Bytef none;
    EXPECT_EQ(inflateReset(&z_), Z_OK);
    z_.next_in = stream.empty() ? &none : reinterpret_cast<Bytef*>(const_cast<std::byte*>(stream.data()));
    z_.avail_in = static_cast<uInt>(stream.size());
    z_.next_out = out.empty() ? &none : reinterpret_cast<Bytef*>(out.data());
    z_.avail_out = static_cast<uInt>(out.size());
    const bool accepted = ::inflate(&z_, Z_FINISH) == Z_STREAM_END;
    return {accepted, z_.total_in, z_.total_out};
  }

 private:
  z_stream z_{};
};

}  // namespace tuck::test
