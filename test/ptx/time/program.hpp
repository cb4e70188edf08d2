// A kernel as ptxas may have it: what vanishes, and in which order the rest stands.
#pragma once

#include "operation.hpp"

#include <string>
#include <vector>

namespace ptx::time {

struct program {
  kernel code;                        // in the model's order
  std::vector<uint32_t> original_pc;  // by the pc in that order
  std::vector<uint32_t> costless;     // instructions in each of the model's ranges
  std::vector<operation> operations;  // by the pc in that order
};

program make_program(const kernel& k, const machine& m, const std::vector<line_range>& costless);

// Marks operations that become a part of the one that uses their result, as free. block_of: each pc's basic block.
void fuse(const kernel& k, std::vector<operation>& operations, const std::vector<std::size_t>& block_of);

// The order of a basic block's instructions begin ... end - 1 by a list scheduler: of the next few that depend on none
// that is left, the one with the longest way to the block's end behind it.
std::vector<std::size_t> scheduled(const kernel& k, const std::vector<operation>& operations, std::size_t begin,
                                   std::size_t end);

}  // namespace ptx::time
