//! The rules of `highwater doctor`: problems of a machine's driver, GPUs, torch and environment, with fixes.
//!
//! # Design constraints
//!
//! - Runs one program at most, the interpreter that is named, and never imports torch.
//! - The environment comes as a function, so that a test has its own.

mod environment;
mod gpus;
mod torch;

use highwater_documents::doctor::{DoctorView, Torch};
use highwater_monitor::{Absence, Sample};

pub use torch::ask;

/// The facts about the machine, and the findings, the worst first.
pub fn examined(
    looked: Result<&Sample, &Absence>,
    torch: Option<Torch>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> DoctorView {
    let mut findings = Vec::new();
    let gpus = looked.ok().cloned();
    if let Some(sample) = &gpus {
        gpus::examine(sample, variable("CUDA_VISIBLE_DEVICES").as_deref(), &mut findings);
    }
    if let Some(torch) = &torch {
        torch::examine(torch, gpus.as_ref(), &mut findings);
    }
    let version = torch.as_ref().and_then(torch::version);
    let settings = environment::read(version, variable, &mut findings);
    if looked.is_err() && torch.is_none() {
        // Settings are set where programs run.
        findings.retain(|finding| finding.id != "no-expandable-segments");
    }
    DoctorView::new(looked.cloned().map_err(ToString::to_string), torch, settings, findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(variables: &[(&str, &str)]) -> Vec<&'static str> {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let document = examined(Ok(&Sample::default()), None, &variable);
        document.findings.iter().map(|finding| finding.id).collect()
    }

    #[test]
    fn settings_are_read_by_pytorchs_rules() {
        assert_eq!(ids(&[]), ["no-expandable-segments"]);
        assert_eq!(ids(&[("PYTORCH_ALLOC_CONF", "expandable_segments:True")]), [""; 0]);
        assert_eq!(ids(&[("PYTORCH_ALLOC_CONF", "expandable_segment:True")])[..1], ["refused-settings"]);
        assert_eq!(
            ids(&[("PYTORCH_CUDA_ALLOC_CONF", ""), ("PYTORCH_ALLOC_CONF", "expandable_segments:True")])[..1],
            ["hidden-settings"]
        );
    }

    #[test]
    fn before_2_10_the_new_name_of_the_variable_is_not_reliable() {
        let with = |release: &str, name: &'static str| {
            let torch = Torch { torch: Some(release.to_owned()), ..Torch::default() };
            let variable = |asked: &str| (asked == name).then(|| "expandable_segments:True".to_owned());
            let document = examined(Ok(&Sample::default()), Some(torch), &variable);
            document.findings.iter().any(|finding| finding.id == "unreliable-variable")
        };
        assert!(with("2.9.1+cu128", "PYTORCH_ALLOC_CONF"));
        assert!(!with("2.9.1+cu128", "PYTORCH_CUDA_ALLOC_CONF"));
        assert!(!with("2.10.0", "PYTORCH_ALLOC_CONF"));
    }

    #[test]
    fn a_machine_without_gpu_and_torch_needs_no_settings() {
        let document = examined(Err(&highwater_monitor::Absence::NoGpu), None, &|_| None);
        assert!(document.findings.is_empty());
    }

    #[test]
    fn settings_that_do_not_go_together_are_named() {
        let with = |conf| ids(&[("PYTORCH_ALLOC_CONF", conf)]);
        assert_eq!(with("expandable_segments:True,max_split_size_mb:128"), ["split-and-expandable"]);
        assert_eq!(with("backend:cudaMallocAsync,max_split_size_mb:128"), ["ignored-by-backend"]);
        assert_eq!(with("expandable_segments:True,garbage_collection_threshold:0.2"), ["eager-collection"]);
        assert_eq!(with("expandable_segments:True,max_split_size_mb:20")[..1], ["split-and-expandable"]);
        assert_eq!(
            ids(&[("PYTORCH_NO_CUDA_MEMORY_CACHING", "1"), ("PYTORCH_ALLOC_CONF", "expandable_segments:True")])[..1],
            ["no-caching"]
        );
        assert!(ids(&[("CUDA_MODULE_LOADING", "EAGER")]).contains(&"eager-loading"));
        assert!(ids(&[("CUDA_LAUNCH_BLOCKING", "1")]).contains(&"launch-blocking"));
    }
}
