//! The words of the grammar: of failing, of memory, of places, and of what only speaks of a failure.

use super::Place;

/// What a line must hold to be read: the middle of the words, so that their case at the beginning does not matter.
pub(crate) const TRIGGERS: [&str; 93] = [
    // A lack of memory.
    "UT OF MEMORY",
    "ut Of Memory",
    "ut-of-memory",
    "ut of GPU",
    "ut of gpu",
    "ut of VRAM",
    "ut of RAM",
    "ut of video memory",
    "ut of device memory",
    "ut of host memory",
    "ut of system memory",
    "ut of shared memory",
    "ut of physical memory",
    "ut of heap memory",
    "ot enough ",
    "nsufficient ",
    "emory exhausted",
    "emory is exhausted",
    "heap space",
    "exceeded memory limit",
    "xceeded job memory limit",
    "xceeded step memory limit",
    "emory limit exceeded",
    "emory limit reached",
    "more than total mem",
    "OOM",
    // A request that failed.
    "ail to alloc",
    "AILED TO ALLOC",
    "ailed to alloc ",
    "ailed to reserve",
    "ailed to create buffer",
    "ailed to create a buffer",
    "nable to alloc",
    "annot alloc",
    "an't alloc",
    "an not alloc",
    "ould not alloc",
    "ouldn't alloc",
    "rror alloc",
    "ailure alloc",
    "llocation fail",
    "llocation error",
    "llocation of ",
    "llocations fail",
    "lloc fail",
    "lloc() fail",
    "lloc FAIL",
    "LLOC FAIL",
    "lloc error",
    "llocate fail",
    "llocateMemory",
    "lloc: failed",
    "ttempting to allocate",
    "ttempted to allocate",
    "AllocInternalTagged",
    // Codes.
    "UT_OF_MEMORY",
    "UT_OF_HOST_MEMORY",
    "UT_OF_DEVICE_MEMORY",
    "UT_OF_GPU_MEMORY",
    "UT_OF_RESOURCES",
    "UTOFMEMORY",
    "utOfMemory",
    "utOfDeviceMemory",
    "utOfHostMemory",
    "LLOC_FAIL",
    "LLOCATION_FAIL",
    "NO_MEMORY",
    "ENOMEM",
    // Ends by a signal.
    "code 137",
    "code: 137",
    "code=137",
    "Code 137",
    "Code: 137",
    "Code=137",
    "Code\":137",
    "(137)",
    "tatus 137",
    "tatus: 137",
    "tatus=137",
    "ode -9",
    "ode: -9",
    "ode=-9",
    "ode = -9",
    "ignal 9",
    "ignal: 9",
    "ignal: killed",
    "IGKILL",
    // In other languages: there is not enough memory.
    "内存不足",
    "显存不足",
    "メモリ不足",
    "메모리 부족",
    "едостаточно памяти",
    "nicht genügend Speicher",
];

/// Whole sentences of languages that do not write words apart.
pub(super) const SENTENCES: [(&str, Place); 6] = [
    ("内存不足", Place::Host),
    ("显存不足", Place::Device),
    ("メモリ不足", Place::Unknown),
    ("메모리 부족", Place::Unknown),
    ("едостаточно памяти", Place::Unknown),
    ("nicht genügend speicher", Place::Unknown),
];

/// Names that stand for a failure by themselves.
pub(super) const CODES: [&str; 15] = [
    "OUT_OF_MEMORY",
    "OUT_OF_HOST_MEMORY",
    "OUT_OF_DEVICE_MEMORY",
    "OUT_OF_GPU_MEMORY",
    "OUT_OF_RESOURCES",
    "OutOfMemory",
    "OutOfDeviceMemory",
    "OutOfHostMemory",
    "OUTOFMEMORY",
    "ALLOC_FAIL",
    "ALLOCATION_FAIL",
    "NO_MEMORY",
    "bad_alloc",
    "ENOMEM",
    "AllocInternalTagged",
];

/// Words that may stand between a lack and its memory: `out of GPU and shared host memory`.
pub(super) const BESIDE_MEMORY: [&str; 28] = [
    "gpu", "device", "host", "video", "system", "shared", "and", "or", "the", "physical", "virtual", "cuda", "dedicated",
    "free", "available", "global", "contiguous", "graphics", "cpu", "unified", "pinned", "heap", "java", "dram", "usable",
    "s", "your", "allocatable",
];

/// Memory.
pub(super) const MEMORY: [&str; 8] = ["memory", "vram", "ram", "hbm", "mem", "resources", "memories", "space"];

/// Words of failing, beside those that begin with `fail`.
pub(super) const FAILING: [&str; 7] = ["cannot", "unable", "couldn", "can't", "couldn't", "refused", "impossible"];

/// Words before a failure that only speak of it.
pub(super) const HEDGES: [&str; 43] = [
    "if", "may", "might", "could", "can", "avoid", "avoids", "avoiding", "prevent", "prevents", "preventing", "case", "when",
    "unless", "would", "should", "risk", "risks", "consider", "handle", "handles", "handling", "test", "testing", "check",
    "likely", "potential", "potentially", "possible", "possibly", "until", "how", "why", "whenever", "example",
    "without", "never", "fix", "fixes", "fixed", "reduce", "against", "where",
];

/// Words behind a failure that say that the program went on, or that there was none.
pub(super) const RECOVERIES: [&str; 13] = [
    "fallback", "falling back", "fall back", "instead", "retrying", "will retry", "trying again", "not a failure", "recovered",
    "switching to", "spilling", "will be slower", "not caching",
];

/// Other reasons of a failed request.
pub(super) const OTHER_REASONS: [&str; 14] = [
    "driver version", "no cuda-capable", "invalid argument", "illegal memory access", "not supported", "permission denied",
    "initialization error", "unspecified launch", "invalid device", "skipped", "stream is capturing", "% of free", "benchmark choice", "cl_success",
];

/// Words of a line that failed while a process was set up on a device.
pub(super) const SET_UP: [&str; 7] =
    ["getdevicecount", "ctxcreate", "create context", "creating context", "primary context", "setdevice", "cuinit"];

/// How lines of source code begin, and titles and lists of documents.
pub(super) const SOURCE: [&str; 17] = [
    "except ", "except:", "catch ", "raise ", "throw ", "if ", "elif ", "else:", "#", "//", "/*", "assert ", "def ", "return ",
    "import ", "from ", "try:",
];

/// Words of a line that reports an error.
pub(super) const ERRORS: [&str; 19] = [
    "error", "fatal", "exception", "fail", "abort", "panicked", "terminate", "returned", "returns", "errcode", "killed",
    "warn", "assert", "status", "code", "!!!", "refused", "caused by", "oom",
];

/// Whose memory it is, by words of the line in lower case. The earlier row counts.
pub(super) const PLACES: [(&str, Place); 87] = [
    ("pinned", Place::Pinned),
    ("hostalloc", Place::Pinned),
    ("mallochost", Place::Pinned),
    ("page-locked", Place::Pinned),
    ("allocmapped", Place::Pinned),
    ("/dev/shm", Place::Shared),
    ("shm_open", Place::Shared),
    ("of gpu", Place::Device),
    ("video memory", Place::Device),
    ("vram", Place::Device),
    ("device memory", Place::Device),
    ("ur_result", Place::Device),
    ("ur backend", Place::Device),
    ("pi_error", Place::Device),
    ("level_zero", Place::Device),
    ("ze_result", Place::Device),
    ("cl_out", Place::Device),
    ("cl_mem", Place::Device),
    ("backend_cpu", Place::Host),
    ("cpu buffer", Place::Host),
    ("aligned_malloc", Place::Host),
    ("outofhostmemory", Place::Host),
    ("out_of_host_memory", Place::Host),
    ("host memory", Place::Host),
    ("sysmem", Place::Host),
    ("cma_alloc", Place::Host),
    ("on host", Place::Host),
    ("gpu", Place::Device),
    ("cuda", Place::Device),
    ("custream", Place::Device),
    ("cumem", Place::Device),
    ("cuctx", Place::Device),
    ("hip", Place::Device),
    ("rocm", Place::Device),
    ("vulkan", Place::Device),
    ("vkallocate", Place::Device),
    ("vk_error", Place::Device),
    ("vk::", Place::Device),
    ("metal", Place::Device),
    ("mtl", Place::Device),
    ("opencl", Place::Device),
    ("sycl", Place::Device),
    ("d3d1", Place::Device),
    ("direct3d", Place::Device),
    ("dxgi", Place::Device),
    ("directml", Place::Device),
    ("npu", Place::Device),
    ("rtmalloc", Place::Device),
    ("aclrt", Place::Device),
    ("hpu", Place::Device),
    ("tpu", Place::Device),
    ("hbm", Place::Device),
    ("nvenc", Place::Device),
    ("openencodesession", Place::Device),
    ("cuvid", Place::Device),
    ("nvmap", Place::Device),
    ("nvgpu", Place::Device),
    ("optix", Place::Device),
    ("tdrv", Place::Device),
    ("mindspore", Place::Device),
    ("amdgpu", Place::Device),
    ("ops_amd", Place::Device),
    ("cudnn", Place::Device),
    ("cublas", Place::Device),
    ("lower resolution", Place::Device),
    ("slurm", Place::Host),
    ("srun", Place::Host),
    ("cgroup", Place::Host),
    ("bad_alloc", Place::Host),
    ("llvm error", Place::Host),
    ("array buffer", Place::Host),
    ("arraybuffer", Place::Host),
    ("wasm", Place::Host),
    ("java", Place::Host),
    ("enomem", Place::Host),
    ("cannot allocate memory", Place::Host),
    ("memory allocation of", Place::Host),
    ("runtime: out of memory", Place::Host),
    ("heap", Place::Host),
    ("container", Place::Host),
    ("replica", Place::Host),
    ("opencv", Place::Host),
    ("node heap", Place::Host),
    (" ram", Place::Host),
    ("physical memory", Place::Host),
    ("page alloc", Place::Host),
    ("cpu", Place::Host),
];
