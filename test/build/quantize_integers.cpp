// Quantizing is of floating-point values.
#include <tuck/host.hpp>

int main() {
  std::vector<int> values(10);
  std::vector<std::byte> frame(1000);
  (void)tuck::host::encode(tuck::quantize<int>(tuck::error_bound::absolute(1)), values, frame);
}
