// A program of some device units and this plain one, which has the same types as they.
#include <tuck/host.hpp>

#include <cstdio>
#include <vector>

using unit = tuck::result(tuck::span<const float>, const tuck::frame_options&, tuck::outcome&);
unit fast_unit, plain_unit, no_exceptions_unit, older_unit, several_unit;

int main() {
  const std::vector<float> values(4);
  for (unit* const each : {fast_unit, plain_unit, no_exceptions_unit, older_unit, several_unit}) {
    tuck::outcome written;
    if (const tuck::status s = each(values, {}, written).code; s != tuck::status::invalid_argument) {
      std::printf("%s instead of %s\n", message(s), message(tuck::status::invalid_argument));
      return 1;
    }
  }
}
