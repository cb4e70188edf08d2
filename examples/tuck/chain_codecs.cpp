#include "codecs_of.hpp"

template struct tuck::tools::codecs_of<tuck::chain_codecs>;
