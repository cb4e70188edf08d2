/* libtuck_pages.so encodes and decodes pages of a KV cache in batches on a stream, for serving engines. The README in
 * this folder describes how it could be used behind the interfaces of engines.
 *
 * A hot page is page_values values in a pool of the engine. A cold page is a frame in a slot of another pool. Both
 * pools are arrays with a fixed stride, in memory that the device can use. A call takes pairs {dst, src} of indices:
 * encode reads hot page src and writes slot dst, decode reads slot src and writes hot page dst. With a stride of 16
 * bytes, the index of a slot is an offset in units of 16 bytes. So slots may also be extents of any size.
 *
 * Each call enqueues its work on `stream` (a cudaStream_t, as a void*) and returns. It does not allocate, wait or
 * throw, and CUDA graphs can capture it. The device writes the sizes and statuses of the pages to `results`. A call
 * returns 0, or a tuck::status if it could not enqueue the work; tuck_pages_message explains it. The current device is
 * used.
 *
 * The library writes only the given memory. A frame whose header, directory or structure is damaged is reported in its
 * result, and values of its page that cannot be restored are set to zero. Without `checksums`, damage of the payload
 * that leaves a valid frame is not noticed. */
#ifndef TUCK_PAGES_H
#define TUCK_PAGES_H

#include <stdint.h>

#if defined(__cplusplus)
#define TUCK_PAGES_NOEXCEPT noexcept
extern "C" {
#else
#define TUCK_PAGES_NOEXCEPT
#endif

#define TUCK_PAGES_EXPORT __attribute__((visibility("default")))

/* Element types, with the numbers of tuck::dtype. Pages of 8-bit floats are stored without loss, or not at all. */
enum { TUCK_PAGES_F16 = 9, TUCK_PAGES_BF16 = 10, TUCK_PAGES_F8E4M3 = 13, TUCK_PAGES_F8E5M2 = 14 };

/* What a page may lose if it does not fit its slot without loss. The bound holds for each value. It is absolute,
 * relative to the range of the page's values, or relative to the value. */
enum { TUCK_PAGES_NO_LOSS = 0, TUCK_PAGES_ABSOLUTE = 1, TUCK_PAGES_OF_RANGE = 2, TUCK_PAGES_POINTWISE = 3 };

/* How a page was stored. */
enum { TUCK_PAGES_RAW = 0, TUCK_PAGES_LOSSLESS = 1, TUCK_PAGES_BOUNDED = 2 };

/* What a call returns if the configuration has a bound and 8-bit floats. */
enum { TUCK_PAGES_NO_BOUNDS = 30 };

/* Statuses of a page's result if nothing is damaged. Statuses from 32 on mean damage.
 *   NO_FIT      the page fits its slot neither without loss nor within the bound: the slot has no frame
 *   BAD_INDEX   dst or src is outside its pool, or the frame has fewer values than a page: nothing was written
 *   OTHER_TYPE  the frame has another element type: nothing was written */
enum { TUCK_PAGES_OK = 0, TUCK_PAGES_NO_FIT = 3, TUCK_PAGES_BAD_INDEX = 4, TUCK_PAGES_OTHER_TYPE = 16 };

typedef struct tuck_pages_config {
  int32_t type;          /* an element type */
  int32_t loss;          /* TUCK_PAGES_NO_LOSS, or the mode of the bound */
  double bound;          /* positive and finite, or 0 with TUCK_PAGES_NO_LOSS */
  uint64_t page_values;  /* values of a hot page: tokens x heads x head size */
  uint64_t page_stride;  /* bytes; a multiple of 4, at least the bytes of a page */
  uint64_t page_count;   /* pages of the pool */
  uint64_t slot_bytes;   /* the budget of a cold page; a multiple of 16 */
  uint64_t slot_stride;  /* bytes; a multiple of 16 */
  uint64_t slot_count;   /* slots of the pool */
  uint32_t chunk_values; /* values of a chunk; a multiple of 32, at most 8192; 0: 8192 */
  uint32_t most_pairs;   /* most pairs of a call */
  uint32_t checksums;    /* 1: frames have a checksum of each chunk, 8 bytes, which decoding verifies; else 0 */
} tuck_pages_config;

typedef struct tuck_page_pair {
  int32_t dst;
  int32_t src;
} tuck_page_pair;

typedef struct tuck_page_result {
  uint64_t bytes;  /* size of the frame, or what the last attempt needs if it does not fit; decode: of the values */
  double bound;    /* bound on the error of each value: 0 without loss; the factor of a pointwise bound */
  uint32_t status; /* TUCK_PAGES_OK, or the reason why there is no frame or page */
  uint32_t form;   /* TUCK_PAGES_LOSSLESS or TUCK_PAGES_BOUNDED if the status is TUCK_PAGES_OK */
} tuck_page_result;

/* Returns the text of a status. */
TUCK_PAGES_EXPORT const char* tuck_pages_message(int32_t status) TUCK_PAGES_NOEXCEPT;

/* Returns the bytes of a slot that every page fits without loss; 0 if the configuration is invalid. */
TUCK_PAGES_EXPORT uint64_t tuck_pages_worst_slot_bytes(const tuck_pages_config* config) TUCK_PAGES_NOEXCEPT;

/* Checks the configuration and writes the bytes of workspace that it needs. The workspace is device memory, aligned to
 * 256 bytes, and serves one call at a time. */
TUCK_PAGES_EXPORT int32_t tuck_pages_workspace_bytes(const tuck_pages_config* config,
                                                     uint64_t* bytes) TUCK_PAGES_NOEXCEPT;

/* Prepares a workspace. Call it before the first use, and after a call that returned cuda_error (9). */
TUCK_PAGES_EXPORT int32_t tuck_pages_initialize(const tuck_pages_config* config, void* workspace,
                                                uint64_t workspace_bytes, void* stream) TUCK_PAGES_NOEXCEPT;

/* Encode or decode pages. `pairs` and `results` have `count` entries in memory that the device can use. They are read
 * and written in the order of the stream. No two pairs of a call may have the same dst. Encoding may change all
 * slot_bytes bytes from the beginning of a slot, also behind its frame. */
TUCK_PAGES_EXPORT int32_t tuck_pages_encode(const tuck_pages_config* config, const tuck_page_pair* pairs,
                                            uint32_t count, const void* pages, void* slots, tuck_page_result* results,
                                            void* workspace, uint64_t workspace_bytes,
                                            void* stream) TUCK_PAGES_NOEXCEPT;
TUCK_PAGES_EXPORT int32_t tuck_pages_decode(const tuck_pages_config* config, const tuck_page_pair* pairs,
                                            uint32_t count, const void* slots, void* pages, tuck_page_result* results,
                                            void* workspace, uint64_t workspace_bytes,
                                            void* stream) TUCK_PAGES_NOEXCEPT;

#if defined(__cplusplus)
}
#endif

#endif
