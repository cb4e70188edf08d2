// The peers of each library, in files of their own so that any of them may be left out, and what these files share.
#pragma once

#include "bench/micro/coder.hpp"

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace tuck::bench {

// Each is defined where CMake found its library: no others are called.
std::vector<peer> zlib_peers();
std::vector<peer> libdeflate_peers();
std::vector<peer> lz4_peers();
std::vector<peer> zstd_peers();
std::vector<peer> zfp_peers();

// What a C library makes and its `release` takes back.
template <auto release> struct releaser {
  template <class T> void operator()(T* made) const noexcept { release(made); }
};
template <class T, auto release> using handle = std::unique_ptr<T, releaser<release>>;

inline void require(bool holds, const char* library, const char* otherwise) {
  if (!holds) throw std::runtime_error(std::string(library) + ": " + otherwise);
}

}  // namespace tuck::bench
