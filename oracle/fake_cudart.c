/* A CUDA runtime without a GPU: byte accounting and made-up addresses that nobody may dereference.
 *
 * libc10_cuda.so (PyTorch's caching allocator) is linked against libcudart.so.N and looks up driver functions with
 * cudaGetDriverEntryPoint*. This file is both. Three things are modelled, because allocator decisions depend on them:
 *   1. capacity: cudaMalloc / cuMemCreate fail once `total - outside` bytes are in use (2 MiB granularity);
 *   2. addresses: free blocks of equal size are ordered by address, so the address policy is explicit;
 *   3. events: record_stream() delays a free until an event is ready, so readiness is a switch per stream.
 * Everything else succeeds and does nothing, or answers cudaErrorNotSupported if the allocator should not get there.
 * Single-threaded by design. */
#include "fake_cudart.h"
#include "cuda_runtime_api.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cudaError_t last_error = cudaSuccess;
static cudaError_t fail(cudaError_t e) { last_error = e; return e; }
static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }
static void die(const char *what) { fprintf(stderr, "fake_cudart: %s\n", what); abort(); }

/* ---------------------------------------------------------------- capacity */

static size_t total_bytes = 16ull << 30, outside_bytes = 0, used_bytes = 0;

static int take_bytes(size_t n) {
  if (outside_bytes + used_bytes + n > total_bytes) return 0;
  used_bytes += n;
  return 1;
}

/* Sizes of live allocations by key (an address, or a physical handle): open addressing, tombstone = 1. */
#define TABLE (1u << 20)
static uintptr_t table_key[TABLE];
static size_t table_size[TABLE];
static unsigned slot_of(uintptr_t key) { return (unsigned)(((key >> 9) * 0x9E3779B97F4A7C15ull) >> 40) & (TABLE - 1); }
static void table_put(uintptr_t key, size_t size) {
  unsigned i = slot_of(key);
  while (table_key[i] > 1) i = (i + 1) & (TABLE - 1);
  table_key[i] = key;
  table_size[i] = size;
}
static int table_has(uintptr_t key) {
  for (unsigned i = slot_of(key); table_key[i]; i = (i + 1) & (TABLE - 1))
    if (table_key[i] == key) return 1;
  return 0;
}
static size_t table_take(uintptr_t key) {
  for (unsigned i = slot_of(key); table_key[i]; i = (i + 1) & (TABLE - 1))
    if (table_key[i] == key) { table_key[i] = 1; return table_size[i]; }
  return 0;
}

/* --------------------------------------------------------------- addresses */

static enum fake_va_policy va_policy = FAKE_VA_FIRST_FIT;
static uint64_t rng_state = 88172645463325252ull;
#define RANDOM_SLOT (4ull << 30)
#define RANDOM_SLOTS (1ull << 13)
static uintptr_t bump = FAKE_VA_BASE, low = FAKE_VA_BASE + FAKE_VA_SPAN;

struct range { uintptr_t at; size_t size; };
static struct range *holes; /* sorted by address, never touching each other */
static size_t hole_count, hole_room;
static struct range *script; /* size 0 = already used; size 1 = an address reservation */
static size_t script_count, script_room, script_from, script_missed;

static uintptr_t first_fit(size_t n) {
  for (size_t i = 0; i < hole_count; i++)
    if (holes[i].size >= n) {
      uintptr_t at = holes[i].at;
      holes[i].at += n;
      holes[i].size -= n;
      if (!holes[i].size) memmove(holes + i, holes + i + 1, (--hole_count - i) * sizeof *holes);
      return at;
    }
  uintptr_t at = bump;
  bump += n;
  return at;
}

static void first_fit_give(uintptr_t at, size_t n) {
  if (at < FAKE_VA_BASE || at >= bump) return; /* a scripted address: not ours to reuse */
  size_t i = 0;
  while (i < hole_count && holes[i].at < at) i++;
  if (hole_count + 1 > hole_room && !(holes = realloc(holes, (hole_room = hole_room * 2 + 64) * sizeof *holes)))
    die("out of host memory");
  memmove(holes + i + 1, holes + i, (hole_count++ - i) * sizeof *holes);
  holes[i] = (struct range){at, n};
  if (i + 1 < hole_count && holes[i].at + holes[i].size == holes[i + 1].at) {
    holes[i].size += holes[i + 1].size;
    memmove(holes + i + 1, holes + i + 2, (--hole_count - i - 1) * sizeof *holes);
  }
  if (i > 0 && holes[i - 1].at + holes[i - 1].size == holes[i].at) {
    holes[i - 1].size += holes[i].size;
    memmove(holes + i, holes + i + 1, (--hole_count - i) * sizeof *holes);
  }
}

static uintptr_t va_get(size_t n, int is_reservation) {
  switch (va_policy) {
    case FAKE_VA_FIRST_FIT: return first_fit(n);
    case FAKE_VA_BUMP: { uintptr_t at = bump; bump += n; return at; }
    case FAKE_VA_DESCENDING: return low -= n;
    case FAKE_VA_RANDOM: {
      if (is_reservation) { uintptr_t at = bump; bump += n; return at; } /* far below the slots */
      if (n > RANDOM_SLOT) die("allocation larger than a slot of the random address policy");
      uintptr_t at;
      do {
        rng_state ^= rng_state << 13; rng_state ^= rng_state >> 7; rng_state ^= rng_state << 17;
        at = FAKE_VA_BASE + FAKE_VA_SPAN + (rng_state % RANDOM_SLOTS) * RANDOM_SLOT;
      } while (table_has(at));
      return at;
    }
    case FAKE_VA_SCRIPT:
      while (script_from < script_count && !script[script_from].size) script_from++;
      for (size_t i = script_from; i < script_count; i++)
        if (script[i].size == (is_reservation ? 1 : n)) { script[i].size = 0; return script[i].at; }
      script_missed++;
      return first_fit(n);
  }
  die("unknown address policy");
  return 0;
}
static void va_give(uintptr_t at, size_t n) {
  if (va_policy == FAKE_VA_FIRST_FIT || va_policy == FAKE_VA_SCRIPT) first_fit_give(at, n);
}

/* ---------------------------------------------------------- control panel */

void fake_configure(size_t total, size_t outside, enum fake_va_policy policy, uint64_t seed) {
  total_bytes = total;
  outside_bytes = outside;
  va_policy = policy;
  rng_state ^= seed * 0x9E3779B97F4A7C15ull;
}
void fake_script_push(size_t bytes, uintptr_t address) {
  if (script_count == script_room && !(script = realloc(script, (script_room = script_room * 2 + 64) * sizeof *script)))
    die("out of host memory");
  script[script_count++] = (struct range){address, bytes ? bytes : 1};
}
size_t fake_script_misses(void) { return script_missed; }

void *fake_stream_handle(unsigned index) { return (void *)(uintptr_t)(index * 0x1000ull); }
unsigned fake_stream_index(const void *handle) { return (unsigned)((uintptr_t)handle / 0x1000); }
static int stream_not_ready[FAKE_MAX_STREAMS];
void fake_set_events_ready(int stream, int ready) {
  for (int i = 0; i < FAKE_MAX_STREAMS; i++)
    if (stream < 0 || stream == i) stream_not_ready[i] = !ready;
}

/* ---------------------------------------------------------- runtime: memory */

cudaError_t cudaMalloc(void **ptr, size_t bytes) {
  size_t n = round_up(bytes, FAKE_GRANULARITY);
  *ptr = NULL;
  if (!take_bytes(n)) return fail(cudaErrorMemoryAllocation);
  uintptr_t at = va_get(n, 0);
  table_put(at, n);
  *ptr = (void *)at;
  return cudaSuccess;
}
cudaError_t cudaFree(void *ptr) {
  if (!ptr) return cudaSuccess;
  size_t n = table_take((uintptr_t)ptr);
  if (!n) return fail(cudaErrorInvalidValue);
  used_bytes -= n;
  va_give((uintptr_t)ptr, n);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
  *free_bytes = total_bytes - outside_bytes - used_bytes;
  *total = total_bytes;
  return cudaSuccess;
}

/* ------------------------------------------------ runtime: device and errors */

cudaError_t cudaGetDevice(int *device) { *device = 0; return cudaSuccess; }
cudaError_t cudaSetDevice(int device) { (void)device; return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int *count) { *count = 1; return cudaSuccess; }
static cudaError_t device_properties(struct cudaDeviceProp *p, int device) {
  (void)device;
  memset(p, 0, 512); /* NVIDIA's struct is larger than 512 bytes in every supported release */
  strcpy(p->name, "fake device");
  p->totalGlobalMem = total_bytes;
  return cudaSuccess;
}
/* The name in CUDA 13, and that in CUDA 12. */
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) { return device_properties(p, device); }
cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *p, int device) { return device_properties(p, device); }
cudaError_t cudaDeviceSynchronize(void) { return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int *version) { *version = 13000; return cudaSuccess; }
cudaError_t cudaGetLastError(void) { cudaError_t e = last_error; last_error = cudaSuccess; return e; }
const char *cudaGetErrorName(cudaError_t e) { (void)e; return "fakeError"; }
const char *cudaGetErrorString(cudaError_t e) {
  return e == cudaErrorMemoryAllocation ? "out of memory (fake)" : "fake error";
}

/* ------------------------------------------------ runtime: streams and events */

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamGetPriority(cudaStream_t s, int *priority) { (void)s; *priority = 0; return cudaSuccess; }
cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus *status) {
  (void)s;
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, cudaStreamCaptureStatus *status) {
  return cudaStreamIsCapturing(s, status); /* further outputs are read only while capturing */
}
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t s, cudaStreamCaptureStatus *status) {
  return cudaStreamIsCapturing(s, status);
}
cudaError_t cudaStreamQuery(cudaStream_t s) { (void)s; return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t s) { (void)s; return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags) {
  (void)s; (void)e; (void)flags;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode) { (void)mode; return cudaSuccess; }

/* An event only remembers on which stream it was last recorded. */
struct CUevent_st { unsigned stream; };
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags) {
  (void)flags;
  if (!(*e = calloc(1, sizeof **e))) die("out of host memory");
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) { free(e); return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  e->stream = fake_stream_index(s) % FAKE_MAX_STREAMS;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
  return stream_not_ready[e->stream] ? fail(cudaErrorNotReady) : cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) { (void)e; return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b) {
  (void)a; (void)b;
  *ms = 0;
  return cudaSuccess;
}

/* ---------------------------------- driver: virtual memory (expandable segments) */

typedef unsigned long long u64;
enum { CU_OK = 0, CU_OUT_OF_MEMORY = 2 };
#define PHYSICAL (1ull << 60) /* keeps physical handles apart from addresses in the size table */
static u64 next_handle = 0x1000;

static int drv_address_reserve(u64 *at, size_t size, size_t alignment, u64 hint, u64 flags) {
  (void)alignment; (void)hint; (void)flags;
  *at = va_get(round_up(size, FAKE_GRANULARITY), 1);
  return CU_OK;
}
static int drv_address_free(u64 at, size_t size) {
  va_give(at, round_up(size, FAKE_GRANULARITY));
  return CU_OK;
}
static int drv_create(u64 *handle, size_t size, const void *prop, u64 flags) {
  (void)prop; (void)flags;
  if (!take_bytes(size)) return CU_OUT_OF_MEMORY;
  *handle = next_handle += 512;
  table_put(*handle | PHYSICAL, size);
  return CU_OK;
}
static int drv_release(u64 handle) { used_bytes -= table_take(handle | PHYSICAL); return CU_OK; }
static int drv_granularity(size_t *g, const void *prop, int option) {
  (void)prop; (void)option;
  *g = FAKE_GRANULARITY;
  return CU_OK;
}
static int drv_attribute(int *value, int attribute, int device) {
  (void)device;
  *value = attribute != 128; /* 128: fabric handles */
  return CU_OK;
}
static int drv_error_string(int e, const char **text) { (void)e; *text = "fake driver error"; return CU_OK; }
static int drv_get_context(void **context) { *context = (void *)1; return CU_OK; }
static int drv_get_device(int *device, int ordinal) { *device = ordinal; return CU_OK; }
static int drv_ok(void) { return CU_OK; } /* cuMemMap, cuMemUnmap, cuMemSetAccess, ...: no state of ours changes */

static void *driver_function(const char *name) {
  static const struct { const char *name; void *function; } known[] = {
      {"cuMemAddressReserve", drv_address_reserve}, {"cuMemAddressFree", drv_address_free},
      {"cuMemCreate", drv_create},                  {"cuMemRelease", drv_release},
      {"cuMemGetAllocationGranularity", drv_granularity},
      {"cuDeviceGetAttribute", drv_attribute},      {"cuGetErrorString", drv_error_string},
      {"cuCtxGetCurrent", drv_get_context},         {"cuDeviceGet", drv_get_device}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(name, known[i].name)) return known[i].function;
  return drv_ok;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version, u64 flags,
                                             int *result) {
  (void)version; (void)flags;
  *function = driver_function(name);
  if (result) *result = 0;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPoint(const char *name, void **function, u64 flags, int *result) {
  return cudaGetDriverEntryPointByVersion(name, function, 0, flags, result);
}

/* -------------------------------------- never reached by the native allocator */

#define UNSUPPORTED(name) cudaError_t name(void) { return fail(cudaErrorNotSupported); }
UNSUPPORTED(cudaDeviceCanAccessPeer) UNSUPPORTED(cudaDeviceEnablePeerAccess)
UNSUPPORTED(cudaDeviceGetDefaultMemPool)
UNSUPPORTED(cudaDeviceGetGraphMemAttribute) UNSUPPORTED(cudaDeviceSetGraphMemAttribute)
UNSUPPORTED(cudaFreeAsync) UNSUPPORTED(cudaMallocAsync) UNSUPPORTED(cudaGraphNodeGetDependencies)
UNSUPPORTED(cudaGraphAddEmptyNode) UNSUPPORTED(cudaGraphNodeGetType) UNSUPPORTED(cudaStreamUpdateCaptureDependencies)
UNSUPPORTED(cudaIpcCloseMemHandle) UNSUPPORTED(cudaIpcGetMemHandle) UNSUPPORTED(cudaIpcOpenMemHandle)
UNSUPPORTED(cudaMemPoolGetAttribute) UNSUPPORTED(cudaMemPoolSetAccess) UNSUPPORTED(cudaMemPoolSetAttribute)
UNSUPPORTED(cudaMemPoolTrimTo) UNSUPPORTED(cudaMemcpy) UNSUPPORTED(cudaMemcpyPeerAsync)
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned flags, int priority) {
  /* Reached if torch fills its stream pool; the oracle names its streams itself, these are never used. */
  static uintptr_t next = FAKE_MAX_STREAMS * 0x1000ull;
  (void)flags; (void)priority;
  *s = (cudaStream_t)(next += 0x1000);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *d, const void *s, size_t n, cudaMemcpyKind k, cudaStream_t st) {
  (void)d; (void)s; (void)n; (void)k; (void)st;
  return fail(cudaErrorNotSupported);
}
