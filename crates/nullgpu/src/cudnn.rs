//! The installed cuDNN, which is asked for the engines of convolutions. A process of its own has it loaded, for as long as a run lasts:
//! the library is large, and what goes wrong in it is to end no program.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use highwater_driver::{Card, Multiprocessor};

use crate::interpreter::Interpreter;
use crate::prepare::{Machine, Prepared};

/// The part of cuDNN that has the backend interface and loads the others.
const LIBRARY: &str = "libcudnn_graph.so.9";
/// The libraries that cuDNN loads, in whose place the null GPU's are: it has to find the functions, not to call them.
const STOOD_IN_FOR: [&str; 3] = ["libcublasLt.so", "libcuda.so", "libnvrtc.so"];

/// A process that answers for the installed cuDNN; it is ended with this.
#[derive(Debug)]
pub(crate) struct EngineServer {
    process: Child,
    socket: PathBuf,
}

impl EngineServer {
    /// Opens one in the directory of a run, with the modules that were written to `python`. Nothing if there is no cuDNN beside the PyTorch
    /// that can be loaded, or no process can be started: convolutions are estimated then.
    pub(crate) fn open(
        interpreter: &Interpreter,
        prepared: &Prepared,
        machine: &Machine,
        python: &Path,
        directory: &Path,
    ) -> Option<Self> {
        let library = installed(interpreter)?;
        let socket = directory.join("cudnn");
        let process = start(interpreter, prepared, machine, python, &library, listener(&socket)?).ok()?;
        Some(EngineServer { process, socket })
    }

    /// What tells the program's processes where it is.
    pub(crate) fn variable(&self) -> (&'static str, &Path) {
        ("HIGHWATER_NULLGPU_ENGINES", &self.socket)
    }
}

impl Drop for EngineServer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A socket that listens, for the process to have as its standard input. Nothing if the path is too long for one.
#[cfg(unix)]
fn listener(path: &Path) -> Option<Stdio> {
    let listener = std::os::unix::net::UnixListener::bind(path).ok()?;
    Some(std::os::fd::OwnedFd::from(listener).into())
}

/// No dry runs are made on other systems.
#[cfg(not(unix))]
fn listener(_path: &Path) -> Option<Stdio> {
    None
}

fn start(
    interpreter: &Interpreter,
    prepared: &Prepared,
    machine: &Machine,
    python: &Path,
    library: &Path,
    listener: Stdio,
) -> io::Result<Child> {
    let stand_ins = prepared.preload.iter().enumerate().filter(|(index, path)| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        *index == 0 || STOOD_IN_FOR.iter().any(|stem| name.starts_with(stem))
    });
    let preload: Vec<_> = stand_ins.map(|(_, path)| path.to_string_lossy()).collect();
    Command::new(&interpreter.program)
        // Neither the user's modules nor the run's own.
        .args(["-I", "-S"])
        .arg(python.join("highwater_dryrun/engines.py"))
        .arg(library)
        .arg(properties(machine, prepared.torch.cuda))
        .envs(prepared.environment(&Machine { trace: None, ..machine.clone() }, None))
        .env("LD_PRELOAD", preload.join(":"))
        // The core sees to it that the process ends with this one.
        .env("HIGHWATER_NULLGPU_PARENT", std::process::id().to_string())
        .stdin(listener)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// Where cuDNN is installed: by a wheel, by conda, or by the system.
fn installed(interpreter: &Interpreter) -> Option<PathBuf> {
    let packages = [&interpreter.site_packages].into_iter().chain(&interpreter.other_packages);
    let wheels = packages.map(|packages| packages.join("nvidia/cudnn/lib"));
    // Of a prefix, the packages are in `lib/python3.12/site-packages`.
    let prefix = interpreter.site_packages.ancestors().nth(2).map(Path::to_owned);
    let system = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/cuda/lib64"].map(PathBuf::from);
    let mut places = wheels.chain(prefix).chain(system).map(|place| place.join(LIBRARY));
    places.find(|path| path.is_file())
}

/// A GPU as cuDNN describes one. The rates of its clocks are an H200's: they decide hardly ever.
///
/// # Source
/// What cuDNN 9.19 said of an H200 (`CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION`). Of 1,800 passes of convolutions, other values of the
/// clocks' rates changed 32 and 62, and those of the memory, the cache and the name none.
fn properties(machine: &Machine, (major, minor): (u32, u32)) -> String {
    let card: &Card = machine.card;
    let multiprocessor = Multiprocessor::of(card.compute_capability);
    serde_json::json!({
        "maxGridSize": [i32::MAX, 65535, 65535],
        "maxBlockSize": [1024, 1024, 64],
        "regsPerBlock": 65536,
        "multiProcessorCount": card.multiprocessors,
        "warpSize": 32,
        "maxSharedMemoryPerBlock": 48 << 10,
        "maxSharedMemoryPerBlockOptin": multiprocessor.shared_opt_in_bytes,
        "reservedSharedMemoryPerBlock": multiprocessor.shared_reserved_bytes,
        "maxRegistersPerSM": 65536,
        "maxCtasPerSM": multiprocessor.blocks,
        "maxThreadsPerBlock": 1024,
        "maxThreadsPerSM": multiprocessor.threads,
        "pciDeviceId": 0,
        "isTccDriver": 0,
        "supportCoopLaunch": 1,
        "totalGlobalMem": machine.memory_bytes.unwrap_or(card.memory_bytes),
        "smClockRateKHz": 1_980_000,
        "memClockRateKHz": 3_201_000,
        "l2CacheSize": card.l2_bytes,
        "cudaDeviceId": 0,
        "deviceVer": card.compute_capability.0 * 100 + card.compute_capability.1 * 10,
        "driverVer": major * 1000 + minor * 10,
        "deviceName": card.name,
    })
    .to_string()
}
