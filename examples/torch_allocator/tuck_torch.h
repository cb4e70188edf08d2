/* What libtuck_torch.so has for PyTorch, or for any program that loads it: an allocator, and tensors that are parked in
 * pinned host memory, compressed, and brought back.
 *
 *   memory = torch.cuda.memory.CUDAPluggableAllocator("libtuck_torch.so", "tuck_alloc", "tuck_free")
 *   torch.cuda.memory.change_current_allocator(memory)
 *
 * An allocator sees bytes behind a pointer that its user keeps, and cannot move them. So nothing is parked behind
 * anyone's back: a program - in autograd's saved_tensors_hooks, say - parks a tensor, lets go of it, and later restores
 * it into another.
 *
 * Any thread may call any of these at any time; only the order of streams is waited for, but where it is said. Calls
 * that return an int return TUCK_OK, or what was wrong, and then have changed nothing; only TUCK_KEPT of tuck_park is
 * more than that.
 *
 * Streams are of the device that the memory is on. The default stream (0), which is where PyTorch works unless told
 * otherwise, is one of them.
 *
 * The pinned memory of a device is reserved when a tensor of it is first parked: TUCK_PINNED_BYTES bytes, a decimal
 * number from the environment as it is then, or 1 GiB. */
#ifndef TUCK_TORCH_H
#define TUCK_TORCH_H

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

#define TUCK_EXPORT __attribute__((visibility("default")))

typedef struct CUstream_st* cudaStream_t; /* as CUDA has it */

enum tuck_code {
  TUCK_OK = 0,
  TUCK_KEPT = 1, /* by tuck_park: the pinned memory is full, and the tensor was kept where it is */
  TUCK_BAD_ARGUMENT = 2,
  TUCK_BAD_DEVICE = 3,
  TUCK_BAD_ENVIRONMENT = 4, /* TUCK_PINNED_BYTES is no positive number */
  TUCK_NO_SUCH_ID = 5,
  TUCK_WRONG_SIZE = 6,
  TUCK_OUT_OF_MEMORY = 7,
  TUCK_CUDA_ERROR = 8,
  TUCK_DAMAGED = 9 /* what was parked is not what it was: memory has failed */
};

/* What a tensor's values are; those of any other type are bytes. Floats are taken for sparse: their zeros are not
 * stored. All else is copied as it is. Bit for bit, either way. */
enum tuck_dtype { TUCK_BYTES = 0, TUCK_F16 = 1, TUCK_BF16 = 2, TUCK_F32 = 3, TUCK_F64 = 4 };

/* cudaMallocAsync and cudaFreeAsync. NULL: size is 0, or there was an error; PyTorch does
 * not look. Memory may be freed on another stream than it was allocated on, once that one has come behind it. */
TUCK_EXPORT void* tuck_alloc(size_t size, int device, cudaStream_t stream);
TUCK_EXPORT void tuck_free(void* p, size_t size, int device, cudaStream_t stream);

/* Parks `bytes` bytes at `values`, in the memory of `device`, as `stream` has them by then; *id, which is never 0, is
 * theirs until tuck_drop. What is given to `stream` afterwards may overwrite them or free their memory, at once.
 *
 * The memory must have so many bytes, which is not checked; the same holds for tuck_restore.
 *
 * TUCK_KEPT: it may not. There was no room, the id stands for the memory at `values`, and that must stay as it is until
 * tuck_drop; the other functions work as if it had been parked. */
TUCK_EXPORT int tuck_park(const void* values, size_t bytes, int dtype, int device, cudaStream_t stream, uint64_t* id);

/* The same, by a codec: "raw" as it is, "zvc" bit for bit, "quantize" to within `bound`, whose mode is
 * tuck::bound_mode's number: 0 absolute, 1 of the range, 2 pointwise. Only quantize looks at them; zvc takes floats,
 * and quantize those but f64. TUCK_BAD_ARGUMENT: there is no such codec for the type, or the bound is bad. */
TUCK_EXPORT int tuck_park_as(const void* values, size_t bytes, int dtype, const char* codec, int mode, double bound,
                             int device, cudaStream_t stream, uint64_t* id);

/* Of pinned memory, that a tensor takes; 0 while it is not known, or it was kept: waits for nothing. */
TUCK_EXPORT int tuck_stored_bytes(uint64_t id, uint64_t* bytes);

/* Writes the values to `destination`, in memory of the same device, in the order of `stream`. As often as one likes. */
TUCK_EXPORT int tuck_restore(uint64_t id, void* destination, size_t bytes, cudaStream_t stream);

/* Begins to bring the tensor back to the device, still compressed, so that tuck_restore need not wait for the link. */
TUCK_EXPORT int tuck_prefetch(uint64_t id);

/* Gives the tensor up. Restores that have been asked for are carried out all the same - but of a tensor that was kept,
 * its memory must stay until they are. */
TUCK_EXPORT int tuck_drop(uint64_t id);

/* Waits until all that was asked for has been done. TUCK_DAMAGED, TUCK_CUDA_ERROR: some of it has failed since the last
 * time. */
TUCK_EXPORT int tuck_wait(int device);

/* Of pinned memory, that tensors of `device` take, as far as their sizes are known yet: tuck_wait makes them known. */
TUCK_EXPORT uint64_t tuck_host_bytes(int device);

/* Function, argument and reason of the calling thread's last error, "" before there was one. Valid until its next. */
TUCK_EXPORT const char* tuck_last_error(void);

#if defined(__cplusplus)
}
#endif

#endif
