//! Failures that come with memory and are not a lack of it, and sizes that are no sizes.

use highwater_allocator::settings::{NEW_VARIABLE, VARIABLE, refused_key_hint};

use highwater_units::size;

use super::because;
use crate::diagnosis::{Cause, Diagnosis};
use crate::log::{Event, Found};
use crate::steps::Step;

/// The answer to it.
pub(super) fn explain(event: &Event, found: &Found) -> Option<(Diagnosis, Vec<Step>)> {
    Some(match event.id {
        "setting" => setting(event),
        "setting-late" => set_late(),
        "setting-watermark" => watermarks(),
        "setting-share" => share_of_engine(event),
        "variable" => variable(event),
        "vllm-cumem-invalid" | "mapping-saver" => invalid_in_pool(event),
        "mapping" => invalid_mapping(event),
        "bad-size" => bad_size(event),
        "capture" => capture(),
        "assertion" => assertion(event, found),
        "busy" => busy(found),
        "launch" => launch(),
        "hardware" => hardware("the GPU found an error in its memory that it cannot correct"),
        "xid" => xid(event),
        "quota" => quota(event),
        "illegal-access" => illegal_access(event),
        "kernel-image" => kernel_image(event),
        "old-driver" => old_driver(event),
        "no-library" => no_library(event),
        "all-reduce" => all_reduce(found),
        "loss-nan" => no_number(),
        "cudnn-unsupported" => unsupported(),
        _ => return None,
    })
}

/// Buffers of other GPUs that cannot be opened while graphs are captured.
fn all_reduce(found: &Found) -> (Diagnosis, Vec<Step>) {
    let text = "the engine's own all-reduce kernel could not share its buffers between the GPUs while it captured CUDA graphs: the driver \
                refused handles between processes; the text does not say that memory ran out";
    let without = Step::new(
        "other-kernel",
        "run without that kernel: NCCL takes its place",
        "a smaller share of the GPU or shorter context changes nothing here",
    )
    .with(match found.surroundings.engine {
        Some("vllm") => "--disable-custom-all-reduce; to look further, --enforce-eager",
        _ => "--disable-custom-all-reduce; to look further, --disable-cuda-graph (SGLang), --enforce-eager (vLLM)",
    });
    let settings = Step::new(
        "drop-expandable-segments",
        "turn expandable segments off, and let the container's processes share memory",
        "handles between processes are of whole allocations of the driver, and need a common IPC namespace",
    )
    .with("unset PYTORCH_CUDA_ALLOC_CONF; docker run --ipc=host");
    (because(Cause::NotMemory, text), vec![without, settings])
}

/// PyTorch cannot read its settings.
fn setting(event: &Event) -> (Diagnosis, Vec<Step>) {
    // The text is read without its blanks.
    let key = event.text("key").map(|key| key.trim_matches('\''));
    let switch = event.text("switch");
    let (what, how) = match (key, switch) {
        (Some(key), _) => (
            format!("it does not know the setting `{key}`"),
            match refused_key_hint(key) {
                Some(hint) => match hint.strip_prefix("did you mean ").and_then(|near| near.strip_suffix('?')) {
                    Some(near) => format!("the nearest setting that it knows is {near}"),
                    None => hint,
                },
                None => "write `KEY:VALUE,KEY:VALUE`".to_owned(),
            },
        ),
        (None, Some(switch)) => (
            format!("`{switch}` is neither `True` nor `False`"),
            "write `True` or `False`, with a capital letter".to_owned(),
        ),
        (None, None) => (
            "a key, a value or a separator is wrong".to_owned(),
            "write `KEY:VALUE,KEY:VALUE` without quotation marks or `=`; sizes are whole MiB (`max_split_size_mb` above 20), a threshold lies between 0 and 1"
                .to_owned(),
        ),
    };
    let text = format!(
        "PyTorch's allocator could not read its settings (`{VARIABLE}` or `{NEW_VARIABLE}`), so it refused to start: {what}; memory did not \
         run out"
    );
    let fix =
        Step::new("fix-setting", "correct the variable, or remove the setting that this release does not know", how);
    (
        because(Cause::NotMemory, text),
        vec![fix.with(format!(
            "unset {VARIABLE} {NEW_VARIABLE}, or {VARIABLE}=expandable_segments:True (torch 2.1 or newer)"
        ))],
    )
}

/// The backend is chosen when torch is imported.
fn set_late() -> (Diagnosis, Vec<Step>) {
    let text = format!(
        "the settings name another allocator than the one that PyTorch chose when it was imported: `{VARIABLE}` changed after that; memory did \
         not run out"
    );
    let fix = Step::new(
        "fix-setting",
        "set the variable before torch is imported, in the shell or in the first lines of the program",
        "`backend` cannot change later",
    );
    (because(Cause::NotMemory, text), vec![fix.with(format!("{VARIABLE}=backend:cudaMallocAsync python main.py"))])
}

/// The lower of two limits must not be above the upper one.
fn watermarks() -> (Diagnosis, Vec<Step>) {
    let text = "PyTorch's allocator on MPS refused its limits: the low watermark ratio is 1.4 by default and must not be above the high one \
                that is set, or a ratio is out of range; memory did not run out";
    let fix = Step::new(
        "fix-setting",
        "set both ratios, the low one below the high one, or neither",
        "0.0 turns a limit off, and the defaults are 1.7 and 1.4",
    );
    (
        because(Cause::NotMemory, text),
        vec![fix.with("unset PYTORCH_MPS_HIGH_WATERMARK_RATIO, or PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.7 PYTORCH_MPS_LOW_WATERMARK_RATIO=0.6")],
    )
}

fn share_of_engine(event: &Event) -> (Diagnosis, Vec<Step>) {
    let share =
        event.decimal("share").map_or_else(String::new, |share| format!(", and it is set to {}", share.value()));
    let text = format!(
        "the engine refused to start: its share of the GPU (`gpu_memory_utilization`) must be at most 1{share}; memory did not run out"
    );
    let fix = Step::new("fix-setting", "give the share as a fraction, such as 0.9", "0.9 is 90 % of the GPU");
    (because(Cause::NotMemory, text), vec![fix.with("--gpu-memory-utilization 0.9")])
}

/// The variable of an engine, and its value as written, where the text has both.
pub(super) fn named_variable(event: &Event) -> (&str, Option<&str>) {
    let setting = event.text("setting").unwrap_or("a variable");
    match setting.split_once("value=") {
        Some((name, rest)) => {
            (name, rest.split_once("default=").map(|(value, _)| value).filter(|value| !value.is_empty()))
        }
        None => (setting, None),
    }
}

/// How to write the variable that an engine could not read.
pub(super) fn fix_variable(event: &Event) -> Step {
    let (name, value) = named_variable(event);
    let written = value.map_or_else(String::new, |value| format!("`{value}` is not a whole number: "));
    let detail = format!("{written}the engine ignored it and took its default");
    if name == "OLLAMA_GPU_OVERHEAD" {
        let bytes = value.and_then(in_bytes).unwrap_or(1 << 30);
        let step = Step::new("fix-setting", "give `OLLAMA_GPU_OVERHEAD` in bytes, without a unit", detail);
        return step.with(format!("OLLAMA_GPU_OVERHEAD={bytes}"));
    }
    Step::new("fix-setting", format!("give `{name}` a value that the engine can read"), detail)
}

/// Bytes of `8G`, `512MB` or `2GiB`.
fn in_bytes(value: &str) -> Option<u64> {
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = value[..digits].parse().ok()?;
    let shift = match value[digits..].to_ascii_lowercase().as_str() {
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

/// An engine went on with the default of a variable.
fn variable(event: &Event) -> (Diagnosis, Vec<Step>) {
    let (name, value) = named_variable(event);
    let value = value.map_or_else(String::new, |value| format!("={value}"));
    let text =
        format!("{} could not read the variable `{name}{value}` and uses its default: this is a warning", event.origin);
    (because(Cause::Warning, text), vec![fix_variable(event)])
}

/// A pool's allocator passes something on that this driver does not know.
fn invalid_in_pool(event: &Event) -> (Diagnosis, Vec<Step>) {
    let (by, newer) = if event.id == "mapping-saver" {
        ("torch_memory_saver", "use matching releases of torch_memory_saver, torch and the driver")
    } else {
        (
            "cumem, sleep mode",
            "use a newer vLLM: 0.16 and some later releases ask the driver for attributes that it may not know",
        )
    };
    let text = format!(
        "the driver refused a call of the engine's own allocator ({by}) as invalid, and pages without memory or messages of a full GPU may \
         follow from that: this is not a lack of memory"
    );
    let newer = Step::new(
        "newer-release",
        newer,
        "a failed question about the driver counts as a failed allocation there, after which no memory is mapped",
    );
    let without = Step::new(
        "without-sleep",
        "run without sleep mode, or the engine as a process of its own beside the trainer",
        "its pool then comes from PyTorch's allocator",
    )
    .with(if event.id == "mapping-saver" {
        "without --enable-memory-saver (SGLang)"
    } else {
        "without --enable-sleep-mode; vllm_mode=\"server\" (TRL), --vllm_mode server (ms-swift)"
    });
    (because(Cause::NotMemory, text), vec![newer, without])
}

/// Expandable segments need calls that not every system has.
fn invalid_mapping(event: &Event) -> (Diagnosis, Vec<Step>) {
    let text = format!(
        "the driver refused a call as invalid{}: usually a mapping of PyTorch's expandable segments, or the launch of a compiled kernel; this is not \
         the message of a full GPU, although a full GPU may have come before it",
        if event.origin.ends_with("newer") {
            ", or one of them was left without memory by an earlier failure"
        } else {
            ""
        }
    );
    let off = Step::new(
        "drop-expandable-segments",
        "turn expandable segments off, and restart the process",
        "virtual GPUs, WSL, and memory that processes or GPUs share may not support them; a lack of memory then has its usual message",
    );
    let off = off.with(format!("unset {VARIABLE}"));
    let eager = Step::new(
        "without-compile",
        "if they are off already, run without torch.compile",
        "compiled kernels are launched by calls whose errors have the same words",
    );
    (because(Cause::NotMemory, text), vec![off, eager.with("TORCH_COMPILE_DISABLE=1")])
}

/// How to find the operation that failed.
fn find_kernel() -> Step {
    Step::new(
        "find-kernel",
        "find the operation that failed first: run it on the CPU, or with CUDA_LAUNCH_BLOCKING=1",
        "kernels run later than the calls that start them, so the traceback may show another line",
    )
    .with("CUDA_LAUNCH_BLOCKING=1 python train.py")
}

/// The same on AMD's GPUs.
fn find_kernel_of_rocm() -> Step {
    Step {
        title: "find the operation that failed first: run it on the CPU, or with AMD_SERIALIZE_KERNEL=3".to_owned(),
        ..find_kernel()
    }
    .with("AMD_SERIALIZE_KERNEL=3 python train.py")
}

/// The driver gave this process no context.
fn busy(found: &Found) -> (Diagnosis, Vec<Step>) {
    let used = found
        .gpus
        .iter()
        .map(|gpu| format!("GPU {} has {} of {} in use", gpu.index, size(gpu.used_bytes), size(gpu.total_bytes)));
    let used: Vec<String> = used.take(8).collect();
    let used = if used.is_empty() { String::new() } else { format!(" ({})", used.join("; ")) };
    // The least of its memory: where processes exclude each other, a GPU without any has none.
    let emptiest = found.gpus.iter().min_by_key(|gpu| gpu.used_bytes).filter(|_| found.gpus.len() > 1);
    let other = emptiest.map_or(1, |gpu| gpu.index);
    let use_other = Step::new(
        "other-device",
        "use a GPU on which no process runs, or end the process on this one",
        "of GPUs that serve one process each, a scheduler must give every process its own",
    )
    .with(format!("CUDA_VISIBLE_DEVICES={other}; nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv"));
    let share = Step::new(
        "shared-mode",
        "let several processes use the GPU: an administrator sets its compute mode to the default",
        "clusters set exclusive modes on purpose; MPS shares a GPU in that mode",
    )
    .with("sudo nvidia-smi -i 0 -c DEFAULT");
    if found.surroundings.is_exclusive {
        let text = format!(
            "the GPU is in an exclusive compute mode and has a process already, so the driver refused this one; memory did not run out{used}"
        );
        return (because(Cause::NotMemory, text), vec![use_other, share]);
    }
    let text = format!(
        "the driver gave this process no context on the GPU: an exclusive compute mode while another process has it, a virtual GPU or a slice \
         without a licence or an instance, or a GPU in a bad state; the error is not that memory ran out{used}"
    );
    let look = Step::new(
        "look-at-device",
        "look at the column `Compute M.`, at the processes and at the driver's log",
        "`E. Process` allows one process; after an Xid error a GPU needs a reset or a restart of the machine",
    )
    .with("nvidia-smi; nvidia-smi -q -d COMPUTE; dmesg | grep -i xid");
    (because(Cause::NotMemory, text), vec![look, use_other, share])
}

/// Cells of its memory, its link or the GPU itself.
fn hardware(what: &str) -> (Diagnosis, Vec<Step>) {
    let text = format!("{what}: this is a fault of the hardware or of its driver; memory did not run out");
    let reset = Step::new(
        "reset-device",
        "stop the job, and let an administrator reset or replace the GPU",
        "a page that is retired is used no more after a reset; an error that comes back on the same GPU is worn or badly connected hardware",
    )
    .with("nvidia-smi -q -d ECC,ROW_REMAPPER; dmesg | grep -i xid; sudo nvidia-smi --gpu-reset -i 0");
    (because(Cause::NotMemory, text), vec![reset])
}

/// Xid errors that a program causes: an invalid address or instruction, and what follows from it in other processes.
const OF_PROGRAM: [u64; 6] = [8, 13, 31, 32, 43, 45];

/// An error by its number, as NVIDIA lists them.
fn xid(event: &Event) -> (Diagnosis, Vec<Step>) {
    let code = event.number("code").unwrap_or_default();
    if OF_PROGRAM.contains(&code) {
        let text = format!(
            "the kernel driver reports Xid {code}, an error that a program's kernels cause: an invalid address or instruction, or what follows \
             from one; memory did not run out"
        );
        return (because(Cause::NotMemory, text), vec![find_kernel()]);
    }
    hardware(&format!("the kernel driver reports Xid {code}"))
}

/// A block of threads needs more of a multiprocessor than there is.
fn launch() -> (Diagnosis, Vec<Step>) {
    let text = "a kernel was to run with more threads or registers in a block than a multiprocessor has: this is a limit of the launch, and the \
                GPU's memory is not full";
    let smaller = Step::new(
        "smaller-blocks",
        "launch the kernel with fewer threads in a block, or bound its registers",
        "a block's threads share 65,536 registers; code that is built without optimisation needs more of them",
    )
    .with("128 or 256 threads; @cuda.jit(max_registers=64) (Numba), -maxrregcount=64 or __launch_bounds__ (nvcc)");
    (because(Cause::KernelSharedMemory, text), vec![smaller])
}

/// Time on a GPU that is shared out.
fn quota(event: &Event) -> (Diagnosis, Vec<Step>) {
    let numbers = event.number("asked").zip(event.number("left"));
    let numbers =
        numbers.map_or_else(String::new, |(asked, left)| format!(": {asked} s were requested, {left} s are left"));
    let text = format!("the account's time on the shared GPU is used up{numbers}; memory did not run out");
    let shorter = Step::new(
        "shorter-time",
        "request less time for each call, sign in, or wait",
        "each call needs as much of the quota as it requests, whatever it uses",
    )
    .with("@spaces.GPU(duration=30)");
    (because(Cause::NotMemory, text), vec![shorter])
}

/// A kernel found a value that it refuses.
fn assertion(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    // Its own message may follow in quotes.
    let assertion = event.text("assertion").map(|assertion| assertion.trim_end_matches('&'));
    let of = assertion.map_or_else(String::new, |assertion| format!(" (`{assertion}`)"));
    let names = |words: &[&str]| assertion.is_some_and(|assertion| words.iter().any(|word| assertion.contains(word)));
    let is_of_classes = names(&["n_classes", "cur_target", "idx_dim"]);
    let is_of_table = !is_of_classes && names(&["srcSelectDimSize", "index", "Index"]);
    let why = if assertion.is_none() || is_of_table || is_of_classes {
        "usually an index is out of range, such as a token beyond the embedding or a label beyond the classes"
    } else {
        "a value is outside the range that the kernel accepts"
    };
    let text = format!(
        "a kernel stopped at an assertion{of}: {why}; memory did not run out, and every later call on the GPU fails"
    );
    let mut steps = vec![find_kernel()];
    if is_of_table {
        let check = Step::new(
            "check-indices",
            "compare the largest index with the size of the table: tokens that were added need an embedding that has grown with them",
            "positions beyond the model's length and padding of -1 do the same",
        );
        steps.insert(
            0,
            check.with("model.resize_token_embeddings(len(tokenizer)); print(input_ids.max(), model.get_input_embeddings().num_embeddings)"),
        );
    } else if is_of_classes {
        let check = Step::new(
            "check-indices",
            "compare the labels with the number of classes",
            "labels count from 0 on, and -100 is ignored; what is gathered by an index needs one within its dimension",
        );
        steps
            .insert(0, check.with("num_classes of the configuration; print(labels.min(), labels.max(), logits.shape)"));
    }
    let mut diagnosis = because(Cause::NotMemory, text);
    if found.events.iter().any(|event| event.id == "on-cpu") {
        diagnosis.notes.push(
            "the program's own line about memory follows from that: it takes every error of that function for a lack of memory".to_owned(),
        );
    }
    (diagnosis, steps)
}

/// Whether a failure is of AMD's GPUs.
fn is_of_rocm(event: &Event) -> bool {
    ["ROCm", "HIP"].contains(&event.origin)
}

/// A kernel read or wrote an invalid address.
fn illegal_access(event: &Event) -> (Diagnosis, Vec<Step>) {
    let is_of_rocm = is_of_rocm(event);
    let platform = if is_of_rocm { "ROCm" } else { "CUDA" };
    let text = format!(
        "{} reports that a kernel accessed an invalid address: a bug in a kernel, an index out of range, or an extension built for another \
         {platform} version; memory did not run out, and every later call on the GPU fails",
        event.origin
    );
    let rebuild = Step::new(
        "matching-build",
        format!(
            "if an extension is in the program, build it again with the {platform} of the installed torch, or use newer releases of both"
        ),
        "kernels that were compiled with another toolkit fail like this",
    )
    .with(if is_of_rocm {
        "python -c \"import torch; print(torch.version.hip)\"; hipcc --version"
    } else {
        "python -c \"import torch; print(torch.version.cuda)\"; nvcc --version"
    });
    let find = if is_of_rocm { find_kernel_of_rocm() } else { find_kernel() };
    (because(Cause::NotMemory, text), vec![find, rebuild])
}

/// Nothing was compiled for this GPU.
fn kernel_image(event: &Event) -> (Diagnosis, Vec<Step>) {
    let text = "the installed torch, or an extension, has no kernels for this GPU: the GPU is newer or older than those that it was built \
                for; memory did not run out";
    let is_of_rocm = is_of_rocm(event);
    let install = Step::new(
        "matching-build",
        "install builds of torch and its extensions that support this GPU, and a matching driver",
        if is_of_rocm {
            "a build for ROCm has kernels only for the gfx targets that it lists"
        } else {
            "GPUs of the Blackwell generation (sm_120) need a build for CUDA 12.8 or newer"
        },
    )
    .with(if is_of_rocm {
        "python -c \"import torch; print(torch.version.hip, torch.cuda.get_arch_list())\"; rocminfo | grep gfx"
    } else {
        "python -c \"import torch; print(torch.cuda.get_device_capability(), torch.cuda.get_arch_list())\""
    });
    (because(Cause::NotMemory, text), vec![install])
}

/// A library that a program loads when it first computes.
fn no_library(event: &Event) -> (Diagnosis, Vec<Step>) {
    let release = event.number("release");
    let named = release.map_or_else(|| event.origin.to_owned(), |release| format!("{} {release}", event.origin));
    let text = format!(
        "the program did not find a library that it needs, {named}: memory did not run out, and neither a smaller model nor a larger GPU helps"
    );
    let package = if event.origin == "cuDNN" { "cudnn" } else { "cublas" };
    let version = match (event.origin, release) {
        ("cuDNN", Some(release)) => format!("=={release}.*"),
        _ => String::new(),
    };
    // The number of cuBLAS's file is CUDA's.
    let cuda = if event.origin == "cuBLAS" && release == Some(11) { "cu11" } else { "cu12" };
    let install = Step::new(
        "install-library",
        format!("install {named}, and let the loader find it; or use a release of the program that was built for the one that is installed"),
        "CTranslate2 (faster-whisper) needs cuDNN 8 up to 4.4 and cuDNN 9 from 4.5 on, as PyTorch does from 2.4 on",
    )
    .with(format!("pip install nvidia-{package}-{cuda}{version}, with its lib folder in LD_LIBRARY_PATH (on Windows its bin folder in PATH)"));
    (because(Cause::NotMemory, text), vec![install])
}

/// The driver is older than the CUDA of torch.
fn old_driver(event: &Event) -> (Diagnosis, Vec<Step>) {
    let version = event.number("version").filter(|&version| version >= 1000);
    let version =
        version.map_or_else(String::new, |version| format!(" (for CUDA {}.{})", version / 1000, version % 1000 / 10));
    let text = format!(
        "the NVIDIA driver{version} is older than the CUDA that torch was built with, so torch cannot use the GPU; memory did not run out"
    );
    let newer = Step::new(
        "newer-driver",
        "install a newer driver, or a build of torch for the CUDA that this driver supports",
        "the first line of nvidia-smi names that CUDA",
    )
    .with("nvidia-smi; python -c \"import torch; print(torch.version.cuda)\"");
    (because(Cause::NotMemory, text), vec![newer])
}

/// The loss is not a number.
fn no_number() -> (Diagnosis, Vec<Step>) {
    let text =
        "the loss is not a number (NaN): a value overflowed or was undefined; the text reports no out-of-memory error";
    let check = Step::new(
        "check-numbers",
        "train in bfloat16 or float32, or compute the loss that overflows in float32; then look for the first value that is not finite",
        "float16 ends at 65,504, and a high learning rate or a broken sample does the same",
    )
    .with("torch.autograd.set_detect_anomaly(True), a lower learning rate, gradient clipping");
    (because(Cause::NotMemory, text), vec![check])
}

/// cuDNN says the same of an input that it does not support and of a GPU that is full.
fn unsupported() -> (Diagnosis, Vec<Step>) {
    let text = "cuDNN refused an operation as not supported: the input's layout, size or type may be the reason, or the GPU is full and \
                no algorithm fits; the text alone does not show which";
    let smaller = Step::new(
        "shrink",
        "run it once with a much smaller batch, and watch the GPU's memory: if the error is gone, the GPU was full",
        "the layout and the type are then supported, and the size was the cause",
    )
    .with("batch_size=1; nvidia-smi --query-gpu=memory.used,memory.total --format=csv -l 1");
    let contiguous = Step::new(
        "other-layout",
        "if the error is still there, pass contiguous inputs, or run once without cuDNN",
        "tensors of more than 2^31 elements and some mixed types are not supported either",
    )
    .with("x = x.contiguous(); torch.backends.cudnn.enabled = False");
    (because(Cause::Unknown, text), vec![smaller, contiguous])
}

/// An invalid size that follows from a rank that was stopped.
pub(super) fn after_timeout() -> (Diagnosis, Vec<Step>) {
    let text = "an NCCL collective timed out, and the request of more than 1 EiB probably follows from it: the size that a rank should have \
                received is not valid; memory did not run out";
    let find = Step::new(
        "find-timeout",
        "find the rank that did not reach the collective: look for the first error of any rank",
        "all ranks wait for one that failed, waits for data or took another branch",
    )
    .with("NCCL_DEBUG=INFO TORCH_NCCL_TRACE_BUFFER_SIZE=2000 on all ranks; py-spy dump --pid PID");
    (because(Cause::NotMemory, text), vec![find])
}

/// A library without code for the GPU, beside which nothing is put there.
pub(super) fn without_gpu_build() -> (Diagnosis, Vec<Step>) {
    let text = "a library was installed without its code for the GPU, so that layers go to the CPU, which this quantisation does not allow: the \
                log warns of it before; the GPU is not full";
    let install = Step::new(
        "install-gpu-build",
        "install builds of torch and bitsandbytes that have code for this GPU, and check that torch sees it",
        "a model that is placed on the GPU as a whole then needs no other setting",
    )
    .with("python -c \"import torch; print(torch.cuda.is_available())\"; pip install -U bitsandbytes");
    (because(Cause::NotMemory, text), vec![install])
}

/// A negative or overflowed size.
fn bad_size(event: &Event) -> (Diagnosis, Vec<Step>) {
    let dimension = event.number("dimension").map_or_else(String::new, |dimension| format!(" (−{dimension})"));
    let text = format!(
        "{} was given a size that is negative or too large for a number{dimension}: a shape was computed wrongly, overflowed or was never set; \
         memory did not run out",
        event.origin
    );
    let step = Step::new(
        "split-request",
        "check the shapes of the operator's inputs: print them before the line of the traceback",
        "a damaged file, an empty input, 32-bit arithmetic or memory that was overwritten gives such sizes; no setting of the allocator helps",
    );
    (because(Cause::NeverFits, text), vec![step])
}

/// A kernel failed before, and every call since then.
pub(super) fn after_fault(event: &Event) -> (Diagnosis, Vec<Step>) {
    let text = format!(
        "{} failed because an earlier kernel had: the log has its assertion or its illegal access, after which every call on the GPU fails; \
         memory did not run out",
        event.origin
    );
    let step = Step {
        detail: "usually an index is out of range: a token beyond the vocabulary, a position beyond the model's length, a label beyond the classes"
            .to_owned(),
        ..find_kernel()
    };
    (because(Cause::NotMemory, text), vec![step])
}

/// CUDA refuses to allocate while a graph is captured.
fn capture() -> (Diagnosis, Vec<Step>) {
    let text = "something allocated memory, or waited for the GPU, while a CUDA graph was captured, which CUDA refuses: this is not a lack \
                of memory";
    let steps = vec![
        Step::new(
            "warm-up",
            "run the same shapes a few times before the capture",
            "libraries allocate workspaces and compile kernels at their first use",
        ),
        Step::new("without-graphs", "run without CUDA graphs, to see whether the rest works", "it is then only slower"),
    ];
    (because(Cause::NotMemory, text), steps)
}
