//! The torch of an interpreter: its version, without importing it.

use std::path::Path;
use std::process::{Command, Stdio};

use highwater_allocator::TorchVersion;
use highwater_documents::doctor::{Finding, Severity, Torch};
use highwater_monitor::Sample;
use highwater_output::printable::printable;
use highwater_problem::Problem;

/// Finds torch's folder and reads `version.py` in it, which takes milliseconds where an import takes seconds and may touch the
/// GPU. The file is data: its lines are read, not run.
const QUESTION: &str = r#"
import importlib.util, json, os, re, sys
found = importlib.util.find_spec("torch")
answer = {"python": sys.version.split()[0], "torch": None, "cuda": None, "recorder": importlib.util.find_spec("highwater") is not None}
if found and found.origin:
    with open(os.path.join(os.path.dirname(found.origin), "version.py"), encoding="utf-8") as file:
        for line in file:
            match = re.match(r"(__version__|cuda)\b[^=]*=\s*['\"]([^'\"]*)['\"]", line)
            if match:
                answer["torch" if match[1] == "__version__" else "cuda"] = match[2]
print(json.dumps(answer))
"#;

/// The version whose rules the allocator follows, if it is known here.
pub(crate) fn version(torch: &Torch) -> Option<TorchVersion> {
    let text = torch.torch.as_deref()?;
    text.split(['+', 'a', 'b', 'r', 'd']).next()?.trim_end_matches('.').parse().ok()
}

/// Asks an interpreter.
///
/// # Errors
/// It cannot be started, or does not answer.
pub fn ask(python: &Path) -> Result<Torch, Problem> {
    let refused = |cause: String| {
        Problem::new(format!("cannot find the version of PyTorch with `{}`", python.display()))
            .because(cause)
            .hint("give a Python interpreter, such as `.venv/bin/python`")
    };
    let asked = Command::new(python).args(["-c", QUESTION]).stdin(Stdio::null()).output();
    let output = asked.map_err(|error| refused(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(refused(said.lines().next_back().unwrap_or("it failed").to_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| refused(error.to_string()))
}

/// Says whether torch and the driver go together.
pub(crate) fn examine(torch: &Torch, gpus: Option<&Sample>, findings: &mut Vec<Finding>) {
    let Some(version) = &torch.torch else {
        findings.push(
            Finding::new(Severity::Problem, "no-torch", "that Python has no PyTorch")
                .change("give the interpreter of the environment that has it"),
        );
        return;
    };
    let version = printable(version);
    let Some(cuda) = &torch.cuda else {
        findings.push(
            Finding::new(
                Severity::Problem,
                "torch-without-cuda",
                format!("torch {version} is built without CUDA and cannot use a GPU"),
            )
            .change("install a build for CUDA: https://pytorch.org/get-started/locally"),
        );
        return;
    };
    let major = |text: &str| text.split('.').next().and_then(|word| word.parse::<u32>().ok());
    let driver = gpus.and_then(|sample| sample.driver.cuda.as_deref());
    if let (Some(wanted), Some(driver)) = (major(cuda), driver)
        && major(driver).is_some_and(|newest| newest < wanted)
    {
        findings.push(
            Finding::new(
                Severity::Problem,
                "driver-too-old-for-torch",
                format!(
                    "torch {version} is built for CUDA {}, but the driver supports at most {}",
                    printable(cuda),
                    printable(driver)
                ),
            )
            .change("install a newer driver, or a PyTorch build for an older CUDA"),
        );
    }
    if !torch.recorder {
        findings.push(
            Finding::new(
                Severity::Note,
                "no-recorder",
                "that Python does not have the package `highwater`, so `highwater run` cannot record with it",
            )
            .change("install it there with `pip install highwater`"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_monitor::Driver;

    fn ids(torch: &Torch, cuda: &str) -> Vec<&'static str> {
        let driver = Driver { version: None, cuda: Some(cuda.into()) };
        let mut findings = Vec::new();
        examine(torch, Some(&Sample { driver, ..Sample::default() }), &mut findings);
        findings.iter().map(|finding| finding.id).collect()
    }

    #[test]
    fn a_driver_too_old_for_torch_and_a_torch_without_cuda_are_found() {
        let torch =
            Torch { torch: Some("2.11.0+cu130".into()), cuda: Some("13.0".into()), recorder: true, ..Torch::default() };
        assert_eq!(ids(&torch, "13.0"), [""; 0]);
        assert_eq!(ids(&torch, "12.9"), ["driver-too-old-for-torch"]);
        assert_eq!(ids(&Torch { cuda: None, ..torch.clone() }, "13.0"), ["torch-without-cuda"]);
        assert_eq!(ids(&Torch { torch: None, ..torch.clone() }, "13.0"), ["no-torch"]);
        let version = |torch: &Torch| version(torch).map(|version| version.to_string());
        assert_eq!(version(&torch).as_deref(), Some("2.11"));
        assert_eq!(version(&Torch { torch: Some("2.12.0.dev2026".into()), ..torch }).as_deref(), Some("2.12"));
    }
}
