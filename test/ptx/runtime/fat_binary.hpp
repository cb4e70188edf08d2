// What nvcc puts into a program: a fat binary of each source file, with PTX in it.
#pragma once

#include <string_view>

namespace cudaptx {

struct image {
  std::string_view text;  // empty where there is none
  std::string_view problem;
  int target = 0;  // 75 for sm_75
};

// Of several the one for the newest architecture, or the newest up to CUDASIM_TARGET in the environment (80: the GPU is
// of sm_80). `wrapper` is what __cudaRegisterFatBinary gets.
image find_ptx(const void* wrapper);

// The image of a module's text, which must live as long as the image.
image ptx_text(std::string_view text);

}  // namespace cudaptx
