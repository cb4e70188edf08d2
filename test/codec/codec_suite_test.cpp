// What every codec promises of one chunk on one thread, of those of the library.
#include "support/codec_suite.hpp"

namespace tuck::test {

INSTANTIATE_TYPED_TEST_SUITE_P(every, codec_suite, tested_codecs, codec_names);

}  // namespace tuck::test
