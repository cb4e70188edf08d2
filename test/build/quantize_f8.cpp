// quantize needs a floating-point type of more than 8 bits.
#include <tuck/host.hpp>

int main() {
  std::vector<tuck::f8e4m3> values(10);
  std::vector<std::byte> frame(1000);
  (void)tuck::host::encode(tuck::quantize<tuck::f8e4m3>(tuck::error_bound::absolute(1)), values, frame);
}
