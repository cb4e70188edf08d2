// Errors of CUDA's as results.
#pragma once

#include <tuck/core/status.hpp>

#include <cuda_runtime.h>

namespace tuck::inline TUCK_ABI {

inline result from_cuda(cudaError_t error) noexcept {
  return error == cudaSuccess ? result{} : result{status::cuda_error, static_cast<int>(error)};
}

// What a result says, in a line without a full stop; of an error of CUDA's, what CUDA says.
inline const char* message(const result& r) noexcept {
  return r.code == status::cuda_error ? cudaGetErrorString(static_cast<cudaError_t>(r.cuda)) : message(r.code);
}

}  // namespace tuck::inline TUCK_ABI
