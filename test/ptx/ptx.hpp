// The PTX engine: executes what nvcc emits, on the CPU. This header is all that tests, benchmarks and the CUDA runtime
// of this folder see of it. It has no notion of streams or CUDA calls: test/cudasim has those.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ptx {

// What is wrong with a module, or what a kernel did wrong. `what()` is a report of several lines: the kind, the kernel,
// block, warp and lanes, the PTX line with its text, and the source line where the module was compiled with -lineinfo.
struct error : std::runtime_error {
  error(std::string fault, const std::string& report) : std::runtime_error(report), kind(std::move(fault)) {}
  // "out of bounds", "misaligned", "uninitialised", "race", "divergent barrier", "divergent sync", "trap", "assert",
  // "no progress", "deadlock", "unknown instruction", "invalid module"; "pending copy": an access, before the wait, to
  // what an asynchronous copy writes or reads; "unfinished copy": no wait before the end; "mbarrier": its rules
  std::string kind;
};

// --- Modules ------------------------------------------------------------------------------------------------------

struct parameter {
  uint32_t offset, bytes;
};

class kernel;

// Parses a module and keeps its kernels until the program ends. Throws ptx::error, kind "unknown instruction" or
// "invalid module", for anything that the engine does not execute exactly as the PTX ISA says. Thread-safe.
std::vector<const kernel*> load(std::string_view text);

const std::string& name(const kernel& k);  // as in the module: mangled
std::span<const parameter> parameters(const kernel& k);
uint32_t parameter_bytes(const kernel& k);
uint32_t static_shared_bytes(const kernel& k);
uint32_t local_bytes(const kernel& k);  // of a thread
int max_threads(const kernel& k);       // .maxntid, or 1024
int target(const kernel& k);            // 75 for sm_75

// --- Memory -------------------------------------------------------------------------------------------------------

// What kernels may touch. Device memory starts uninitialised, other memory is initialised. Thread-safe.
enum class memory_kind : unsigned char { device, host };
void add_memory(const void* p, std::size_t bytes, memory_kind kind);
void remove_memory(const void* p);
// The host or a copy has written these bytes; a copy between device memories carries over what is uninitialised.
void mark_written(const void* p, std::size_t bytes);
void mark_copied(const void* to, const void* from, std::size_t bytes);

// --- Running ------------------------------------------------------------------------------------------------------

struct settings {
  bool check = true;  // uninitialised reads, and races in shared memory between barriers; bounds are always checked
  // Source files, without directories, that read shared memory which nobody has written, and do not use what they read.
  std::vector<std::string> may_read_unwritten;
  bool weak = true;       // stores are delayed, and loads that acquire nothing may see old values
  bool shuffle = true;    // the seed decides which of a warp's diverged lanes go first; else the lowest address does
  bool traffic = false;   // counts sectors and wavefronts
  unsigned resident = 0;  // blocks of a launch that run side by side; 0: the seed decides, from 1 to 4
  uint64_t no_progress =
      200'000'000;  // so many instructions in a launch without a store, a change by an atomic or an exit are a hang
};
// Of launches that start later. Thread-safe.
void configure(const settings& s);
settings current_settings();

struct extent {
  uint32_t x = 1, y = 1, z = 1;
};

// Bytes that count as "tensor" in totals; everything else is "other".
struct range {
  uint64_t begin, end;
};

struct launch {
  const kernel* code = nullptr;
  extent grid, block;
  uint32_t dynamic_shared = 0;
  std::vector<std::byte> arguments;  // parameter_bytes(*code) of them, each at its parameter's offset
  uint64_t seed = 1;
  uint8_t poison = 0xcd;  // fills shared memory, registers and local memory
  std::span<const range> tensors = {};
};

struct counters;
// Runs all blocks on the calling thread; several launches may run at once on several threads. Returns what was counted.
// Throws ptx::error for what the kernel did wrong; memory is then as it was at that moment.
counters run(const launch& l);

// --- Counts -------------------------------------------------------------------------------------------------------

struct counters {
  // Warp instructions that were issued: one that a predicate turns off for all lanes counts.
  uint64_t instructions = 0;
  uint64_t lanes = 0;                                      // that were active, over all warp instructions
  uint64_t atomics = 0, shared_atomics = 0, barriers = 0;  // by threads
  uint64_t polls = 0;                                      // by threads: relaxed, volatile and acquiring loads
  // With settings::traffic:
  uint64_t load_sectors = 0, store_sectors = 0;          // of 32 bytes, of global memory
  uint64_t shared_wavefronts = 0, least_wavefronts = 0;  // by warps; the least: without conflicts
  uint64_t tensor_bytes_read = 0, tensor_bytes_written = 0, other_bytes_read = 0, other_bytes_written = 0;
  uint64_t tensor_sectors_read = 0, tensor_sectors_written = 0, other_sectors_read = 0, other_sectors_written = 0;

  counters& operator+=(const counters& c);
};

struct line_counts {
  std::string file;  // empty where the module has no -lineinfo
  int line = 0;
  counters all;
};

struct kernel_counts {
  std::string name;  // demangled
  uint64_t launches = 0;
  counters all;
  std::vector<line_counts> lines;  // most instructions first
};

// Of all launches since clear_counts(), by kernel. Lines have all but the tensor and other bytes. Thread-safe.
std::vector<kernel_counts> counted();
void clear_counts();

}  // namespace ptx
