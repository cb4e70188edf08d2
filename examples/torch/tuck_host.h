/* What libtuck_host.so has for Python's ctypes: frames of tensors in CPU memory, and the models that decide about them.
 * Plain C++ behind it; nothing of CUDA is needed.
 *
 * Any thread may call any of these at any time, but one object - an advisor, a bound - is one thread's at a time. Calls
 * that return an int return 0, or a tuck::status, and then have changed nothing; tuck_host_message says which. */
#ifndef TUCK_HOST_H
#define TUCK_HOST_H

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

#define TUCK_EXPORT __attribute__((visibility("default")))

/* Element types: tuck::dtype's numbers, as frames have them. A number that no type or mode has is refused, however
 * large it is: a type as one that the codec is not for, 17, or as another than the frame's, 16; a lossy codec's mode
 * by 1. */

/* The codecs, as their stages are named, ended by NULL. The lossy ones take a bound and its mode, tuck::bound_mode's
 * number: 0 absolute, 1 of the range, 2 pointwise. The others do not look at them. A name that is not in the
 * list, or NULL, is refused by 17, and is not lossy. */
TUCK_EXPORT const char* const* tuck_host_codecs(void);
TUCK_EXPORT int tuck_host_is_lossy(const char* codec);

TUCK_EXPORT const char* tuck_host_message(int status);

/* So many bytes hold the frame of any `count` values; 0 where there is no such codec for the type, or the bound
 * is bad. */
TUCK_EXPORT uint64_t tuck_host_room(const char* codec, int mode, double bound, int dtype, uint64_t count);

/* `count` values to a frame in `room` bytes, of which *frame_bytes are used; on up to `threads` threads. */
TUCK_EXPORT int tuck_host_encode(const char* codec, int mode, double bound, int dtype, const void* values,
                                 uint64_t count, void* frame, uint64_t room, unsigned threads, uint64_t* frame_bytes);

/* A frame back to exactly `count` values, whichever of the codecs wrote it. */
TUCK_EXPORT int tuck_host_decode(const void* frame, uint64_t frame_bytes, int dtype, void* values, uint64_t count,
                                 unsigned threads);

/* The same on a thread of the library's own, in the order of the calls, which is woken for 512 KiB of values. What has
 * not begun when it is waited for is done by who waits. Values and frames that are given have to stay until
 * tuck_job_free, which waits, too, or takes back what has not begun. A child of fork() may wait for its parent's jobs
 * and free them, and begins anew what was not done. NULL: as tuck_host_room's 0, or there is no memory. */
typedef struct tuck_job tuck_job;
TUCK_EXPORT tuck_job* tuck_job_encode(const char* codec, int mode, double bound, int dtype, const void* values,
                                      uint64_t count);
TUCK_EXPORT tuck_job* tuck_job_decode(const void* frame, uint64_t frame_bytes, int dtype, void* values, uint64_t count);
/* Its status, once it is done: the frame's size, and how long it took. */
TUCK_EXPORT int tuck_job_wait(tuck_job*, uint64_t* frame_bytes, double* seconds);
TUCK_EXPORT int tuck_job_is_done(tuck_job*);
/* The frame of one that has been waited for, to as many bytes. */
TUCK_EXPORT void tuck_job_copy(const tuck_job*, void* frame);
TUCK_EXPORT void tuck_job_free(tuck_job*);

/* The same of a delta: `count` values of 2 or 4 bytes against `base`, which has as many. By "steps", for floats,
 * "gaps", for few changes, or "zvc+rle+huffman". */
TUCK_EXPORT uint64_t tuck_host_delta_room(const char* codec, int dtype, uint64_t count);
TUCK_EXPORT int tuck_host_encode_delta(const char* codec, int dtype, const void* values, const void* base,
                                       uint64_t count, void* frame, uint64_t room, unsigned threads,
                                       uint64_t* frame_bytes);

/* Verifies the delta and the base; then `values`, which may be the base, are restored. */
TUCK_EXPORT int tuck_host_decode_delta(const void* frame, uint64_t frame_bytes, int dtype, const void* base,
                                       void* values, uint64_t count, unsigned threads);

/* What frames call a digest: of a base, for instance. It finds accidents, not forgers. */
TUCK_EXPORT uint64_t tuck_host_digest(const void* data, uint64_t bytes);

/* tuck::advisor over lossless codecs, numbered from 0, and a link of so many bytes a second each way. Tensors are
 * numbered from 0, too. Decisions are a codec's number, or -1: as it is, also for a number that no tensor
 * has. Measurements of these, or of codecs that there are not, are dropped. NULL: a rate is not from 1e6 to 1e15, or
 * there is no memory. */
typedef struct tuck_advisor tuck_advisor;
TUCK_EXPORT tuck_advisor* tuck_advisor_new(double d2h, double h2d, unsigned codecs);
TUCK_EXPORT void tuck_advisor_free(tuck_advisor*);
TUCK_EXPORT int64_t tuck_advisor_add(tuck_advisor*, uint64_t bytes, double hidden_out, double hidden_in);
TUCK_EXPORT int64_t tuck_advisor_decide(tuck_advisor*, uint64_t tensor, double sparsity);
TUCK_EXPORT void tuck_advisor_measured(tuck_advisor*, uint64_t tensor, uint64_t codec, double sparsity, double encode,
                                       double decode, double ratio);

/* tuck::bound_controller, of one layer; an option that is 0 is the default. NULL: an option is negative or not
 * finite, or there is no memory. */
typedef struct tuck_bound tuck_bound;
TUCK_EXPORT tuck_bound* tuck_bound_new(double a, double share, uint64_t refresh, double first, double lowest,
                                       double highest);
TUCK_EXPORT void tuck_bound_free(tuck_bound*);
TUCK_EXPORT double tuck_bound_now(const tuck_bound*);
TUCK_EXPORT int tuck_bound_wants(const tuck_bound*, uint64_t iteration);
TUCK_EXPORT void tuck_bound_update(tuck_bound*, uint64_t iteration, double mean_gradient, double batch, double nonzero,
                                   double mean_momentum);

#if defined(__cplusplus)
}
#endif

#endif
