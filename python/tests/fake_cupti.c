/* A driver and a CUPTI that are made up: `cc -shared -fPIC fake_cupti.c`. One library is both, so that the calls of the one reach the
 * callback of the other, as with the real ones.
 *
 * VERSION is what CUPTI says. With TOO_OLD, functions are missing. FAKE_CUPTI in the environment names an error of `cuptiSubscribe`,
 * With FAKE_INTEGRATED, GPUs have the machine's memory; with FAKE_OTHERS, other programs have 9 GiB of each; with FAKE_MIG, those are of
 * another instance of the first one, which is divided.
 * Numbers and structures are those of cupti_callbacks.h, as in crates/cupti/src/live.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#ifndef VERSION
#define VERSION 130001
#endif

typedef struct {
  int site;
  const char *name;
  const uint64_t *arguments;
  const int *returned;
  const char *symbol;
  void *context;
  uint32_t context_number;
} Data;
typedef void (*Callback)(void *, int, uint32_t, const Data *);

enum { DRIVER = 1, CONTEXT_BYTES = 527 << 20, PAGE = 2 << 20 };
static const uint64_t TOTAL = 80ull << 30;
static Callback subscriber;
static unsigned char enabled[1024];
/* Of each device; a context is a pointer to its device's. */
static struct { uint64_t used; int has_context; } devices[2];
static uint64_t next = 1ull << 40;
static int current;
static uint64_t others(void) { return getenv("FAKE_OTHERS") ? 9ull << 30 : 0; }

int cuptiSubscribe(void **handle, Callback callback, void *data) {
  const char *error = getenv("FAKE_CUPTI");
  if (error) return atoi(error);
  if (subscriber) return 39;
  subscriber = callback;
  *handle = &subscriber;
  return 0;
}
int cuptiUnsubscribe(void *handle) { subscriber = NULL; return 0; }
int cuptiEnableCallback(uint32_t on, void *handle, int domain, uint32_t number) {
  if (domain == DRIVER && number < sizeof enabled) enabled[number] = on;
  return 0;
}
#ifndef TOO_OLD
int cuptiGetDeviceId(void *context, uint32_t *device) { *device = (uint32_t)((char *)context - (char *)devices) / sizeof *devices; return 0; }
#endif
int cuptiGetVersion(uint32_t *version) { *version = VERSION; return 0; }
int cuptiGetResultString(int code, const char **text) { *text = "CUPTI_ERROR_MADE_UP"; return 0; }

int cuMemGetInfo_v2(size_t *free, size_t *total) {
  *total = TOTAL;
  *free = TOTAL - devices[current].used - (getenv("FAKE_MIG") ? 0 : others());
  return devices[current].has_context ? 0 : 201;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  *value = attribute == 18 && getenv("FAKE_INTEGRATED");
  return 0;
}
int cuCtxGetDevice(int *device) { *device = current; return devices[current].has_context ? 0 : 201; }
void fake_set_device(int device) { current = device; }
void fake_use(uint64_t bytes) { devices[current].used += bytes; }

/* NVML: one GPU. */
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) { *handle = devices; return index ? 2 : 0; }
int nvmlDeviceGetMigMode(void *handle, unsigned *now, unsigned *next_time) { *now = *next_time = getenv("FAKE_MIG") != NULL; return 0; }
int nvmlDeviceGetMemoryInfo_v2(void *handle, uint64_t *memory) { memory[4] = others() + devices[0].used; return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, void *processes) { *count = 0; return 0; }

static void call(int site, uint32_t number, const char *name, const uint64_t *arguments, const int *returned) {
  Data data = {site, name, arguments, returned, NULL, &devices[current], 1};
  if (subscriber && enabled[number]) subscriber(NULL, DRIVER, number, &data);
}

int cuMemAlloc_v2(uint64_t *address, size_t size) {
  int result = 0;
  if (!devices[current].has_context) { devices[current].has_context = 1; devices[current].used += CONTEXT_BYTES; }
  uint64_t arguments[] = {(uint64_t)(uintptr_t)address, size};
  call(0, 243, "cuMemAlloc_v2", arguments, &result);
  uint64_t taken = (size + PAGE - 1) / PAGE * PAGE;
  *address = next;
  next += taken;
  devices[current].used += taken;
  call(1, 243, "cuMemAlloc_v2", arguments, &result);
  return result;
}
int cuMemFree_v2(uint64_t address, size_t size) {
  int result = 0;
  uint64_t arguments[] = {address};
  call(0, 245, "cuMemFree_v2", arguments, &result);
  devices[current].used -= (size + PAGE - 1) / PAGE * PAGE;
  call(1, 245, "cuMemFree_v2", arguments, &result);
  return result;
}
/* The first launch of a function on a device takes local memory: its handle, in MiB. With parameters, an allocation of as many bytes as they
 * say begins before it and ends after it, as one of another thread would; with extra ones, it fails. */
int cuLaunchKernelEx(const void *configuration, uint64_t function, void **parameters, void **extra) {
  static unsigned char launched[2][256];
  int result = extra ? 1 : 0, other = 0;
  uint64_t arguments[] = {(uint64_t)(uintptr_t)configuration, function}, address = next;
  uint64_t others[] = {(uint64_t)(uintptr_t)&address, (uint64_t)(uintptr_t)parameters};
  if (parameters) call(0, 243, "cuMemAlloc_v2", others, &other);
  call(0, 652, "cuLaunchKernelEx", arguments, &result);
  if (!extra && !launched[current][function % 256]++) devices[current].used += function << 20;
  call(1, 652, "cuLaunchKernelEx", arguments, &result);
  if (parameters) {
    next += others[1];
    devices[current].used += others[1];
    call(1, 243, "cuMemAlloc_v2", others, &other);
  }
  return result;
}
