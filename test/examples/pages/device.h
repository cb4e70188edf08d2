/* What tests of libtuck_pages.so in C and in Python have of CUDA, or of the simulator, and of the scalar codecs. */
#ifndef TUCK_TEST_PAGES_DEVICE_H
#define TUCK_TEST_PAGES_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* Zeroed, and never freed: a test is a process. NULL: there is none. */
void* pages_device_allocate(size_t bytes);
/* Waits for all before it, and for itself. 0, or CUDA's error. */
int pages_device_copy(void* to, const void* from, size_t bytes);
void* pages_device_stream(void);
int pages_device_wait(void* stream);
/* What the stream is given between these becomes a graph, which _replay runs and waits for. 0, or CUDA's error. */
int pages_device_capture(void* stream);
void* pages_device_captured(void* stream);
int pages_device_replay(void* graph, void* stream);
/* How many allocations, frees and synchronisations the simulator has counted; 0 on a GPU. */
uint64_t pages_device_waits(void);

/* The frame of bf16 values that the scalar codec writes: codebooks, or with a bound that is not 0 quantize with that
 * part of the range. Its bytes, or 0. */
uint64_t pages_host_frame(const void* values, uint64_t count, double bound, uint32_t chunk_values, void* frame,
                          uint64_t room);
/* The same of f8e4m3 values, by codebooks. */
uint64_t pages_host_frame_f8(const void* values, uint64_t count, uint32_t chunk_values, void* frame, uint64_t room);

#if defined(__cplusplus)
}
#endif

#endif
