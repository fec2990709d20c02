//! Which version of PyTorch is rebuilt, and what differs between them.

use std::fmt;
use std::str::FromStr;

/// A release of PyTorch, as far as its allocator's rules go: the patch number changes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TorchVersion {
    major: u16,
    minor: u16,
}

impl TorchVersion {
    /// The oldest version whose rules are known: the first with expandable segments.
    pub const OLDEST: Self = Self { major: 2, minor: 1 };
    /// The newest version whose rules are known.
    pub const NEWEST: Self = Self { major: 2, minor: 15 };

    /// Every version whose rules are known, from the oldest.
    pub fn all() -> impl DoubleEndedIterator<Item = Self> {
        (Self::OLDEST.minor..=Self::NEWEST.minor).map(Self::v2)
    }

    /// Version 2.`minor`.
    pub const fn v2(minor: u16) -> Self {
        Self { major: 2, minor }
    }

    /// Major and minor: `(2, 11)` of 2.11.
    pub const fn numbers(self) -> (u16, u16) {
        (self.major, self.minor)
    }

    /// Whether the allocators of both versions decide alike, given the same settings; how they read settings may differ.
    ///
    /// ```
    /// use highwater_allocator::TorchVersion;
    /// assert!(TorchVersion::v2(10).has_rules_of(TorchVersion::v2(11)));
    /// assert!(!TorchVersion::v2(11).has_rules_of(TorchVersion::v2(12)));
    /// ```
    pub fn has_rules_of(self, other: Self) -> bool {
        self.rules().once_settings_are_read() == other.rules().once_settings_are_read()
    }

    /// The rules of this version.
    pub(crate) fn rules(self) -> Rules {
        Rules {
            tie: match self {
                v if v >= Self::v2(13) => Tie::Segment,
                v if v == Self::v2(12) => Tie::Block,
                _ => Tie::Address,
            },
            limit_is_rounded: self >= Self::v2(13),
            full_fraction_limits: self < Self::v2(10),
            first_route_wins: self < Self::v2(10),
            open_pool_is_capture: self < Self::v2(13),
            fixed_non_split_rounding: self < Self::v2(6),
            parse_keeps_non_split_rounding: self < Self::v2(11),
            list_rest_overwrites_last: self < Self::v2(10),
            strict_conf: self < Self::v2(10),
            no_split_outlives_pool: self < Self::v2(14),
            returns_short_reservations: self >= Self::v2(15),
        }
    }
}

impl fmt::Display for TorchVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A text that is not the number of a version whose rules are known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a version of torch from {oldest} to {newest}", oldest = TorchVersion::OLDEST, newest = TorchVersion::NEWEST)]
pub struct UnknownVersion(String);

impl FromStr for TorchVersion {
    type Err = UnknownVersion;

    /// Reads `2.11`, `2.11.0` or `2.11.0+cu130`.
    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        let unknown = || UnknownVersion(text.to_owned());
        let release = text.split('+').next().unwrap_or_default();
        let mut numbers = release.split('.');
        let mut number = || numbers.next().and_then(|digits| digits.parse().ok());
        let (Some(major), Some(minor)) = (number(), number()) else {
            return Err(unknown());
        };
        let version = Self { major, minor };
        if (Self::OLDEST..=Self::NEWEST).contains(&version) { Ok(version) } else { Err(unknown()) }
    }
}

/// How free blocks of the same stream and size are told apart: the smallest is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tie {
    /// By address.
    Address,
    /// By the age of the block object.
    Block,
    /// By the age of the segment, then by address.
    Segment,
}

/// What differs between versions.
///
/// # Source
/// `spec/caching-allocator.md` section 21.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a difference between two releases")]
pub(crate) struct Rules {
    /// Section 2.1.
    pub(crate) tie: Tie,
    /// A fractional limit is rounded to the nearest byte, not truncated (15.1).
    pub(crate) limit_is_rounded: bool,
    /// An explicit fraction of 1.0 is a limit (15.1).
    pub(crate) full_fraction_limits: bool,
    /// Of two open pools that match, the one begun first takes the request (14.1).
    pub(crate) first_route_wins: bool,
    /// Any open pool counts as a running capture (14.1).
    pub(crate) open_pool_is_capture: bool,
    /// `max_non_split_rounding_mb` does not exist: it is 20 MiB (6).
    pub(crate) fixed_non_split_rounding: bool,
    /// Parsing settings leaves `max_non_split_rounding_mb` as it was (17.2).
    pub(crate) parse_keeps_non_split_rounding: bool,
    /// `>` in a list of divisions overwrites the last named entry (17.4).
    pub(crate) list_rest_overwrites_last: bool,
    /// The separators of a settings string matter, and its integers are of 32 bits (17.2).
    pub(crate) strict_conf: bool,
    /// A pool that is deleted and made anew is `no_split` as before (14.3).
    pub(crate) no_split_outlives_pool: bool,
    /// An expandable reservation that is too short for its request is given back (13.1).
    pub(crate) returns_short_reservations: bool,
}

impl Rules {
    /// These rules, with those for reading settings put alike.
    fn once_settings_are_read(self) -> Self {
        Self { parse_keeps_non_split_rounding: false, list_rest_overwrites_last: false, strict_conf: false, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_and_build_are_ignored() {
        for text in ["2.11", "2.11.0", "2.11.1+cu130"] {
            assert_eq!(text.parse(), Ok(TorchVersion::v2(11)));
        }
    }

    #[test]
    fn an_unknown_version_is_refused() {
        for text in ["", "2", "2.16", "2.0", "1.13", "two", "2.x", "-2.11"] {
            assert!(text.parse::<TorchVersion>().is_err(), "{text}");
        }
        insta::assert_snapshot!("3.0".parse::<TorchVersion>().unwrap_err(), @"`3.0` is not a version of torch from 2.1 to 2.15");
    }
}
