//! The environment: the allocator's settings, and other variables that change how GPU memory is used.
//!
//! # Source
//! `spec/caching-allocator.md` section 17: the variable that wins, and the meaning of a string.

use highwater_allocator::TorchVersion;
use highwater_allocator::settings::{Backend, NEW_VARIABLE, Settings, VARIABLE, reads_new_variable};
use highwater_documents::doctor::{Finding, Setting, Severity};
use highwater_output::printable::printable;
use highwater_problem::Explained as _;

/// Settings strings, the one first that wins if it is set, even to nothing.
const STRINGS: [&str; 3] = [VARIABLE, "PYTORCH_HIP_ALLOC_CONF", NEW_VARIABLE];

/// Other variables that matter.
const OTHERS: [&str; 7] = [
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_MODULE_LOADING",
    "CUDA_LAUNCH_BLOCKING",
    "CUBLAS_WORKSPACE_CONFIG",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "HIGHWATER_RECORD",
];

/// Below this threshold the garbage collection of blocks runs all the time.
const EAGER_THRESHOLD: f64 = 0.5;

/// Reads the variables and reports their problems.
pub(crate) fn read(
    version: Option<TorchVersion>,
    variable: &dyn Fn(&str) -> Option<String>,
    findings: &mut Vec<Finding>,
) -> Vec<Setting> {
    let set = |name: &'static str| Some((name, variable(name)?));
    let strings: Vec<_> = STRINGS.into_iter().filter_map(set).collect();
    if let [(winner, value), hidden @ ..] = &strings[..]
        && hidden.iter().any(|(_, other)| other != value)
    {
        let names: Vec<_> = hidden.iter().map(|(name, _)| format!("`{name}`")).collect();
        let title = format!("`{winner}` is set, so {} has no effect", names.join(" and "));
        findings.push(
            Finding::new(Severity::Problem, "hidden-settings", title)
                .change(format!("unset the others, or `{winner}`")),
        );
    }
    if let (Some((NEW_VARIABLE, value)), Some(version)) = (strings.first(), version)
        && !reads_new_variable(version.numbers())
    {
        findings.push(
            Finding::new(
                Severity::Problem,
                "unreliable-variable",
                format!("the CUDA allocator of torch {version} does not read `{NEW_VARIABLE}`: torch 2.10 is the first that does"),
            )
            .change(format!("{VARIABLE}={}", printable(value))),
        );
    }
    let used = strings.first().filter(|(name, _)| *name != "PYTORCH_HIP_ALLOC_CONF");
    examine(used, version, findings);
    examine_others(variable, findings);
    let winner = strings.first().map(|(name, _)| *name);
    let strings =
        strings.into_iter().map(|(name, value)| Setting { variable: name, is_used: Some(name) == winner, value });
    let others = OTHERS.into_iter().filter_map(set).map(|(variable, value)| Setting { variable, value, is_used: true });
    strings.chain(others).collect()
}

/// The meaning of the settings string, and conflicts between its parts.
fn examine(used: Option<&(&'static str, String)>, version: Option<TorchVersion>, findings: &mut Vec<Finding>) {
    let newest = TorchVersion::all().next_back().expect("there are versions");
    let mut settings = Settings::new(version.unwrap_or(newest));
    let (name, value) = used.map_or((VARIABLE, ""), |(name, value)| (*name, value.as_str()));
    if let Err(error) = settings.parse(value) {
        let title = format!("PyTorch refuses `{name}={}`: {error}", printable(value));
        let finding = Finding::new(Severity::Problem, "refused-settings", title);
        findings.push(match error.hint() {
            Some(hint) => finding.change(hint),
            None => finding,
        });
        return;
    }
    for remark in settings.remarks() {
        findings.push(Finding::new(Severity::Note, "without-effect", format!("`{name}`: {remark}")));
    }
    together(name, value, &settings, findings);
}

/// Settings that hinder each other, or that help most programs.
fn together(name: &str, value: &str, settings: &Settings, findings: &mut Vec<Finding>) {
    let usual = Settings::new(TorchVersion::all().next_back().expect("there are versions"));
    let is_split = settings.max_split_bytes != usual.max_split_bytes;
    if settings.backend == Backend::CudaMallocAsync {
        let is_native = settings.expandable_segments
            || is_split
            || settings.garbage_collection_threshold > 0.0
            || settings.roundup_power2_divisions != usual.roundup_power2_divisions;
        if is_native {
            findings.push(
                Finding::new(
                    Severity::Problem,
                    "ignored-by-backend",
                    format!("`{name}`: `backend:cudaMallocAsync` ignores the other settings: they are for PyTorch's own allocator"),
                )
                .change("remove `backend:cudaMallocAsync`, or the other settings"),
            );
        }
        return;
    }
    if settings.expandable_segments && is_split {
        findings.push(
            Finding::new(
                Severity::Advice,
                "split-and-expandable",
                format!("`{name}`: `max_split_size_mb` keeps large blocks whole, which is unnecessary with \
                 expandable segments"),
            )
            .change("keep `expandable_segments:True` alone; `highwater simulate run.pickle --conf …` compares them on a recording"),
        );
    }
    if settings.garbage_collection_threshold > 0.0 && settings.garbage_collection_threshold < EAGER_THRESHOLD {
        findings.push(
            Finding::new(
                Severity::Advice,
                "eager-collection",
                format!(
                    "`{name}`: `garbage_collection_threshold:{}` releases memory all the time, and each release \
                     waits for the GPU",
                    settings.garbage_collection_threshold
                ),
            )
            .change("0.6 to 0.8 is usual"),
        );
    }
    if !settings.expandable_segments {
        let change = if value.is_empty() {
            format!("{VARIABLE}=expandable_segments:True")
        } else {
            format!("{name}={},expandable_segments:True", printable(value))
        };
        findings.push(
            Finding::new(
                Severity::Advice,
                "no-expandable-segments",
                "expandable segments are off: programs whose sizes vary lose memory to fragmentation",
            )
            .change(change),
        );
    }
}

fn examine_others(variable: &dyn Fn(&str) -> Option<String>, findings: &mut Vec<Finding>) {
    let is_on = |name: &str| variable(name).is_some_and(|value| value == "1");
    if is_on("PYTORCH_NO_CUDA_MEMORY_CACHING") {
        findings.push(
            Finding::new(
                Severity::Problem,
                "no-caching",
                "`PYTORCH_NO_CUDA_MEMORY_CACHING=1`: every allocation goes to the driver and waits for the GPU, and \
                 nothing is recorded",
            )
            .change("unset it; it is meant for `compute-sanitizer`"),
        );
    }
    if is_on("CUDA_LAUNCH_BLOCKING") {
        findings.push(
            Finding::new(
                Severity::Advice,
                "launch-blocking",
                "`CUDA_LAUNCH_BLOCKING=1`: the program waits for \
             every kernel",
            )
            .change("unset it when you no longer debug an error with it"),
        );
    }
    if variable("CUDA_MODULE_LOADING").is_some_and(|value| value.eq_ignore_ascii_case("EAGER")) {
        findings.push(
            Finding::new(
                Severity::Advice,
                "eager-loading",
                "`CUDA_MODULE_LOADING=EAGER`: every process loads all kernels of all libraries into the GPU's memory",
            )
            .change("unset it: kernels are then loaded when they are first used"),
        );
    }
}
