// What tuck-bench measures: coders of whole tensors in host memory, tuck's and its peers'.
#pragma once

#include <tuck/core/dtype.hpp>
#include <tuck/core/span.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tuck::bench {

// All memory that it needs is there once it is made: encode and decode are timed.
class coder {
 public:
  coder() = default;
  coder(const coder&) = delete;
  coder& operator=(const coder&) = delete;
  virtual ~coder() = default;

  // Encodes `raw` into memory of its own. Returns the bytes of the result, all that decoding needs included.
  // Throws std::runtime_error where it fails.
  virtual uint64_t encode(const_bytes raw) = 0;

  // Decodes what `encode` made last into `out`, which is as long as its `raw` was. Throws where it fails.
  virtual void decode(bytes out) = 0;
};

// What a coder is made for.
struct coder_request {
  dtype type;
  uint64_t raw_bytes;     // of each tensor to come: whole elements
  uint64_t chunk_bytes;   // what is coded on its own, where the coder has no chunks itself
  double tolerance;       // of lossy coders: the largest absolute error
  uint64_t columns = 64;  // values per row, for coders of two dimensions
};

// A library beside ours, as it was found when this was built.
struct peer {
  std::string name;     // "zlib-6"
  std::string library;  // "zlib 1.2.13", as the library itself says
  bool lossy;
  bool (*takes)(dtype);
  std::unique_ptr<coder> (*make)(const coder_request&);
  bool slow = false;  // for sizes only: tuck-bench leaves it out
};

// Those that this program was built with; maybe none.
std::span<const peer> host_peers();

}  // namespace tuck::bench
