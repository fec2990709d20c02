//! Engines and their releases.

use std::fmt;

use serde::Serialize;

use crate::error::ServeError;

/// An engine that serves models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Engine {
    /// vLLM.
    #[serde(rename = "vllm")]
    Vllm,
    /// `SGLang`.
    #[serde(rename = "sglang")]
    Sglang,
    /// llama.cpp.
    #[serde(rename = "llama.cpp")]
    LlamaCpp,
    /// transformers' own `generate`.
    #[serde(rename = "transformers")]
    Transformers,
}

impl Engine {
    /// All engines with their names.
    pub const ALL: [(&'static str, Engine); 4] = [
        ("vllm", Engine::Vllm),
        ("sglang", Engine::Sglang),
        ("llama.cpp", Engine::LlamaCpp),
        ("transformers", Engine::Transformers),
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, engine)| *engine == self).map_or("", |(name, _)| name)
    }

    /// The name as people write it.
    pub const fn title(self) -> &'static str {
        match self {
            Engine::Vllm => "vLLM",
            Engine::Sglang => "SGLang",
            Engine::LlamaCpp => "llama.cpp",
            Engine::Transformers => "transformers",
        }
    }

    /// The release whose rules hold if nobody names one: the newest that was compared with many logs.
    pub fn usual(self) -> Version {
        match self {
            Engine::Vllm => Version::new(0, 24, 0),
            Engine::Sglang => Version::new(0, 5, 9),
            Engine::LlamaCpp | Engine::Transformers => Version::new(0, 0, 0),
        }
    }

    /// Releases whose arithmetic was compared with logs, as intervals of minor releases.
    pub fn checked(self) -> &'static [(Version, Version)] {
        const VLLM: &[(Version, Version)] = &[
            (Version::new(0, 6, 4), Version::new(0, 11, 99)),
            (Version::new(0, 15, 0), Version::new(0, 24, 99)),
            (Version::new(0, 27, 0), Version::new(0, 28, 99)),
        ];
        const SGLANG: &[(Version, Version)] = &[(Version::new(0, 4, 7), Version::new(0, 5, 99))];
        match self {
            Engine::Vllm => VLLM,
            Engine::Sglang => SGLANG,
            Engine::LlamaCpp | Engine::Transformers => &[],
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A release: three numbers, of which missing ones are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    numbers: [u32; 3],
}

impl Version {
    /// A release of these numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Version {
        Version { numbers: [major, minor, patch] }
    }

    /// Reads `0.11`, `0.11.2`, `v0.8.5.post1`; words behind the numbers do not matter.
    pub fn parse(text: &str) -> Option<Version> {
        let text = text.trim().trim_start_matches('v');
        let mut numbers = [0; 3];
        for (at, part) in text.split('.').take(3).enumerate() {
            let digits = part.len() - part.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
            if digits == 0 {
                if at < 2 {
                    return None;
                }
                break;
            }
            numbers[at] = part[..digits].parse().ok()?;
            if digits < part.len() {
                break;
            }
        }
        Some(Version { numbers })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// An engine in a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The engine.
    pub engine: Engine,
    /// The release, as it was written.
    pub written: Option<String>,
    /// Its numbers.
    pub version: Version,
    /// vLLM's older engine, V0, where somebody says so; V1 with `Some(false)`.
    pub is_v0: Option<bool>,
    /// The fork of llama.cpp by ikawrakow, which caches otherwise.
    pub is_ik: bool,
}

impl Release {
    /// Reads `vllm`, `vllm@0.11.0`, `vllm@0.8.5+v0`, `llama.cpp@ik`.
    ///
    /// # Errors
    /// If the engine is unknown, or its release is not a number.
    pub fn parse(text: &str) -> Result<Release, ServeError> {
        let (name, written) = text.split_once('@').map_or((text, None), |(name, written)| (name, Some(written)));
        let plain = name.trim().to_ascii_lowercase();
        let engine = match plain.as_str() {
            "llamacpp" | "llama-cpp" | "llama-server" => Some(Engine::LlamaCpp),
            "hf" => Some(Engine::Transformers),
            _ => Engine::ALL.iter().find(|(known, _)| *known == plain).map(|(_, engine)| *engine),
        };
        let engine = engine.ok_or_else(|| ServeError::UnknownEngine(short(name)))?;
        let lower = written.map(str::to_ascii_lowercase).unwrap_or_default();
        let is_ik = engine == Engine::LlamaCpp && lower.starts_with("ik");
        let is_v0 = match () {
            () if lower.contains("+v0") => Some(true),
            () if lower.contains("+v1") => Some(false),
            () => None,
        };
        let version = match (written, engine) {
            (None, _) => engine.usual(),
            // llama.cpp counts builds, transformers is not read: nothing here depends on them.
            (Some(_), Engine::LlamaCpp | Engine::Transformers) => Version::default(),
            (Some(written), _) => {
                Version::parse(written).ok_or_else(|| ServeError::BadVersion(engine, short(written)))?
            }
        };
        Ok(Release { engine, written: written.map(short), version, is_v0, is_ik })
    }

    /// The newest release of vLLM's older engine that was compared with logs: the usual one where no release is named.
    const LAST_V0: Version = Version::new(0, 8, 5);

    /// The same release of vLLM with the older or the newer engine, unless its name says which; other engines have no such choice.
    #[must_use]
    pub fn with_v0(mut self, is_v0: Option<bool>) -> Release {
        if self.engine != Engine::Vllm {
            return self;
        }
        self.is_v0 = self.is_v0.or(is_v0);
        if self.is_v0 == Some(true) && self.written.is_none() {
            self.version = Self::LAST_V0;
        }
        self
    }

    /// The release in words.
    pub fn version_text(&self) -> String {
        match &self.written {
            Some(written) => written.clone(),
            None if matches!(self.engine, Engine::LlamaCpp | Engine::Transformers) => "any".to_owned(),
            None => self.version.to_string(),
        }
    }

    /// Whether its arithmetic was compared with logs of this release.
    pub fn is_checked(&self) -> bool {
        match self.engine {
            Engine::LlamaCpp => true,
            Engine::Transformers => false,
            engine => engine.checked().iter().any(|(first, last)| (*first..=*last).contains(&self.version)),
        }
    }
}

/// The text that [`Release::parse`] reads.
impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written = self.written.as_deref().unwrap_or_default();
        match (self.is_v0, written) {
            (None, "") => write!(f, "{}", self.engine),
            (None, _) => write!(f, "{}@{written}", self.engine),
            (Some(_), _) if written.contains("+v") => write!(f, "{}@{written}", self.engine),
            (Some(is_v0), _) => {
                write!(f, "{}@{}+{}", self.engine, self.version_text(), if is_v0 { "v0" } else { "v1" })
            }
        }
    }
}

/// As much of somebody's text as a message shows.
pub(crate) fn short(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_as_people_write_them() {
        for (text, version) in [
            ("0.11", (0, 11, 0)),
            ("v0.8.5.post1", (0, 8, 5)),
            ("0.6.4.post1+main", (0, 6, 4)),
            ("0.21 dev", (0, 21, 0)),
            ("0.8.5dev3", (0, 8, 5)),
        ] {
            assert_eq!(Version::parse(text), Some(Version::new(version.0, version.1, version.2)), "{text}");
        }
        for text in ["", "x", "0", "1.x"] {
            let parsed = Version::parse(text);
            assert!(parsed.is_none() || text == "0", "{text}");
        }
    }

    #[test]
    fn engines_have_versions_and_variants() {
        let v0 = Release::parse("vllm@0.8.5+v0").unwrap();
        assert_eq!((v0.engine, v0.is_v0, v0.is_checked()), (Engine::Vllm, Some(true), true));
        for text in ["vllm@0.8.5+v0", "vllm", "sglang@0.5.9", "llama.cpp@ik"] {
            assert_eq!(Release::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Release { is_v0: Some(true), ..Release::parse("vllm@0.8").unwrap() }.to_string(), "vllm@0.8+v0");
        for text in ["sglang", "llama.cpp"] {
            assert_eq!(
                Release::parse(text).unwrap().with_v0(Some(true)),
                Release::parse(text).unwrap(),
                "vLLM's choice"
            );
        }
        assert!(Release::parse("llama.cpp@ik").unwrap().is_ik);
        assert!(!Release::parse("vllm@0.30").unwrap().is_checked());
        assert_eq!(Release::parse("tgi").unwrap_err().to_string(), "unknown engine `tgi`");
        assert!(Release::parse("vllm@new").is_err());
    }
}
