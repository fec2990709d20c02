// Runs a request program through PyTorch's real caching allocator (libc10_cuda.so) on a fake device and writes down
// everything the allocator did. File formats: docs/request-programs.md.
//
// The allocator is called through its public C++ interface only (c10/cuda/CUDACachingAllocator.h); its own trace
// entries are received through attachAllocatorTraceTracker, so every event is known together with the operation that
// caused it.
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#if __has_include(<c10/cuda/PeerToPeerAccess.h>)
#include <c10/cuda/PeerToPeerAccess.h>
#define HAS_P2P_CACHE
#endif

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>
#include <sys/personality.h>
#include <unistd.h>

#include "fake_cudart.h"

namespace A = c10::cuda::CUDACachingAllocator;
namespace D = c10::CachingDeviceAllocator;
// TORCH_MINOR is x in torch 2.x, set by build.sh from the wheel's version.
#if TORCH_MINOR < 9
using c10::cuda::MempoolId_t;
#else
using c10::MempoolId_t;
#endif
#if TORCH_MINOR < 11  // where the trace types are
namespace T = c10::cuda::CUDACachingAllocator;
#else
namespace T = c10::CachingDeviceAllocator;
#endif
#if TORCH_MINOR < 10  // 2.9 knows the newer name and does not heed it
#define CONF_VARIABLE "PYTORCH_CUDA_ALLOC_CONF"
#else
#define CONF_VARIABLE "PYTORCH_ALLOC_CONF"
#endif

// recordStream asks whether the device has a primary context; libtorch_cuda normally answers.
namespace c10::cuda::_internal {
C10_CUDA_API void setHasPrimaryContext(bool (*func)(c10::DeviceIndex));
}

namespace {

[[noreturn]] void usage_error(const std::string& what) {
  fprintf(stderr, "oracle: %s (see oracle/README.md)\n", what.c_str());
  exit(2);
}

// ------------------------------------------------------------------ the request program

enum class Op { alloc, free, record_stream, events_ready, empty_cache, pool_create, pool_begin, pool_end, pool_release,
                memory_fraction, set_config, reset_peak, snapshot };

const std::map<std::string, Op> op_names = {
    {"alloc", Op::alloc}, {"free", Op::free}, {"record_stream", Op::record_stream}, {"events_ready", Op::events_ready},
    {"empty_cache", Op::empty_cache}, {"pool_create", Op::pool_create}, {"pool_begin", Op::pool_begin},
    {"pool_end", Op::pool_end}, {"pool_release", Op::pool_release}, {"memory_fraction", Op::memory_fraction},
    {"set_config", Op::set_config}, {"reset_peak", Op::reset_peak}, {"snapshot", Op::snapshot}};

struct Request {
  Op op;
  uint32_t slot = 0;  // dense index standing for the program's `id`
  size_t bytes = 0;
  int stream = -1;    // -1: the field was empty
  uint64_t pool = 0;
  std::string value;
};

struct Program {
  std::vector<Request> requests;
  size_t slots = 0;
};

Program read_program(const std::string& path) {
  std::ifstream file(path);
  if (!file) usage_error("cannot read " + path);
  std::string line;
  if (!std::getline(file, line) || line.rfind("op,id,bytes,stream,pool,value", 0) != 0)
    usage_error(path + ": the first line must be op,id,bytes,stream,pool,value");
  Program program;
  std::unordered_map<long, uint32_t> slot_of_id;
  for (size_t number = 2; std::getline(file, line); number++) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    std::string field[6];  // the last one takes the rest of the line, commas included
    size_t from = 0;
    for (int i = 0; i < 6; i++) {
      size_t comma = i < 5 ? line.find(',', from) : std::string::npos;
      field[i] = line.substr(from, comma == std::string::npos ? comma : comma - from);
      if (comma == std::string::npos) break;
      from = comma + 1;
    }
    auto name = op_names.find(field[0]);
    if (name == op_names.end()) usage_error(path + ":" + std::to_string(number) + ": unknown op " + field[0]);
    Request r{name->second};
    if (!field[1].empty()) r.slot = slot_of_id.emplace(std::stol(field[1]), slot_of_id.size()).first->second;
    if (!field[2].empty()) r.bytes = std::stoull(field[2]);
    if (!field[3].empty()) r.stream = std::stoi(field[3]);
    if (!field[4].empty()) r.pool = std::stoull(field[4]);
    r.value = field[5];
    if (r.stream >= FAKE_MAX_STREAMS) usage_error(path + ":" + std::to_string(number) + ": stream too large");
    program.requests.push_back(std::move(r));
  }
  program.slots = slot_of_id.size();
  return program;
}

// ------------------------------------------------------------------ driving the allocator

MempoolId_t pool_id(uint64_t n) { return {0, n}; }

class Driver {
 public:
  explicit Driver(size_t slots) : live_(slots, nullptr) {}

  // Throws what the allocator throws; an out-of-memory leaves the slot empty.
  void run(const Request& r) {
    switch (r.op) {
      case Op::alloc:
        live_[r.slot] = nullptr;
        live_[r.slot] = A::raw_alloc_with_stream(r.bytes, stream_handle(r.stream));
        break;
      case Op::free:  // of something not live (its alloc failed, or freed before): ignored
        if (void* p = live_[r.slot]) {
          live_[r.slot] = nullptr;
          A::raw_delete(p);
        }
        break;
      case Op::record_stream:
        if (void* p = live_[r.slot]) {
          c10::DataPtr data(p, p, A::get()->raw_deleter(), c10::Device(c10::kCUDA, 0));
          A::recordStream(data, c10::cuda::getStreamFromExternal(stream_handle(r.stream), 0));
          data.release_context();
        }
        break;
      case Op::events_ready: fake_set_events_ready(r.stream, r.value != "0"); break;
      case Op::empty_cache: A::emptyCache(pool_id(r.pool)); break;
      case Op::pool_create: create_pool(r); break;
      case Op::pool_begin: {
        cudaStream_t only = stream_handle(r.stream);
        bool any = r.stream < 0;
        A::get()->beginAllocateToPool(0, pool_id(r.pool), [any, only](cudaStream_t s) { return any || s == only; });
        break;
      }
      case Op::pool_end: A::get()->endAllocateToPool(0, pool_id(r.pool)); break;
      case Op::pool_release: A::get()->releasePool(0, pool_id(r.pool)); break;
      case Op::memory_fraction: A::setMemoryFraction(std::stod(r.value), 0); break;
#if TORCH_MINOR < 10
      case Op::set_config: A::setAllocatorSettings(r.value); break;
#else
      case Op::set_config: c10::CachingAllocator::setAllocatorSettings(r.value); break;
#endif
      case Op::reset_peak: A::resetPeakStats(0); break;
      case Op::snapshot: break;  // taken by the caller, who keeps the result
    }
  }

 private:
  static cudaStream_t stream_handle(int index) {
    return static_cast<cudaStream_t>(fake_stream_handle(index < 0 ? 0 : index));
  }
  static void create_pool(const Request& r) {
    A::createOrIncrefPool(0, pool_id(r.pool));
    if (r.value.find("use_on_oom") != std::string::npos) {
#if TORCH_MINOR < 11
      A::setUseOnOOM(0, pool_id(r.pool));
#else
      A::setUseOnOOM(0, pool_id(r.pool), true);
#endif
    }
    if (r.value.find("no_split") != std::string::npos) {
#if TORCH_MINOR < 10
      usage_error("no_split needs torch 2.10 or newer");
#else
      A::setNoSplit(0, pool_id(r.pool));
#endif
    }
  }
  std::vector<void*> live_;
};

// ------------------------------------------------------------------ what is written down

struct Event {
  size_t op;
  std::string action;
  size_t addr, bytes;
  unsigned stream;
  uint64_t pool;
};

const char* action_name(T::TraceEntry::Action a) {
  static const char* names[] = {"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free",
                                "segment_map", "segment_unmap", "snapshot", "oom", "annotate"};
  return names[a];
}

struct Recorder {
  std::vector<Event> events;
  size_t current_op = 0;
  size_t va_base = FAKE_VA_BASE;

  void on_trace(const T::TraceEntry& e) {
    bool is_address = e.action_ != T::TraceEntry::OOM && e.action_ != T::TraceEntry::SNAPSHOT;
    events.push_back({current_op, action_name(e.action_), is_address ? e.addr_ - va_base : e.addr_, e.size_,
                      fake_stream_index(e.stream_), e.mempool_.second});
  }
  // When several pending frees complete in one go, torch walks its streams (and, in some versions, blocks freed under
  // an open pool) in hash order. That order changes nothing afterwards and is no property worth copying: it is made
  // canonical.
  void sort_batches() {
    for (size_t i = 0; i < events.size();) {
      size_t end = i + 1;
      if (events[i].action == "free_completed")
        while (end < events.size() && events[end].op == events[i].op && events[end].action == "free_completed") end++;
      std::sort(events.begin() + i, events.begin() + end,
                [](const Event& a, const Event& b) { return a.addr < b.addr; });
      i = end;
    }
  }
  void write(FILE* out) const {
    fprintf(out, "op,action,addr,bytes,stream,pool\n");
    for (const Event& e : events)
      fprintf(out, "%zu,%s,%zu,%zu,%u,%llu\n", e.op, e.action.c_str(), e.addr, e.bytes, e.stream,
              (unsigned long long)e.pool);
  }
};

struct BlockMaps {
  std::vector<std::pair<size_t, std::vector<T::SegmentInfo>>> taken;  // (op at which it was taken, segments)

  void write(FILE* out, size_t va_base) const {
    fprintf(out, "op,seg_addr,seg_bytes,stream,pool,large,expandable,addr,bytes,requested,state,gc_counter\n");
    for (const auto& [op, segments] : taken)
      for (const auto& s : segments) {
        size_t at = s.address;
        for (const auto& b : s.blocks) {
          const char* state = b.allocated ? "allocated" : b.active ? "pending" : "inactive";
          // requested_size of an inactive block is left over from its last life: not state, so not written.
          fprintf(out, "%zu,%zu,%zu,%u,%llu,%d,%d,%zu,%zu,%zu,%s,%d\n", op, s.address - va_base, s.total_size,
                  fake_stream_index(s.stream), (unsigned long long)s.owner_private_pool_id.second, s.is_large,
                  s.is_expandable, at - va_base, b.size, b.active ? b.requested_size : 0, state,
                  b.active ? 0 : b.gc_counter);
          at += b.size;
        }
      }
  }
};

void write_stats(FILE* out, const D::DeviceStats& d, size_t unexpected_errors) {
  fprintf(out, "name,kind,current,peak,allocated,freed\n");
  auto stat = [&](const char* name, const char* kind, auto& s) {
    fprintf(out, "%s,%s,%lld,%lld,%lld,%lld\n", name, kind, (long long)s.current, (long long)s.peak,
            (long long)s.allocated, (long long)s.freed);
  };
  auto array = [&](const char* name, auto& s) {
    const char* kinds[] = {"all", "small_pool", "large_pool"};
    for (int i = 0; i < 3; i++) stat(name, kinds[i], s[i]);
  };
  array("allocation", d.allocation);
  array("segment", d.segment);
  array("active", d.active);
  array("inactive_split", d.inactive_split);
  array("allocated_bytes", d.allocated_bytes);
  array("reserved_bytes", d.reserved_bytes);
  array("active_bytes", d.active_bytes);
  array("inactive_split_bytes", d.inactive_split_bytes);
  array("requested_bytes", d.requested_bytes);
  stat("oversize_allocations", "all", d.oversize_allocations);
  stat("oversize_segments", "all", d.oversize_segments);
  auto count = [&](const char* name, long long n) { fprintf(out, "%s,all,%lld,,,\n", name, n); };
  count("num_alloc_retries", d.num_alloc_retries);
  count("num_ooms", d.num_ooms);
  count("num_sync_all_streams", d.num_sync_all_streams);
  count("num_device_alloc", d.num_device_alloc);
  count("num_device_free", d.num_device_free);
  count("max_split_size", d.max_split_size);
  count("errors", unexpected_errors);
}

// ------------------------------------------------------------------ options

struct Options {
  std::string program, events, blocks, stats, va = "first-fit";
  std::optional<std::string> conf;
  size_t capacity = 16ull << 30, outside = 0;
  bool bench = false, raw_order = false, stop_on_oom = false;
};

Options parse_options(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; i++) {
    std::string name = argv[i];
    if (name == "--bench") { o.bench = true; continue; }
    if (name == "--raw-order") { o.raw_order = true; continue; }
    if (name == "--stop-on-oom") { o.stop_on_oom = true; continue; }
    if (name == "--version") { printf("torch 2.%d\n", TORCH_MINOR); exit(0); }
    if (i + 1 >= argc) usage_error("missing value for " + name);
    std::string value = argv[++i];
    if (name == "--program") o.program = value;
    else if (name == "--events") o.events = value;
    else if (name == "--blocks") o.blocks = value;
    else if (name == "--stats") o.stats = value;
    else if (name == "--conf") o.conf = value;
    else if (name == "--capacity-mib") o.capacity = std::stoull(value) << 20;
    else if (name == "--capacity-bytes") o.capacity = std::stoull(value);
    else if (name == "--outside-bytes") o.outside = std::stoull(value);
    else if (name == "--va") o.va = value;
    else usage_error("unknown option " + name);
  }
  if (o.program.empty()) usage_error("--program is required");
  return o;
}

// Returns the base that written addresses are relative to: 0 for a script, whose addresses are the recorded ones.
size_t configure_device(const Options& o) {
  fake_va_policy policy = FAKE_VA_FIRST_FIT;
  uint64_t seed = 0;
  if (o.va == "first-fit") policy = FAKE_VA_FIRST_FIT;
  else if (o.va == "descending") policy = FAKE_VA_DESCENDING;
  else if (o.va == "bump") policy = FAKE_VA_BUMP;
  else if (o.va.rfind("random:", 0) == 0) policy = FAKE_VA_RANDOM, seed = std::stoull(o.va.substr(7));
  else if (o.va.rfind("script:", 0) == 0) {
    policy = FAKE_VA_SCRIPT;
    std::ifstream file(o.va.substr(7));
    if (!file) usage_error("cannot read the address script");
    std::string line;
    std::getline(file, line);  // header: bytes,addr
    while (std::getline(file, line)) {
      size_t comma = line.find(',');
      if (comma != std::string::npos)
        fake_script_push(std::stoull(line.substr(0, comma)), std::stoull(line.substr(comma + 1)));
    }
  } else usage_error("unknown address policy " + o.va);
  fake_configure(o.capacity, o.outside, policy, seed);
  return policy == FAKE_VA_SCRIPT ? 0 : FAKE_VA_BASE;
}

template <class Write> void write_file(const std::string& path, Write write) {
  if (path.empty()) return;
  FILE* out = path == "-" ? stdout : fopen(path.c_str(), "w");
  if (!out) usage_error("cannot write " + path);
  write(out);
  if (out != stdout && fclose(out)) usage_error("cannot write " + path);
}

// Speed of the allocator alone: no history, no tracker; the program is parsed beforehand.
int bench(const Program& program) {
  Driver driver(program.slots);
  size_t ooms = 0;
  auto start = std::chrono::steady_clock::now();
  for (const Request& r : program.requests) {
    try { driver.run(r); } catch (const c10::OutOfMemoryError&) { ooms++; }
  }
  double ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
  auto stats = A::getDeviceStats(0);
  printf("ops=%zu ns_per_op=%.1f ooms=%zu retries=%lld peak_reserved=%lld device_calls=%lld\n", program.requests.size(),
         ns / program.requests.size(), ooms, (long long)stats.num_alloc_retries,
         (long long)stats.reserved_bytes[0].peak, (long long)(stats.num_device_alloc + stats.num_device_free));
  return 0;
}

// torch reads its settings while its libraries load, so they must be in the environment before this process starts.
// Heap addresses are fixed as well: torch keeps a few sets in the hash order of pointers.
void restart_prepared(const Options& o, char** argv) {
  const char* now = getenv(CONF_VARIABLE);
  bool settings_there = !o.conf || (now && *o.conf == now);
  int persona = personality(0xffffffff);
  bool addresses_fixed = persona < 0 || (persona & ADDR_NO_RANDOMIZE) || getenv("ORACLE_KEEP_ASLR");
  if (settings_there && (addresses_fixed || getenv("ORACLE_RESTARTED"))) return;
  if (!addresses_fixed) personality(persona | ADDR_NO_RANDOMIZE);
  if (o.conf) setenv(CONF_VARIABLE, o.conf->c_str(), 1);
  setenv("ORACLE_RESTARTED", "1", 1);
  execv("/proc/self/exe", argv);
  usage_error("cannot restart with the settings in place");
}

}  // namespace

int main(int argc, char** argv) {
  Options options = parse_options(argc, argv);
  restart_prepared(options, argv);
  // Expandable segments would ask NVML whether memory handles can be shared between hosts. No decision hangs on it.
  setenv("TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC", "0", 1);
  size_t va_base = configure_device(options);
  Program program = read_program(options.program);
  c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
#ifdef HAS_P2P_CACHE
  c10::cuda::detail::init_p2p_access_cache(1);  // torch does this when it initialises CUDA; 2.15 insists
#endif
  A::init(1);
  if (options.bench) return bench(program);

  Recorder recorder;
  recorder.va_base = va_base;
  recorder.events.reserve(program.requests.size() * 3);
  A::attachAllocatorTraceTracker([&](const T::TraceEntry& e) { recorder.on_trace(e); });
  BlockMaps maps;
  auto take_snapshot = [&](size_t op) { maps.taken.emplace_back(op, A::snapshot().segments); };

  Driver driver(program.slots);
  size_t errors = 0;
  for (size_t i = 0; i < program.requests.size(); i++) {
    recorder.current_op = i;
    const Request& r = program.requests[i];
    size_t before = recorder.events.size();
    try {
      driver.run(r);
      if (r.op == Op::snapshot) take_snapshot(i);
    } catch (const c10::OutOfMemoryError&) {
      // Normally the allocator has just traced `oom`. A refusal by policy throws without a trace entry.
      if (recorder.events.size() == before || recorder.events.back().action != "oom")
        recorder.events.push_back({i, "rejected", 0, r.bytes, unsigned(r.stream < 0 ? 0 : r.stream), 0});
      if (options.stop_on_oom) break;
    } catch (const c10::Error& e) {
      errors++;
      fprintf(stderr, "oracle: op %zu: %s\n", i, e.what_without_backtrace());
      recorder.events.push_back({i, "error", 0, r.bytes, unsigned(r.stream < 0 ? 0 : r.stream), r.pool});
    }
  }
  size_t traced = recorder.events.size();  // the final block map must not add a `snapshot` event
  take_snapshot(program.requests.size());
  recorder.events.resize(traced);

  if (!options.raw_order) recorder.sort_batches();
  write_file(options.events, [&](FILE* out) { recorder.write(out); });
  write_file(options.blocks, [&](FILE* out) { maps.write(out, va_base); });
  write_file(options.stats, [&](FILE* out) { write_stats(out, A::getDeviceStats(0), errors); });
  if (fake_script_misses())
    fprintf(stderr, "oracle: %zu ranges were not in the address script\n", fake_script_misses());
  fflush(stdout);
  _exit(0);  // live blocks are not handed back: torch's exit path is not part of the experiment
}
