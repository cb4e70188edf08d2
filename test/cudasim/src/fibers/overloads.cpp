// What has another signature, or is an inline function, in CUDA's own headers.
#include "../host.hpp"

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id) {
  return cudasim::detail::capture_status(stream, status, id);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, cudaGraphNode_t* error_node, char* log,
                                 std::size_t log_bytes) {
  if (error_node) *error_node = nullptr;
  if (log && log_bytes > 0) log[0] = '\0';
  return cudaGraphInstantiate(exec, graph);
}
