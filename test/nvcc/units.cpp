// A program of three device units and this plain one.
#include <tuck/host.hpp>

#include <cstdio>

tuck::status fast_unit();
tuck::status plain_unit();
tuck::status no_exceptions_unit();

int main() {
  for (const auto unit : {fast_unit, plain_unit, no_exceptions_unit})
    if (const tuck::status s = unit(); s != tuck::status::invalid_argument) {
      std::printf("%s instead of %s\n", message(s), message(tuck::status::invalid_argument));
      return 1;
    }
}
