// What the program does, between any source and any sink of bytes and in memory of a few batches.
#pragma once

#include "coder.hpp"

#include <functional>
#include <stdexcept>

namespace gpu_gzip {

// Fills the room, or as much of it as there are bytes left; how many.
using source = std::function<uint64_t(bytes room)>;
using sink = std::function<void(const_bytes data)>;

// What is wrong with the source's bytes.
struct bad_input : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr uint64_t default_batch = 1024;  // members, of up to 64 KiB

// Writes the source as a BGZF file. The bytes depend on neither the coder nor the batch.
void compress(const source& in, const sink& out, coder& by, uint64_t batch = default_batch);

// Writes what the members of a BGZF file give. Throws bad_input, which names the first member that is wrong, where the
// file is not whole and in order up to its last byte; the sink may have got what comes before.
void decompress(const source& in, const sink& out, coder& by, uint64_t batch = default_batch);

}  // namespace gpu_gzip
