// ptx_load FILE...: does the engine know every instruction of these modules? For PTX that nobody runs here.
#include <ptx.hpp>

#include <cstdio>
#include <fstream>
#include <iterator>

int main(int argc, char** argv) {
  std::size_t kernels = 0;
  for (int i = 1; i < argc; ++i) {
    std::ifstream in(argv[i]);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    try {
      kernels += ptx::load(text).size();
    } catch (const ptx::error& e) {
      std::fprintf(stderr, "%s: %s\n", argv[i], e.what());
      return 1;
    }
  }
  std::printf("PTX: %zu kernels, all instructions known\n", kernels);
  return kernels == 0;
}
