//! The allocator's settings at the dump.

/// A value among the settings.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// `True` or `False`.
    Bool(bool),
    /// A whole number; bytes, with -1 for unlimited, where the key is a size.
    Int(i64),
    /// A fraction.
    Float(f64),
    /// Text.
    Text(String),
    /// A table, such as the divisions of `roundup_power2_divisions`.
    Table(Vec<(String, Setting)>),
}

/// `allocator_settings`, in the order of the file; empty where the file has none (before torch 2.3).
///
/// # Source
/// `spec/snapshot-format.md` section 8.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Every key, known or not.
    pub entries: Vec<(String, Setting)>,
}

impl Settings {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Setting> {
        self.entries.iter().find(|(k, _)| k == key).map(|(_, value)| value)
    }

    /// The last string given to the settings parser (`PYTORCH_CUDA_ALLOC_CONF`), verbatim.
    pub fn conf(&self) -> Option<&str> {
        match self.get("PYTORCH_CUDA_ALLOC_CONF") {
            Some(Setting::Text(conf)) => Some(conf),
            _ => None,
        }
    }

    /// `max_split_size` in bytes; `None` if unlimited or not recorded.
    pub fn max_split_bytes(&self) -> Option<u64> {
        match self.get("max_split_size") {
            Some(&Setting::Int(bytes)) => u64::try_from(bytes).ok(),
            _ => None,
        }
    }

    /// Whether `expandable_segments` is on; `None` if not recorded.
    pub fn expandable_segments(&self) -> Option<bool> {
        match self.get("expandable_segments") {
            Some(&Setting::Bool(on)) => Some(on),
            _ => None,
        }
    }

    /// `garbage_collection_threshold`; 0 is off.
    pub fn garbage_collection_threshold(&self) -> Option<f64> {
        match self.get("garbage_collection_threshold") {
            Some(&Setting::Float(threshold)) => Some(threshold),
            _ => None,
        }
    }
}
