// The codecs that the generic tests are instantiated for: a new codec is one more line here.
#pragma once

#include <tuck/host.hpp>

#include <gtest/gtest.h>

namespace tuck::test {

using all_codecs = ::testing::Types<zvc<uint8_t>, zvc<f16>, zvc<float>, zvc<double>, rle<uint8_t>, rle<f16>, rle<float>,
                                    rle<double>, rle_zero<float>, rle_zero<uint8_t>>;

struct codec_names {
  template <class C> static std::string GetName(int) {
    return std::string(name(C{}.stages().at[0].id)) + "_" + name(dtype_of<value_t<C>>);
  }
};

}  // namespace tuck::test
