/* A driver and a CUPTI that are made up: `cc -shared -fPIC fake_cupti.c`. One library is both, so that the calls of the one reach the
 * callback of the other, as with the real ones.
 *
 * VERSION is what CUPTI says. With TOO_OLD, functions are missing. FAKE_CUPTI in the environment names an error of `cuptiSubscribe`.
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
static uint64_t used, next = 1ull << 40;
static int has_context;

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
int cuptiGetDeviceId(void *context, uint32_t *device) { *device = 0; return 0; }
#endif
int cuptiGetVersion(uint32_t *version) { *version = VERSION; return 0; }
int cuptiGetResultString(int code, const char **text) { *text = "CUPTI_ERROR_MADE_UP"; return 0; }

int cuMemGetInfo_v2(size_t *free, size_t *total) {
  *total = TOTAL;
  *free = TOTAL - used;
  return has_context ? 0 : 201;
}
int cuCtxGetDevice(int *device) { *device = 0; return has_context ? 0 : 201; }

static void call(int site, uint32_t number, const char *name, const uint64_t *arguments, const int *returned) {
  Data data = {site, name, arguments, returned, NULL, &subscriber, 1};
  if (subscriber && enabled[number]) subscriber(NULL, DRIVER, number, &data);
}

int cuMemAlloc_v2(uint64_t *address, size_t size) {
  int result = 0;
  if (!has_context) { has_context = 1; used += CONTEXT_BYTES; }
  uint64_t arguments[] = {(uint64_t)(uintptr_t)address, size};
  call(0, 243, "cuMemAlloc_v2", arguments, &result);
  uint64_t taken = (size + PAGE - 1) / PAGE * PAGE;
  *address = next;
  next += taken;
  used += taken;
  call(1, 243, "cuMemAlloc_v2", arguments, &result);
  return result;
}
int cuMemFree_v2(uint64_t address, size_t size) {
  int result = 0;
  uint64_t arguments[] = {address};
  call(0, 245, "cuMemFree_v2", arguments, &result);
  used -= (size + PAGE - 1) / PAGE * PAGE;
  call(1, 245, "cuMemFree_v2", arguments, &result);
  return result;
}
/* The first launch of a function takes local memory: its handle, in MiB. */
int cuLaunchKernelEx(const void *configuration, uint64_t function, void **parameters, void **extra) {
  static unsigned char launched[256];
  int result = 0;
  uint64_t arguments[] = {(uint64_t)(uintptr_t)configuration, function};
  call(0, 652, "cuLaunchKernelEx", arguments, &result);
  if (!launched[function % 256]++) used += function << 20;
  call(1, 652, "cuLaunchKernelEx", arguments, &result);
  return result;
}
