//! What was odd in a file that could be read all the same: counted, with the first place of each kind.

use std::fmt;

/// The offset of what was read from JSON, where none is known.
pub(crate) const NO_OFFSET: u64 = u64::MAX;

/// Where something stands in the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Offset in the decompressed pickle or JSON.
    pub byte: Option<u64>,
    /// Device index.
    pub device: Option<u32>,
    /// Row of the table concerned: an entry of the trace.
    pub entry: Option<u32>,
}

impl Place {
    /// A place known by its offset.
    pub const fn byte(byte: u64) -> Self {
        Self { byte: if byte == NO_OFFSET { None } else { Some(byte) }, device: None, entry: None }
    }

    /// A place known by device and entry.
    pub const fn entry(device: u32, entry: u32) -> Self {
        Self { byte: None, device: Some(device), entry: Some(entry) }
    }

    /// A place known by device only.
    pub const fn device(device: u32) -> Self {
        Self { byte: None, device: Some(device), entry: None }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        if let Some(device) = self.device {
            write!(f, "device {device}")?;
            separator = ", ";
        }
        if let Some(entry) = self.entry {
            write!(f, "{separator}entry {entry}")?;
            separator = ", ";
        }
        if let Some(byte) = self.byte {
            write!(f, "{separator}byte {byte}")?;
        }
        Ok(())
    }
}

/// One kind of oddity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// A stable word for the kind, such as `unknown-action`.
    pub id: &'static str,
    /// What it is, and what was done about it: a fragment that reads alone.
    pub message: String,
    /// The number of times.
    pub count: u64,
    /// The first time.
    pub first: Place,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let place = self.first.to_string();
        match (self.count, place.is_empty()) {
            (1, true) => Ok(()),
            (1, false) => write!(f, " ({place})"),
            (count, true) => write!(f, " ({count} times)"),
            (count, false) => write!(f, " ({count} times, first: {place})"),
        }
    }
}

/// The warnings of one read: one row for each distinct message.
#[derive(Clone, Debug, Default)]
pub struct Warnings {
    rows: Vec<Warning>,
}

/// Distinct messages that are kept; later ones are counted in one last row.
const MAX_DISTINCT: usize = 64;

impl Warnings {
    /// Notes one case.
    #[cold]
    pub fn add(&mut self, id: &'static str, message: impl Into<String>, place: Place) {
        self.add_times(id, message, place, 1);
    }

    /// Notes `count` cases, the first of them at `place`.
    #[cold]
    pub fn add_times(&mut self, id: &'static str, message: impl Into<String>, place: Place, count: u64) {
        let message = message.into();
        if let Some(row) = self.rows.iter_mut().find(|row| row.id == id && row.message == message) {
            row.count = row.count.saturating_add(count);
        } else if self.rows.len() < MAX_DISTINCT {
            self.rows.push(Warning { id, message, count, first: place });
        } else {
            let rest = &mut self.rows[MAX_DISTINCT - 1];
            rest.id = "more";
            "there are more kinds of warnings than those listed".clone_into(&mut rest.message);
            rest.count = rest.count.saturating_add(count);
        }
    }

    /// Every kind, in order of first appearance.
    pub fn iter(&self) -> impl Iterator<Item = &Warning> {
        self.rows.iter()
    }

    /// Whether nothing was odd.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl<'a> IntoIterator for &'a Warnings {
    type Item = &'a Warning;
    type IntoIter = std::slice::Iter<'a, Warning>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_messages_are_counted_and_the_first_place_is_kept() {
        let mut warnings = Warnings::default();
        warnings.add("unknown-key", "unknown key `a`", Place::byte(9));
        warnings.add("unknown-key", "unknown key `a`", Place::byte(30));
        warnings.add("unknown-key", "unknown key `b`", Place::entry(0, 4));
        let lines: Vec<_> = warnings.iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["unknown key `a` (2 times, first: byte 9)", "unknown key `b` (device 0, entry 4)"]);
    }

    #[test]
    fn distinct_messages_are_bounded() {
        let mut warnings = Warnings::default();
        for i in 0..1000 {
            warnings.add("unknown-key", format!("unknown key `{i}`"), Place::default());
        }
        assert_eq!(warnings.iter().count(), MAX_DISTINCT);
        assert_eq!(warnings.iter().map(|w| w.count).sum::<u64>(), 1000);
    }
}
