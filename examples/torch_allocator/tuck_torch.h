/* The functions of libtuck_torch.so, for PyTorch or any program that loads it: an allocator, and calls that offload
 * tensors to pinned host memory, compressed, and restore them.
 *
 *   memory = torch.cuda.memory.CUDAPluggableAllocator("libtuck_torch.so", "tuck_alloc", "tuck_free")
 *   torch.cuda.memory.change_current_allocator(memory)
 *
 * The allocator does not offload anything by itself: it cannot move memory to which its user keeps a pointer. The
 * program offloads a tensor, for example in autograd's saved_tensors_hooks, releases it, and later restores it into
 * another tensor.
 *
 * All functions are thread-safe. They do not wait for the device unless their comment says so: only streams wait.
 * Functions that return an int return TUCK_OK or an error. After an error nothing has changed. The exception is
 * TUCK_KEPT, which tuck_offload and tuck_offload_as may return.
 *
 * A stream belongs to the device of the memory. The default stream (0), which PyTorch uses unless told otherwise, is
 * accepted.
 *
 * The pinned memory of a device is allocated when the first tensor is offloaded from it. Its size in bytes is the
 * decimal number in the environment variable TUCK_PINNED_BYTES at that time, or 1 GiB. */
#ifndef TUCK_TORCH_H
#define TUCK_TORCH_H

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

#define TUCK_EXPORT __attribute__((visibility("default")))

typedef struct CUstream_st* cudaStream_t; /* the type of CUDA's headers */

enum tuck_code {
  TUCK_OK = 0,
  TUCK_KEPT = 1, /* from tuck_offload: the pinned memory is full, and the tensor was kept where it is */
  TUCK_BAD_ARGUMENT = 2,
  TUCK_BAD_DEVICE = 3,
  TUCK_BAD_ENVIRONMENT = 4, /* TUCK_PINNED_BYTES is not a positive number */
  TUCK_NO_SUCH_ID = 5,
  TUCK_WRONG_SIZE = 6,
  TUCK_OUT_OF_MEMORY = 7,
  TUCK_CUDA_ERROR = 8,
  TUCK_DAMAGED = 9 /* an offloaded tensor was damaged in memory */
};

/* The type of a tensor's values; TUCK_BYTES for any other type. tuck_offload assumes that floats are sparse and does
 * not store their zeros. It copies other types unchanged. Both are lossless. */
enum tuck_dtype { TUCK_BYTES = 0, TUCK_F16 = 1, TUCK_BF16 = 2, TUCK_F32 = 3, TUCK_F64 = 4 };

/* Call cudaMallocAsync and cudaFreeAsync. tuck_alloc returns NULL if size is 0 or after an error. PyTorch does not
 * check for NULL. Memory may be freed on another stream than that of its allocation, if that stream has waited for the
 * allocation. */
TUCK_EXPORT void* tuck_alloc(size_t size, int device, cudaStream_t stream);
TUCK_EXPORT void tuck_free(void* p, size_t size, int device, cudaStream_t stream);

/* Offloads `bytes` bytes at `values`, in memory of `device`, after all work submitted to `stream`. Sets *id, which is
 * never 0 and is valid until tuck_drop. Later work on `stream` may overwrite the values or free their memory.
 *
 * The memory must have at least `bytes` bytes. This is not checked, here or in tuck_restore.
 *
 * `values` must be aligned to the size of a value, or TUCK_BAD_ARGUMENT is returned. If it is aligned to less than 4
 * bytes, the values are stored unchanged, whatever the codec. tuck_restore needs the alignment of a value, too.
 *
 * TUCK_KEPT: there was no space. The id then stands for the memory at `values`, which must not be changed or freed
 * until tuck_drop. The other functions work as if the tensor had been offloaded. */
TUCK_EXPORT int tuck_offload(const void* values, size_t bytes, int dtype, int device, cudaStream_t stream,
                             uint64_t* id);

/* The same with a codec. "raw": unchanged. "zvc", "rle": lossless, for floats. "zvc+rle+huffman": lossless, for floats
 * except f64. "quantize", "quantize+delta+zvc+huffman": within `bound`, for floats except f64. `mode` is the number of
 * the bound's tuck::bound_mode: 0 absolute, 1 relative to the range, 2 pointwise. The other codecs ignore mode and
 * bound. TUCK_BAD_ARGUMENT: there is no such codec, or not for the type, or the bound is invalid. */
TUCK_EXPORT int tuck_offload_as(const void* values, size_t bytes, int dtype, const char* codec, int mode, double bound,
                                int device, cudaStream_t stream, uint64_t* id);

/* Sets *bytes to the pinned memory that a tensor occupies: 0 until that is known, or if the tensor was kept. */
TUCK_EXPORT int tuck_stored_bytes(uint64_t id, uint64_t* bytes);

/* Writes the values to `destination`, in memory of the same device, in stream order on `stream`. May be called any
 * number of times. */
TUCK_EXPORT int tuck_restore(uint64_t id, void* destination, size_t bytes, cudaStream_t stream);

/* Starts to copy the tensor back to the device, still compressed, so that tuck_restore does not wait for the link. */
TUCK_EXPORT int tuck_prefetch(uint64_t id);

/* Discards the tensor. Restores that were requested before are still completed. If the tensor was kept, its memory must
 * stay until they are completed. */
TUCK_EXPORT int tuck_drop(uint64_t id);

/* Waits until all requested work has been done. TUCK_DAMAGED, TUCK_CUDA_ERROR: some of it has failed since the last
 * call. */
TUCK_EXPORT int tuck_wait(int device);

/* Returns the pinned memory in bytes that tensors of `device` occupy, as far as their sizes are known. After tuck_wait
 * all are known. */
TUCK_EXPORT uint64_t tuck_host_bytes(int device);

/* Returns function, argument and reason of the calling thread's last error; "" if there was none. Valid until the next
 * error of the thread. */
TUCK_EXPORT const char* tuck_last_error(void);

#if defined(__cplusplus)
}
#endif

#endif
