//! CUPTI and the driver, loaded at run time.
//!
//! # Source
//! `cupti_callbacks.h` of CUPTI 11.8, 12.8, 13.0 and 13.5, and `cuda.h` 13.0.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::mem::transmute;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use highwater_problem::Problem;

/// `CUPTI_CB_DOMAIN_DRIVER_API` and `CUPTI_CB_DOMAIN_RESOURCE`
pub(crate) const DRIVER: c_int = 1;
pub(crate) const RESOURCE: c_int = 3;
/// `CUPTI_CBID_RESOURCE_MODULE_LOADED`
pub(crate) const MODULE_LOADED: c_uint = 6;
/// `CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED`
const HAS_SUBSCRIBER: c_int = 39;
/// `CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT` and `CU_MEMPOOL_ATTR_USED_MEM_CURRENT`
const RESERVED_NOW: c_int = 5;
const USED_NOW: c_int = 7;
/// `CU_DEVICE_ATTRIBUTE_INTEGRATED`
const INTEGRATED: c_int = 18;

/// `CUpti_CallbackData`
#[repr(C)]
pub(crate) struct CallbackData {
    pub(crate) site: c_int,
    pub(crate) name: *const c_char,
    pub(crate) arguments: *const u64,
    pub(crate) returned: *const c_int,
    pub(crate) symbol: *const c_char,
    pub(crate) context: *mut c_void,
    pub(crate) context_number: u32,
}

pub(crate) type Callback = extern "C" fn(*mut c_void, c_int, c_uint, *const CallbackData);

type Subscribe = unsafe extern "C" fn(*mut *mut c_void, Callback, *mut c_void) -> c_int;
type Unsubscribe = unsafe extern "C" fn(*mut c_void) -> c_int;
type Enable = unsafe extern "C" fn(u32, *mut c_void, c_int, c_uint) -> c_int;
type GetDevice = unsafe extern "C" fn(*mut c_void, *mut u32) -> c_int;
type GetVersion = unsafe extern "C" fn(*mut u32) -> c_int;
type ResultString = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;
type MemGetInfo = unsafe extern "C" fn(*mut usize, *mut usize) -> c_int;
type PoolGet = unsafe extern "C" fn(*mut c_void, c_int, *mut c_void) -> c_int;
type DefaultPool = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
type CurrentDevice = unsafe extern "C" fn(*mut c_int) -> c_int;
type Attribute = unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int;

/// The functions that are used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cupti {
    subscribe: Subscribe,
    unsubscribe: Unsubscribe,
    enable: Enable,
    get_device: GetDevice,
    get_version: GetVersion,
    result_string: Option<ResultString>,
    mem_get_info: MemGetInfo,
    current_device: CurrentDevice,
    attribute: Option<Attribute>,
    pool_get: Option<PoolGet>,
    default_pool: Option<DefaultPool>,
}

/// A subscription, as a number that threads may share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subscription(usize);

/// Names by which the loader may have CUPTI already, or find it.
const NAMES: [&CStr; 5] =
    [c"libcupti.so.13", c"libcupti.so.12", c"libcupti.so.11.8", c"libcupti.so.11.7", c"libcupti.so"];

impl Cupti {
    /// Loads CUPTI: what the process has already, else what lies in the directories, else what the system has. Gives its file, too.
    pub(crate) fn load(directories: &[PathBuf]) -> Result<(Self, PathBuf), Problem> {
        let loaded = NAMES.iter().find_map(|name| open(name, libc::RTLD_NOLOAD)).or_else(|| {
            let beside = directories.iter().flat_map(|directory| NAMES.iter().map(|name| path_in(directory, name)));
            beside.flatten().find_map(|path| open(&path, 0))
        });
        let library = loaded.or_else(|| NAMES.iter().find_map(|name| open(name, 0))).ok_or_else(|| {
            Problem::new("the driver cannot be recorded: CUPTI is not here")
                .because("no `libcupti.so` is loaded, in PyTorch's packages, or where the system looks")
                .hint(
                    "install the wheel of your CUDA, such as `pip install nvidia-cuda-cupti-cu12`, or the CUDA toolkit",
                )
        })?;
        let driver = open(c"libcuda.so.1", 0).ok_or_else(|| {
            Problem::new("the driver cannot be recorded: there is none").because("`libcuda.so.1` cannot be loaded")
        })?;
        let missing = |name: &str| {
            Problem::new("the driver cannot be recorded")
                .because(format!("`{name}` is missing: CUPTI or the driver is too old"))
        };
        macro_rules! function {
            ($library:expr, $name:literal) => {{
                let found = symbol($library, $name);
                // SAFETY: the function has this type in every release that has it; a null pointer is `None`.
                unsafe { transmute::<*mut c_void, Option<_>>(found) }
            }};
        }
        macro_rules! needed {
            ($library:expr, $name:literal) => {
                function!($library, $name).ok_or_else(|| missing($name.to_str().unwrap_or_default()))?
            };
        }
        let cupti = Self {
            subscribe: needed!(library, c"cuptiSubscribe"),
            unsubscribe: needed!(library, c"cuptiUnsubscribe"),
            enable: needed!(library, c"cuptiEnableCallback"),
            get_device: needed!(library, c"cuptiGetDeviceId"),
            get_version: needed!(library, c"cuptiGetVersion"),
            result_string: function!(library, c"cuptiGetResultString"),
            mem_get_info: needed!(driver, c"cuMemGetInfo_v2"),
            current_device: needed!(driver, c"cuCtxGetDevice"),
            attribute: function!(driver, c"cuDeviceGetAttribute"),
            pool_get: function!(driver, c"cuMemPoolGetAttribute"),
            default_pool: function!(driver, c"cuDeviceGetDefaultMemPool"),
        };
        let file = highwater_callers::file_of(cupti.subscribe as usize);
        Ok((cupti, file.map(PathBuf::from).unwrap_or_default()))
    }

    /// Has calls and loaded modules reported.
    pub(crate) fn subscribe(
        &self,
        callback: Callback,
        calls: impl Iterator<Item = u32>,
    ) -> Result<Subscription, Problem> {
        let mut handle = null_mut();
        // SAFETY: the handle is written; the callback lives as long as the process.
        let code = unsafe { (self.subscribe)(&raw mut handle, callback, null_mut()) };
        if code != 0 {
            return Err(self.refused(code));
        }
        // A call that this CUPTI does not know is one that the program cannot make by it.
        for number in calls {
            // SAFETY: the handle is a subscription.
            unsafe { (self.enable)(1, handle, DRIVER, number) };
        }
        // SAFETY: as above.
        unsafe { (self.enable)(1, handle, RESOURCE, MODULE_LOADED) };
        Ok(Subscription(handle as usize))
    }

    fn refused(&self, code: c_int) -> Problem {
        let problem = Problem::new("the driver cannot be recorded");
        if code == HAS_SUBSCRIBER {
            return problem
                .because("another profiler has CUPTI, which serves one at a time")
                .hint("record without `torch.profiler`, Nsight Systems or another profiler in the same process");
        }
        let mut text = std::ptr::null();
        // SAFETY: the text is written where there is one, and is never freed.
        let named =
            self.result_string.is_some_and(|function| unsafe { function(code, &raw mut text) } == 0) && !text.is_null();
        let name = if named {
            // SAFETY: a text of CUPTI's own.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        } else {
            "unknown".to_owned()
        };
        problem.because(format!("CUPTI refused with error {code} ({name})"))
    }

    /// Ends a subscription.
    pub(crate) fn unsubscribe(&self, subscription: Subscription) {
        // SAFETY: it is ended once, by who took it out of the recorder.
        unsafe { (self.unsubscribe)(subscription.0 as *mut c_void) };
    }

    /// The version, as a number.
    pub(crate) fn version(&self) -> u32 {
        let mut version = 0;
        // SAFETY: it is written.
        unsafe { (self.get_version)(&raw mut version) };
        version
    }

    /// The device of a context.
    pub(crate) fn device_of(&self, context: *mut c_void) -> Option<i32> {
        let mut device = 0;
        // SAFETY: CUPTI handed over the context.
        let is_known = !context.is_null() && unsafe { (self.get_device)(context, &raw mut device) } == 0;
        if is_known { i32::try_from(device).ok() } else { None }
    }

    /// The device of the thread's current context, the memory of it that is not free, and all its memory.
    pub(crate) fn used(&self) -> Option<(i32, u64, u64)> {
        let (mut device, mut free, mut total) = (0, 0, 0);
        // SAFETY: all are written; without a context the functions say so.
        let is_known = unsafe {
            (self.current_device)(&raw mut device) == 0 && (self.mem_get_info)(&raw mut free, &raw mut total) == 0
        };
        is_known.then_some((device, total.saturating_sub(free) as u64, total as u64))
    }

    /// Whether a device has the machine's memory, whose free part changes with every program.
    pub(crate) fn shares_memory(&self, device: i32) -> bool {
        let mut value = 0;
        // SAFETY: it is written.
        self.attribute.is_some_and(|function| unsafe { function(&raw mut value, INTEGRATED, device) } == 0)
            && value != 0
    }

    /// The pool that a device's stream-ordered allocations come from.
    pub(crate) fn default_pool(&self, device: i32) -> Option<u64> {
        let mut pool = null_mut();
        // SAFETY: it is written.
        let is_known = self.default_pool.is_some_and(|function| unsafe { function(&raw mut pool, device) } == 0);
        is_known.then_some(pool as u64)
    }

    /// Bytes that a pool has of the card, and of them those in use.
    pub(crate) fn pool(&self, pool: u64) -> Option<(u64, u64)> {
        let function = self.pool_get?;
        let get = |attribute| {
            let mut bytes = 0_u64;
            // SAFETY: both attributes are numbers of eight bytes; the pool is one that an allocation was made from.
            let code = unsafe { function(pool as *mut c_void, attribute, (&raw mut bytes).cast()) };
            (code == 0).then_some(bytes)
        };
        Some((get(RESERVED_NOW)?, get(USED_NOW)?))
    }
}

fn path_in(directory: &Path, name: &CStr) -> Option<CString> {
    let mut path = directory.as_os_str().as_bytes().to_vec();
    path.push(b'/');
    path.extend(name.to_bytes());
    CString::new(path).ok()
}

fn open(name: &CStr, flags: c_int) -> Option<*mut c_void> {
    // SAFETY: a name that ends; what runs when a library is loaded is the library's own affair.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | flags) };
    (!handle.is_null()).then_some(handle)
}

fn symbol(library: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: the library is loaded, and the name ends.
    unsafe { libc::dlsym(library, name.as_ptr()) }
}
