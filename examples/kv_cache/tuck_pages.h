/* libtuck_pages.so: pages of a KV cache, encoded and decoded in batches on a stream, for serving engines. The README
 * beside this file says how that would sit behind the interfaces that engines have.
 *
 * A hot page is page_values values in a pool of the engine's. A cold page is a frame of tuck's in a slot of another
 * pool. Both pools are arrays with a fixed stride, in memory that the device can use. A call takes pairs {dst, src} of
 * indices: encode reads hot page src and writes slot dst, decode reads slot src and writes hot page dst. A stride of 16
 * bytes makes the index of a slot an offset in units of 16 bytes. So slots may also be extents of any size.
 *
 * Each call enqueues its work on `stream` (a cudaStream_t, as a void*) and returns. It allocates nothing, waits for
 * nothing and throws nothing, and CUDA graphs can capture it. Sizes and statuses of the pages are written by the
 * device, into `results`. What a call returns is 0, or why it has enqueued nothing useful: a tuck::status, which
 * tuck_pages_message explains. The device is the current one.
 *
 * The library writes nothing but what it is told to. A damaged frame is reported in its result, and its page's values
 * that cannot be restored are set to zero. */
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

/* Element types: tuck::dtype's numbers. */
enum { TUCK_PAGES_F16 = 9, TUCK_PAGES_BF16 = 10 };

/* What a page may lose where it does not fit its slot without loss. The bound holds for each value: absolute, relative
 * to the range of the page's values, or relative to the value. */
enum { TUCK_PAGES_NO_LOSS = 0, TUCK_PAGES_ABSOLUTE = 1, TUCK_PAGES_OF_RANGE = 2, TUCK_PAGES_POINTWISE = 3 };

/* How a page was stored. */
enum { TUCK_PAGES_RAW = 0, TUCK_PAGES_LOSSLESS = 1, TUCK_PAGES_BOUNDED = 2 };

/* The statuses that a page's result has where nothing is damaged; 32 and more mean damage. */
enum {
  TUCK_PAGES_OK = 0,
  TUCK_PAGES_NO_FIT = 3,   /* the page fits its slot neither without loss nor within the bound; the slot has no frame */
  TUCK_PAGES_BAD_INDEX = 4 /* dst or src lies outside its pool; nothing was written */
};

typedef struct tuck_pages_config {
  int32_t type;          /* TUCK_PAGES_BF16 or TUCK_PAGES_F16 */
  int32_t loss;          /* TUCK_PAGES_NO_LOSS, or the bound's mode */
  double bound;          /* positive and finite, unless there is no loss */
  uint64_t page_values;  /* of a hot page: tokens x heads x head size */
  uint64_t page_stride;  /* bytes; a multiple of 4 */
  uint64_t page_count;   /* of the pool */
  uint64_t slot_bytes;   /* the budget of a cold page; a multiple of 16 */
  uint64_t slot_stride;  /* bytes; a multiple of 16 */
  uint64_t slot_count;   /* of the pool */
  uint32_t chunk_values; /* that decode alone; a multiple of 32, at most 8192; 0: 8192 */
  uint32_t most_pairs;   /* of a call */
} tuck_pages_config;

typedef struct tuck_page_pair {
  int32_t dst;
  int32_t src;
} tuck_page_pair;

typedef struct tuck_page_result {
  uint64_t bytes;  /* of the frame; where it does not fit, what the last attempt needs; of decode, the values' */
  double bound;    /* what no value's error exceeds: 0 without loss, and of pointwise bounds the factor */
  uint32_t status; /* TUCK_PAGES_OK, or why there is no frame or page */
  uint32_t form;   /* TUCK_PAGES_LOSSLESS or TUCK_PAGES_BOUNDED where the status is ok */
} tuck_page_result;

TUCK_PAGES_EXPORT const char* tuck_pages_message(int32_t status) TUCK_PAGES_NOEXCEPT;

/* Bytes of a slot that any page fits without loss, whatever its values. 0: the configuration is impossible. */
TUCK_PAGES_EXPORT uint64_t tuck_pages_worst_slot_bytes(const tuck_pages_config* config) TUCK_PAGES_NOEXCEPT;

/* Says what is wrong with the configuration, or how large a workspace it needs: memory of the device's that begins at a
 * multiple of 256 bytes and serves one call at a time. */
TUCK_PAGES_EXPORT int32_t tuck_pages_workspace_bytes(const tuck_pages_config* config,
                                                     uint64_t* bytes) TUCK_PAGES_NOEXCEPT;

/* Prepares a workspace for its first use, and after a call that returned TUCK's cuda_error (9). */
TUCK_PAGES_EXPORT int32_t tuck_pages_initialize(const tuck_pages_config* config, void* workspace,
                                                uint64_t workspace_bytes, void* stream) TUCK_PAGES_NOEXCEPT;

/* `pairs` and `results` have `count` entries in memory that the device can use, and are read and written when the
 * stream gets there. No two pairs of a call have the same dst. */
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
