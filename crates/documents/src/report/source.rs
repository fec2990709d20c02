//! The file of a report: its format, the version it shows, warnings, settings.

use highwater_analysis::Analysis;
use highwater_analysis::torch_version::torch_version;
use highwater_snapshot::{Setting, Snapshot, Warning, Warnings};

/// The input file.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SourceView {
    /// Bytes of pickle or JSON, decompressed.
    pub bytes: u64,
    /// `pickle protocol 4`, `JSON`.
    pub encoding: String,
    /// Whether the input ended too early.
    pub is_cut: bool,
    /// The kind of the profiler's file: `chrome_trace`, `memory_timeline_raw`, `memory_timeline`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<&'static str>,
    /// The same in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile_name: Option<&'static str>,
}

/// The version that the file shows.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TorchView {
    /// A version, or a span such as `2.10 to 2.11`; `unknown` of a profiler's file.
    pub version: String,
    /// Whether the version is certain.
    pub known: bool,
}

impl TorchView {
    /// That of a snapshot.
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        if snapshot.profile.is_some() {
            return Self { version: "unknown".to_owned(), known: false };
        }
        let torch = torch_version(snapshot);
        Self { version: torch.to_string(), known: torch.is_known() }
    }
}

/// A warning of the reader or the analysis.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WarningView {
    /// A stable word for its kind.
    pub id: &'static str,
    /// The warning in words.
    pub message: String,
    /// The number of times.
    pub count: u64,
    /// Offset of the first case in the decompressed input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub byte: Option<u64>,
    /// Device of the first case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
    /// Entry of the first case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<u32>,
}

/// Warnings about the file, then about contradictions in it, each in order of first appearance.
pub fn warnings(analysis: &Analysis<'_>) -> Vec<WarningView> {
    WarningView::all(&analysis.snapshot.warnings).chain(WarningView::all(&analysis.warnings)).collect()
}

impl WarningView {
    /// One for each kind, in order of first appearance.
    pub fn all(warnings: &Warnings) -> impl Iterator<Item = Self> + '_ {
        warnings.iter().map(Self::new)
    }

    fn new(warning: &Warning) -> Self {
        Self {
            id: warning.id,
            message: warning.message.clone(),
            count: warning.count,
            byte: warning.first.byte,
            device: warning.first.device,
            entry: warning.first.entry,
        }
    }
}

/// The settings as one JSON object.
#[derive(Clone, Debug)]
pub struct SettingsView<'a>(pub &'a [(String, Setting)]);

/// One setting as a JSON value.
#[derive(Clone, Debug)]
pub struct SettingView<'a>(pub &'a Setting);

/// A setting may be a table of settings, and that is all there is to say of its type.
#[cfg(feature = "schema")]
mod settings_schema {
    use std::borrow::Cow;

    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

    use super::{SettingView, SettingsView};

    impl JsonSchema for SettingsView<'_> {
        fn schema_name() -> Cow<'static, str> {
            "Settings".into()
        }

        fn inline_schema() -> bool {
            true
        }

        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            json_schema!({"type": "object", "additionalProperties": true})
        }
    }

    impl JsonSchema for SettingView<'_> {
        fn schema_name() -> Cow<'static, str> {
            "Setting".into()
        }

        fn inline_schema() -> bool {
            true
        }

        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            json_schema!({"type": ["boolean", "integer", "number", "string", "object"]})
        }
    }
}

impl serde::Serialize for SettingsView<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, SettingView(value))))
    }
}

impl serde::Serialize for SettingView<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Setting::Bool(flag) => serializer.serialize_bool(*flag),
            Setting::Int(number) => serializer.serialize_i64(*number),
            Setting::Float(number) => serializer.serialize_f64(*number),
            Setting::Text(text) => serializer.serialize_str(text),
            Setting::Table(table) => SettingsView(table).serialize(serializer),
        }
    }
}
