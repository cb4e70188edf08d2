// ptx_load FILE...: does the engine know every instruction of these modules? For PTX that nobody runs here.
#include <ptx.hpp>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>

int main(int argc, char** argv) {
  std::size_t kernels = 0, instructions = 0;
  std::set<std::string> opcodes;
  for (int i = 1; i < argc; ++i) {
    std::ifstream in(argv[i]);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    try {
      for (const ptx::kernel* k : ptx::load(text)) {
        ++kernels;
        instructions += ptx::instructions(*k);
        for (const std::string& opcode : ptx::opcodes(*k)) opcodes.insert(opcode);
      }
    } catch (const ptx::error& e) {
      std::fprintf(stderr, "%s: %s\n", argv[i], e.what());
      return 1;
    }
  }
  std::printf("PTX: %zu kernels, %zu instructions of %zu forms, all known\n", kernels, instructions, opcodes.size());
  return kernels == 0;
}
