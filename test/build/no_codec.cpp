// A type that lacks most of what a codec has.
#include <tuck/host.hpp>

struct almost {
  using value_type = float;
};

int main() {
  std::vector<float> values(10);
  std::vector<std::byte> frame(1000);
  (void)tuck::host::encode(almost{}, values, frame, {.checksums = true});
}
