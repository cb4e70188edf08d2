// SPDX-License-Identifier: Apache-2.0
// CUDA error codes as tuck results. Needs the headers of CUDA's runtime, but no nvcc.
#pragma once

#include <tuck/core/status.hpp>

#include <cuda_runtime.h>

namespace tuck::inline TUCK_ABI {

/// Converts a CUDA error code: cudaSuccess becomes ok, any other code status::cuda_error with that code.
inline result from_cuda(cudaError_t error) noexcept {
  return error == cudaSuccess ? result{} : result{status::cuda_error, static_cast<int>(error)};
}

/// Returns a one-line text without a full stop: for status::cuda_error the text of cudaGetErrorString, else that of the
/// status. The string is static and never null.
inline const char* message(const result& r) noexcept {
  return r.code == status::cuda_error ? cudaGetErrorString(static_cast<cudaError_t>(r.cuda)) : message(r.code);
}

}  // namespace tuck::inline TUCK_ABI
