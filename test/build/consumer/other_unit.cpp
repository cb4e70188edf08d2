// A second translation unit, so that what the headers define must be inline.
#include <tuck/host.hpp>

tuck::outcome decode_elsewhere(tuck::const_bytes frame, tuck::span<float> values) {
  return tuck::host::decode(tuck::zvc<float>{}, frame, values);
}
