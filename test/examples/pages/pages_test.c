/* The C ABI of pages, in C: libtuck_pages.so is loaded while the program runs, and called by name. */
#include "device.h"

#include <kv_cache/tuck_pages.h>

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES = 2048, STRIDE = 2 * VALUES + 64, PAGES = 6, SLOT = 3584, SLOTS = 7, PAIRS = 6, CHUNK = 512 };

static int failures = 0;
#define EXPECT(condition)                                            \
  do {                                                               \
    if (!(condition)) {                                              \
      printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                    \
    }                                                                \
  } while (0)

/* The library. */
static const char* (*message)(int32_t);
static uint64_t (*worst_slot_bytes)(const tuck_pages_config*);
static int32_t (*workspace_bytes)(const tuck_pages_config*, uint64_t*);
static int32_t (*initialize)(const tuck_pages_config*, void*, uint64_t, void*);
static int32_t (*encode)(const tuck_pages_config*, const tuck_page_pair*, uint32_t, const void*, void*,
                         tuck_page_result*, void*, uint64_t, void*);
static int32_t (*decode)(const tuck_pages_config*, const tuck_page_pair*, uint32_t, const void*, void*,
                         tuck_page_result*, void*, uint64_t, void*);

static void find(void* library, const char* name, void* function) {
  void* const found = dlsym(library, name);
  if (found == NULL) {
    printf("%s\n", dlerror());
    exit(1);
  }
  memcpy(function, &found, sizeof found);
}

static void load(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    printf("%s\n", dlerror());
    exit(1);
  }
  find(library, "tuck_pages_message", &message);
  find(library, "tuck_pages_worst_slot_bytes", &worst_slot_bytes);
  find(library, "tuck_pages_workspace_bytes", &workspace_bytes);
  find(library, "tuck_pages_initialize", &initialize);
  find(library, "tuck_pages_encode", &encode);
  find(library, "tuck_pages_decode", &decode);
}

/* Device memory and its copies here. */
static unsigned char pages[PAGES * STRIDE], slots[SLOTS * SLOT];
static tuck_page_result results[PAIRS];
static void *d_pages, *d_slots, *d_results, *d_pairs, *d_workspace, *stream;
static uint64_t space;

static uint16_t value_of(const unsigned char* page, int i) {
  uint16_t x;
  memcpy(&x, page + 2 * i, 2);
  return x;
}
static double number(uint16_t bf16) {
  const uint32_t bits = (uint32_t)bf16 << 16;
  float x;
  memcpy(&x, &bits, 4);
  return x;
}

/* About normal numbers; the last page is of NaNs and of any bits, which nothing makes much smaller. */
static void make_pages(void) {
  uint32_t state = 1;
  int p, i, k;
  for (p = 0; p < PAGES; ++p)
    for (i = 0; i < VALUES; ++i) {
      float sum = 0;
      uint32_t bits;
      uint16_t x;
      for (k = 0; k < 6; ++k) {
        state = state * 1664525u + 1013904223u;
        sum += (float)(state >> 8) / 16777216.f - .5f;
      }
      memcpy(&bits, &sum, 4);
      x = p < PAGES - 1 ? (uint16_t)(bits >> 16) : (uint16_t)(state >> 16 | (i % 2 == 0 ? 0x7f81 : 0));
      memcpy(pages + p * STRIDE + 2 * i, &x, 2);
    }
  EXPECT(pages_device_copy(d_pages, pages, sizeof pages) == 0);
}

/* A call and its results; it neither waits nor allocates. */
static void call(int decodes, const tuck_pages_config* config, const tuck_page_pair* pairs, uint32_t count) {
  uint64_t before;
  EXPECT(pages_device_copy(d_pairs, pairs, count * sizeof *pairs) == 0);
  before = pages_device_waits();
  if (decodes)
    EXPECT(decode(config, d_pairs, count, d_slots, d_pages, d_results, d_workspace, space, stream) == TUCK_PAGES_OK);
  else
    EXPECT(encode(config, d_pairs, count, d_pages, d_slots, d_results, d_workspace, space, stream) == TUCK_PAGES_OK);
  EXPECT(pages_device_waits() == before);
  EXPECT(pages_device_wait(stream) == 0);
  EXPECT(pages_device_copy(results, d_results, count * sizeof *results) == 0);
}

static tuck_pages_config configuration(void) {
  tuck_pages_config c;
  memset(&c, 0, sizeof c);
  c.type = TUCK_PAGES_BF16;
  c.loss = TUCK_PAGES_NO_LOSS;
  c.page_values = VALUES;
  c.page_stride = STRIDE;
  c.page_count = PAGES;
  c.slot_bytes = SLOT;
  c.slot_stride = SLOT;
  c.slot_count = SLOTS;
  c.chunk_values = CHUNK;
  c.most_pairs = PAIRS;
  return c;
}

/* Numbers whose low 8 or 16 bits may be valid. */
static void test_numbers_are_not_cut(void) {
  static const int32_t wide[] = {256, 257, 65536, 65537, INT32_MAX, INT32_MIN, INT32_MIN + 1, -1};
  size_t i;
  for (i = 0; i < sizeof wide / sizeof *wide; ++i) {
    tuck_pages_config c = configuration();
    uint64_t bytes = 77;
    c.type = wide[i];
    EXPECT(workspace_bytes(&c, &bytes) == TUCK_PAGES_OTHER_TYPE && worst_slot_bytes(&c) == 0);
    c.type = (int32_t)((uint32_t)wide[i] & ~255u) + TUCK_PAGES_BF16;
    if (c.type != TUCK_PAGES_BF16) EXPECT(workspace_bytes(&c, &bytes) == TUCK_PAGES_OTHER_TYPE);
    c = configuration();
    c.loss = wide[i];
    EXPECT(workspace_bytes(&c, &bytes) == 1);
    c.bound = .1;
    EXPECT(workspace_bytes(&c, &bytes) == 1 && worst_slot_bytes(&c) == 0);
    c = configuration();
    c.checksums = (uint32_t)wide[i];
    EXPECT(workspace_bytes(&c, &bytes) == 1);
    EXPECT(bytes == 77);
    EXPECT(strcmp(message(wide[i]), "unknown status") == 0);
  }
}

static void test_configurations(void) {
  tuck_pages_config c = configuration();
  uint64_t bytes = 0;
  EXPECT(workspace_bytes(&c, &bytes) == TUCK_PAGES_OK && bytes > 0);
  EXPECT(worst_slot_bytes(&c) >= 2 * VALUES && worst_slot_bytes(&c) < 2 * VALUES + 256);
  EXPECT(workspace_bytes(NULL, &bytes) == 1 && worst_slot_bytes(NULL) == 0 && workspace_bytes(&c, NULL) == 1);
  c.type = 3;
  EXPECT(workspace_bytes(&c, &bytes) == 16);
  c = configuration();
  c.slot_stride = 24;
  EXPECT(workspace_bytes(&c, &bytes) == 1);
  c = configuration();
  c.chunk_values = 31;
  EXPECT(workspace_bytes(&c, &bytes) == 1);
  c = configuration();
  c.loss = TUCK_PAGES_OF_RANGE;
  EXPECT(workspace_bytes(&c, &bytes) == 11);
  c.bound = -1;
  EXPECT(workspace_bytes(&c, &bytes) == 11);
  EXPECT(strcmp(message(0), "ok") == 0 && strlen(message(11)) > 10);
}

static void* at(void* begin, int bytes) { return (char*)begin + bytes; }

static void test_misuse(void) {
  const tuck_pages_config c = configuration();
  EXPECT(encode(&c, d_pairs, 1, NULL, d_slots, d_results, d_workspace, space, stream) == 1);
  EXPECT(encode(&c, NULL, 1, d_pages, d_slots, d_results, d_workspace, space, stream) == 1);
  EXPECT(encode(&c, d_pairs, 1, d_pages, d_slots, d_results, NULL, space, stream) == 1);
  EXPECT(encode(&c, d_pairs, 1, d_pages, d_slots, d_results, d_workspace, space - 1, stream) == 10);
  EXPECT(encode(&c, d_pairs, PAIRS + 1, d_pages, d_slots, d_results, d_workspace, space, stream) == 12);
  EXPECT(decode(&c, d_pairs, 1, (char*)d_slots + 8, d_pages, d_results, d_workspace, space, stream) == 6);
  EXPECT(encode(&c, at(d_pairs, 2), 1, d_pages, d_slots, d_results, d_workspace, space, stream) == 6);
  EXPECT(encode(&c, d_pairs, 1, d_pages, d_slots, at(d_results, 4), d_workspace, space, stream) == 6);
  EXPECT(decode(&c, d_pairs, 1, d_slots, d_pages, at(d_results, 4), d_workspace, space, stream) == 6);
  EXPECT(decode(&c, d_pairs, 1, d_slots, d_pages, d_results, at(d_workspace, 16), space, stream) == 6);
  EXPECT(decode(NULL, d_pairs, 1, d_slots, d_pages, d_results, d_workspace, space, stream) == 1);
  EXPECT(initialize(NULL, d_workspace, space, stream) == 1 && initialize(&c, NULL, space, stream) == 1);
  EXPECT(initialize(&c, d_workspace, space - 1, stream) == 10);
  EXPECT(encode(&c, NULL, 0, NULL, NULL, NULL, d_workspace, space, stream) == TUCK_PAGES_OK);
}

static void test_lossless(void) {
  static const tuck_page_pair out[] = {{3, 0}, {0, 4}, {7, 1}, {1, -1}, {6, 2}, {2, 5}};
  static const tuck_page_pair back[] = {{4, 3}, {0, 0}, {1, 2}, {2, 6}, {-3, 3}, {6, 3}};
  static unsigned char expected[SLOT], before[sizeof pages];
  const tuck_pages_config c = configuration();
  int i;
  memset(pages, 0x77, sizeof pages);
  make_pages();
  call(0, &c, out, PAIRS);
  EXPECT(pages_device_copy(slots, d_slots, sizeof slots) == 0);
  for (i = 0; i < PAIRS; ++i) {
    if (i == 2 || i == 3) {
      EXPECT(results[i].status == TUCK_PAGES_BAD_INDEX);
    } else if (i == 5) {
      EXPECT(results[i].status == TUCK_PAGES_NO_FIT && results[i].bytes > SLOT && results[i].form == TUCK_PAGES_RAW);
    } else {
      const uint64_t bytes = pages_host_frame(pages + out[i].src * STRIDE, VALUES, 0, CHUNK, expected, SLOT);
      EXPECT(results[i].status == TUCK_PAGES_OK && results[i].form == TUCK_PAGES_LOSSLESS && results[i].bound == 0);
      EXPECT(results[i].bytes == bytes && bytes != 0);
      EXPECT(memcmp(slots + out[i].dst * SLOT, expected, (size_t)bytes) == 0);
    }
  }
  EXPECT(slots[SLOT] == 0 && slots[4 * SLOT] == 0); /* nobody's */
  memcpy(before, pages, sizeof pages);
  call(1, &c, back, PAIRS);
  EXPECT(pages_device_copy(pages, d_pages, sizeof pages) == 0);
  EXPECT(memcmp(pages + 4 * STRIDE, before, 2 * VALUES) == 0);
  EXPECT(memcmp(pages, before + 4 * STRIDE, 2 * VALUES) == 0);
  EXPECT(memcmp(pages + 2 * STRIDE, before + 2 * STRIDE, 2 * VALUES) == 0);
  EXPECT(memcmp(pages + 3 * STRIDE, before + 3 * STRIDE, 2 * VALUES) == 0);
  for (i = 0; i < STRIDE; ++i) /* there is no frame, and so zeros; what is between pages is left alone */
    if (pages[STRIDE + i] != (i < 2 * VALUES ? 0 : before[STRIDE + i])) break;
  EXPECT(i == STRIDE);
  EXPECT(results[0].status == TUCK_PAGES_OK && results[0].bytes == 2 * VALUES);
  EXPECT(results[2].status >= 32);
  EXPECT(results[4].status == TUCK_PAGES_BAD_INDEX && results[5].status == TUCK_PAGES_BAD_INDEX);
}

static void test_bounded(void) {
  static const tuck_page_pair out[] = {{0, 0}, {1, 1}, {2, 5}}, back[] = {{3, 0}, {4, 1}};
  static unsigned char expected[SLOT];
  tuck_pages_config c = configuration();
  int p, i;
  c.loss = TUCK_PAGES_OF_RANGE;
  c.bound = 1e-2;
  c.slot_bytes = 2048;
  make_pages();
  call(0, &c, out, 3);
  EXPECT(results[2].status == TUCK_PAGES_NO_FIT);
  EXPECT(pages_device_copy(slots, d_slots, sizeof slots) == 0);
  for (p = 0; p < 2; ++p) {
    const uint64_t bytes = pages_host_frame(pages + p * STRIDE, VALUES, 1e-2, CHUNK, expected, SLOT);
    EXPECT(results[p].status == TUCK_PAGES_OK && results[p].form == TUCK_PAGES_BOUNDED);
    EXPECT(results[p].bytes == bytes && memcmp(slots + p * SLOT, expected, (size_t)bytes) == 0);
    EXPECT(results[p].bound > .01 && results[p].bound < .06);
  }
  call(1, &c, back, 2);
  EXPECT(pages_device_copy(pages, d_pages, sizeof pages) == 0);
  for (p = 0; p < 2; ++p) {
    double most = 0;
    for (i = 0; i < VALUES; ++i) {
      const double error =
          fabs(number(value_of(pages + p * STRIDE, i)) - number(value_of(pages + (3 + p) * STRIDE, i)));
      if (!(error <= most)) most = error;
    }
    EXPECT(results[p].form == TUCK_PAGES_BOUNDED && most <= results[p].bound && most > 0);
  }
}

/* One frame is damaged: it alone is reported. */
static void test_damage(void) {
  static const tuck_page_pair out[] = {{0, 0}, {1, 1}, {2, 2}}, back[] = {{3, 0}, {4, 1}, {5, 2}};
  const tuck_pages_config c = configuration();
  make_pages();
  call(0, &c, out, 3);
  EXPECT(pages_device_copy(slots, d_slots, sizeof slots) == 0);
  slots[SLOT + 130] ^= 1; /* of the directory */
  EXPECT(pages_device_copy(d_slots, slots, sizeof slots) == 0);
  call(1, &c, back, 3);
  EXPECT(results[0].status == TUCK_PAGES_OK && results[2].status == TUCK_PAGES_OK);
  EXPECT(results[1].status == 36 && results[1].form == TUCK_PAGES_RAW);
  EXPECT(pages_device_copy(pages, d_pages, sizeof pages) == 0);
  EXPECT(memcmp(pages + 3 * STRIDE, pages, 2 * VALUES) == 0);
  EXPECT(memcmp(pages + 5 * STRIDE, pages + 2 * STRIDE, 2 * VALUES) == 0);
}

/* With checksums damage of a payload is reported, too; without them it may not be. */
static void test_payload_damage(void) {
  static const tuck_page_pair out[] = {{0, 0}}, back[] = {{1, 0}};
  tuck_pages_config c = configuration();
  uint32_t at;
  c.checksums = 1;
  make_pages();
  call(0, &c, out, 1);
  EXPECT(results[0].status == TUCK_PAGES_OK);
  EXPECT(pages_device_copy(slots, d_slots, sizeof slots) == 0);
  at = 400; /* in what is stored as it is */
  slots[at] ^= 4;
  EXPECT(pages_device_copy(d_slots, slots, sizeof slots) == 0);
  call(1, &c, back, 1);
  EXPECT(results[0].status == 39);
}

/* A stride of 16 bytes: slots are extents, and indices their begins. */
static void test_extents(void) {
  tuck_page_pair pair[2];
  tuck_pages_config c = configuration();
  c.slot_stride = 16;
  c.slot_count = SLOTS * SLOT / 16;
  make_pages();
  pair[0].dst = 7;
  pair[0].src = 0;
  call(0, &c, pair, 1);
  EXPECT(results[0].status == TUCK_PAGES_OK);
  pair[0].dst = 7 + (int32_t)(results[0].bytes / 16);
  pair[0].src = 1;
  call(0, &c, pair, 1);
  pair[1].dst = 3;
  pair[1].src = pair[0].dst;
  pair[0].dst = 2;
  pair[0].src = 7;
  call(1, &c, pair, 2);
  EXPECT(results[0].status == TUCK_PAGES_OK && results[1].status == TUCK_PAGES_OK);
  EXPECT(pages_device_copy(pages, d_pages, sizeof pages) == 0);
  EXPECT(memcmp(pages + 2 * STRIDE, pages, 2 * VALUES) == 0);
  EXPECT(memcmp(pages + 3 * STRIDE, pages + STRIDE, 2 * VALUES) == 0);
  pair[0].dst = (int32_t)c.slot_count - 1; /* behind the pool nothing is written */
  pair[0].src = 0;
  call(0, &c, pair, 1);
  EXPECT(results[0].status == TUCK_PAGES_NO_FIT);
}

/* A page may be read twice, and so may a slot. */
static void test_repeated_sources(void) {
  static const tuck_page_pair out[] = {{0, 2}, {5, 2}}, back[] = {{0, 5}, {4, 0}, {1, 5}};
  const tuck_pages_config c = configuration();
  int i;
  make_pages();
  call(0, &c, out, 2);
  EXPECT(results[0].status == TUCK_PAGES_OK && results[1].status == TUCK_PAGES_OK);
  call(1, &c, back, 3);
  EXPECT(pages_device_copy(pages, d_pages, sizeof pages) == 0);
  for (i = 0; i < 3; ++i) {
    EXPECT(results[i].status == TUCK_PAGES_OK);
    EXPECT(memcmp(pages + back[i].dst * STRIDE, pages + 2 * STRIDE, 2 * VALUES) == 0);
  }
}

/* Frames of another type, and of fewer values than a page, are refused, and the page is left alone. */
static void test_other_frames(void) {
  static const tuck_page_pair pair = {0, 0}, other = {1, 0};
  tuck_pages_config c = configuration();
  make_pages();
  call(0, &c, &pair, 1);
  c.type = TUCK_PAGES_F16;
  call(1, &c, &other, 1);
  EXPECT(results[0].status == TUCK_PAGES_OTHER_TYPE && results[0].form == TUCK_PAGES_RAW);
  c = configuration();
  c.page_values = VALUES + 32;
  c.most_pairs = 1;
  call(1, &c, &other, 1);
  EXPECT(results[0].status == TUCK_PAGES_BAD_INDEX && results[0].form == TUCK_PAGES_RAW);
  EXPECT(pages_device_copy(slots, d_pages, 2 * STRIDE) == 0);
  EXPECT(memcmp(slots, pages, 2 * STRIDE) == 0);
}

/* Pages of 8-bit floats have the bytes of the host's codec, and no bounds. */
static void test_8_bit_floats(void) {
  static const tuck_page_pair out[] = {{2, 0}, {0, 1}, {1, 2}}, back[] = {{3, 2}, {4, 0}, {5, 1}};
  static unsigned char expected[SLOT];
  tuck_pages_config c = configuration();
  uint64_t bytes = 0;
  uint32_t state = 1;
  int p, i;
  c.type = TUCK_PAGES_F8E4M3;
  c.page_stride = VALUES; /* a byte a value */
  c.slot_bytes = VALUES;
  EXPECT(workspace_bytes(&c, &bytes) == TUCK_PAGES_OK && bytes <= space);
  EXPECT(worst_slot_bytes(&c) >= VALUES && worst_slot_bytes(&c) < VALUES + 256);
  for (i = 0; i < 3 * VALUES; ++i) { /* the exponents of two pages are mostly equal; the third is noise */
    state = state * 1664525u + 1013904223u;
    pages[i] =
        (unsigned char)(i < 2 * VALUES ? (state >> 24 & 0x8f) | ((state >> 10 & 7) == 0 ? 0x28 : 0x30) : state >> 24);
  }
  EXPECT(pages_device_copy(d_pages, pages, sizeof pages) == 0);
  call(0, &c, out, 3);
  EXPECT(results[2].status == TUCK_PAGES_NO_FIT);
  EXPECT(pages_device_copy(slots, d_slots, sizeof slots) == 0);
  for (p = 0; p < 2; ++p) {
    bytes = pages_host_frame_f8(pages + p * VALUES, VALUES, CHUNK, expected, SLOT);
    EXPECT(results[p].status == TUCK_PAGES_OK && results[p].form == TUCK_PAGES_LOSSLESS && results[p].bound == 0);
    EXPECT(results[p].bytes == bytes && bytes != 0 && bytes < VALUES * 9 / 10);
    EXPECT(memcmp(slots + out[p].dst * SLOT, expected, (size_t)bytes) == 0);
  }
  call(1, &c, back, 3);
  EXPECT(results[0].status == TUCK_PAGES_OK && results[0].bytes == VALUES && results[1].status == TUCK_PAGES_OK);
  EXPECT(results[2].status >= 32 && results[2].form == TUCK_PAGES_RAW);
  EXPECT(pages_device_copy(pages + 3 * VALUES, at(d_pages, 3 * VALUES), 2 * VALUES) == 0);
  EXPECT(memcmp(pages + 3 * VALUES, pages, 2 * VALUES) == 0);
  c.type = TUCK_PAGES_F8E5M2;
  call(1, &c, back, 1);
  EXPECT(results[0].status == TUCK_PAGES_OTHER_TYPE && results[0].form == TUCK_PAGES_RAW);
  c.loss = TUCK_PAGES_OF_RANGE;
  c.bound = .1;
  EXPECT(workspace_bytes(&c, &bytes) == TUCK_PAGES_NO_BOUNDS && worst_slot_bytes(&c) == 0);
  c = configuration();
  c.type = TUCK_PAGES_F8E4M3;
  c.page_stride = VALUES - 4;
  EXPECT(workspace_bytes(&c, &bytes) == 1);
}

/* Pools without pages, without slots and with slots of no bytes. */
static void test_empty_pools(void) {
  static const tuck_page_pair pair = {0, 0};
  tuck_pages_config c = configuration();
  int i, decodes;
  for (decodes = 0; decodes < 2; ++decodes)
    for (i = 0; i < 3; ++i) {
      c = configuration();
      if (i == 0) c.page_count = 0;
      if (i == 1) c.slot_count = 0;
      if (i == 2) c.slot_bytes = 0;
      call(decodes, &c, &pair, 1);
      EXPECT(i == 2 ? results[0].status == TUCK_PAGES_NO_FIT || results[0].status >= 32
                    : results[0].status == TUCK_PAGES_BAD_INDEX);
      EXPECT(results[0].form == TUCK_PAGES_RAW);
    }
}

/* In a graph, the pairs and pages are read when it runs. */
static void test_graph(void) {
  static tuck_page_pair pairs[] = {{0, 3}, {1, 3}};
  static unsigned char expected[SLOT];
  tuck_pages_config c = configuration();
  uint64_t bytes;
  void* graph;
  c.loss = TUCK_PAGES_OF_RANGE;
  c.bound = 1e-2;
  make_pages();
  EXPECT(pages_device_copy(d_pairs, pairs, sizeof pairs) == 0);
  EXPECT(pages_device_capture(stream) == 0);
  EXPECT(encode(&c, d_pairs, 2, d_pages, d_slots, d_results, d_workspace, space, stream) == TUCK_PAGES_OK);
  graph = pages_device_captured(stream);
  pairs[1].src = 4;
  EXPECT(pages_device_copy(d_pairs, pairs, sizeof pairs) == 0);
  EXPECT(pages_device_replay(graph, stream) == 0);
  EXPECT(pages_device_copy(slots, d_slots, sizeof slots) == 0);
  bytes = pages_host_frame(pages + 4 * STRIDE, VALUES, 0, CHUNK, expected, SLOT);
  EXPECT(memcmp(slots + SLOT, expected, (size_t)bytes) == 0);
}

int main(void) {
  const char* const carried = getenv("TUCK_PAGES_LIBRARY");
  const tuck_pages_config c = configuration();
  load(carried != NULL ? carried : TUCK_PAGES_LIBRARY);
  test_configurations();
  test_numbers_are_not_cut();
  if (workspace_bytes(&c, &space) != TUCK_PAGES_OK) return 1;
  d_pages = pages_device_allocate(sizeof pages);
  d_slots = pages_device_allocate(sizeof slots);
  d_results = pages_device_allocate(sizeof results);
  d_pairs = pages_device_allocate(PAIRS * sizeof(tuck_page_pair));
  d_workspace = pages_device_allocate((size_t)space);
  stream = pages_device_stream();
  EXPECT(initialize(&c, d_workspace, space, stream) == TUCK_PAGES_OK);
  test_lossless();
  test_bounded();
  test_damage();
  test_payload_damage();
  test_extents();
  test_graph();
  test_repeated_sources();
  test_other_frames();
  test_8_bit_floats();
  test_empty_pools();
  test_misuse();
  printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
