// SPDX-License-Identifier: Apache-2.0
// Names calls on a stream in the timeline of a profiler, if <nvtx3/nvToolsExt.h> or <nvtx3/nvtx3.hpp> was included
// before tuck: each call is a range of the domain "tuck", such as "encode zvc+huffman f32". Without NVTX nothing is
// compiled.
#pragma once

#include <tuck/codec/concept.hpp>

namespace tuck::inline TUCK_ABI::detail {

#if defined(TUCK_NVTX)

inline nvtxDomainHandle_t profiler_domain() noexcept {
  static const nvtxDomainHandle_t domain = nvtxDomainCreateA("tuck");
  return domain;
}

inline namespace TUCK_ARCH {

// The range of a call, from here to the end of the scope.
class profiler_range {
 public:
  explicit profiler_range(const char* call, const stage_list& stages = stage_list(),
                          dtype type = dtype::none) noexcept {
    append(call);
    const char* separator = " ";
    for (const stage& s : stages.at)
      if (s.id != codec_id::none) {
        append(separator);
        append(tuck::name(s.id));
        separator = "+";
      }
    if (type != dtype::none) {
      append(" ");
      append(tuck::name(type));
    }
    *end_ = '\0';
    nvtxEventAttributes_t range{};
    range.version = NVTX_VERSION;
    range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    range.messageType = NVTX_MESSAGE_TYPE_ASCII;
    range.message.ascii = text_;
    nvtxDomainRangePushEx(profiler_domain(), &range);
  }
  profiler_range(const profiler_range&) = delete;
  profiler_range& operator=(const profiler_range&) = delete;
  ~profiler_range() { nvtxDomainRangePop(profiler_domain()); }

 private:
  void append(const char* part) noexcept {
    while (*part != '\0' && end_ != text_ + sizeof text_ - 1) *end_++ = *part++;
  }

  char text_[96];
  char* end_ = text_;
};

}  // namespace TUCK_ARCH

#else

struct profiler_range {
  // Not constexpr: nvcc would call the ranges unused.
  explicit profiler_range(const char*, const stage_list& = stage_list(), dtype = dtype::none) noexcept {}
};

#endif

}  // namespace tuck::inline TUCK_ABI::detail
