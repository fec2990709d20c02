//! Has the kernel hold what the sandbox's library cannot see: programs that are linked statically, and system calls of
//! a program's own.
//!
//! Landlock needs no rights and no unsafe code. It restricts the thread that asks, and every process that this thread
//! starts from then on.

use std::path::Path;

use serde::Serialize;

/// The restrictions that the kernel enforced during a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Enforcement {
    /// No process of the run wrote, created, renamed or removed anything outside.
    Enforced {
        /// The version of the kernel's Landlock, up to the newest one known here.
        landlock: u32,
        /// Whether that also holds for truncating files: since version 3, Linux 6.2.
        truncation: bool,
    },
    /// Nothing.
    NotEnforced {
        /// Why not, as a part of a sentence.
        reason: String,
    },
}

impl Default for Enforcement {
    fn default() -> Self {
        Enforcement::NotEnforced { reason: "the options do not request it".to_owned() }
    }
}

/// Restricts this thread and its children: they can write only below `directory`, in `/dev`, and to standard error. They
/// can never regain rights, not even with `sudo`.
#[cfg(target_os = "linux")]
pub(crate) fn restrict_thread(directory: &Path) -> Enforcement {
    restrict(directory).unwrap_or_else(|error| Enforcement::NotEnforced {
        reason: format!("Landlock 2, of Linux 5.19, is missing or switched off: {error}"),
    })
}

#[cfg(target_os = "linux")]
fn restrict(directory: &Path) -> Result<Enforcement, landlock::RulesetError> {
    use std::fs::File;
    use std::os::fd::AsFd as _;

    use landlock::{
        ABI, AccessFs, CompatLevel, Compatible as _, LandlockStatus, PathBeneath, Ruleset, RulesetAttr as _,
        RulesetCreatedAttr as _, path_beneath_rules,
    };

    // The first version forbids every renaming from directory to directory, which the sandbox itself cannot do without.
    let needed = AccessFs::from_write(ABI::V2);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(needed)?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::Truncate)?
        .create()?
        .add_rules(path_beneath_rules([directory, Path::new("/dev")], needed | AccessFs::Truncate))?;
    // What the program prints goes there, and it may open it again, as `/dev/stderr`.
    let printed = std::io::stderr().as_fd().try_clone_to_owned().map(File::from);
    if let Ok(printed) = printed
        && printed.metadata().is_ok_and(|metadata| metadata.is_file())
    {
        rules = rules.add_rule(PathBeneath::new(&printed, AccessFs::WriteFile | AccessFs::Truncate))?;
    }
    let status = rules.restrict_self()?;
    Ok(match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => {
            Enforcement::Enforced { landlock: effective_abi as u32, truncation: effective_abi >= ABI::V3 }
        }
        _ => Enforcement::NotEnforced { reason: "the kernel has no Landlock".to_owned() },
    })
}

/// There is none on other systems.
#[cfg(not(target_os = "linux"))]
pub(crate) fn restrict_thread(_directory: &Path) -> Enforcement {
    Enforcement::NotEnforced { reason: "only Linux has Landlock".to_owned() }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_restricted_thread_and_what_it_starts_write_below_its_directory_only() {
        let _alone = crate::processes::tests::alone();
        let root = tempfile::tempdir().unwrap();
        let (inside, outside) = (root.path().join("inside"), root.path().join("outside"));
        fs::create_dir_all(inside.join("sub")).unwrap();
        fs::write(&outside, "before").unwrap();
        let enforced = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    let enforced = restrict_thread(&inside);
                    let script = "echo x > inside/a; mv inside/a inside/sub/b; echo x > /dev/null; echo x > outside; : > new; rm outside";
                    let status = Command::new("sh").args(["-c", script]).current_dir(root.path()).output();
                    assert!(status.is_ok_and(|output| !output.status.success() || matches!(enforced, Enforcement::NotEnforced { .. })));
                    enforced
                })
                .join()
                .unwrap()
        });
        assert_eq!(fs::read(inside.join("sub/b")).unwrap(), b"x\n");
        match enforced {
            Enforcement::Enforced { landlock, truncation } => {
                assert!(landlock >= 2);
                assert_eq!(truncation, landlock >= 3);
                assert!(!root.path().join("new").exists());
                let expected = if truncation { "before" } else { "" };
                assert_eq!(fs::read_to_string(&outside).unwrap(), expected);
            }
            // The test says nothing where the kernel does nothing.
            Enforcement::NotEnforced { reason } => assert!(!reason.is_empty()),
        }
        fs::write(&outside, "the other threads of this process are free").unwrap();
    }
}
