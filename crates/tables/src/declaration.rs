//! What a table is: its columns with their types, and the function that sends its rows.

use std::borrow::Cow;
use std::io;

use crate::Recording;

/// Receives the rows of a table, each with a value for every column, in the order of the columns.
pub type Rows<'r> = dyn FnMut(&[Value<'_>]) -> io::Result<()> + 'r;

/// A table.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// What a row is.
    pub about: &'static str,
    /// Its columns, behind those of [`PARTITION`](crate::PARTITION).
    pub columns: &'static [Column],
    /// Whether it is written only if that is asked for, because of its size.
    pub is_on_request: bool,
    pub(crate) fill: fn(&Recording<'_>, &mut Rows<'_>) -> io::Result<()>,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name. The end of the name is its unit: `_bytes`, `_us` for microseconds, `_share` for a part of 1.
    pub name: &'static str,
    /// The type of its values.
    pub kind: Kind,
    /// Whether values may be missing.
    pub is_optional: bool,
    /// Its meaning.
    pub about: &'static str,
}

impl Column {
    /// The unit of its values, where they have one.
    pub fn unit(&self) -> Option<&'static str> {
        let units = [("_bytes", "bytes"), ("_bytes_at_most", "bytes"), ("_us", "µs"), ("_share", "part of 1")];
        units
            .into_iter()
            .find(|(ending, _)| self.name.ends_with(ending) || self.name == &ending[1..])
            .map(|(_, unit)| unit)
    }
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A signed integer of 64 bits, which every engine can subtract.
    Integer,
    /// A floating-point number of 64 bits.
    Real,
    /// True or false.
    Boolean,
    /// UTF-8.
    Text,
}

impl Kind {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Real => "real",
            Self::Boolean => "boolean",
            Self::Text => "text",
        }
    }
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// None.
    Null,
    /// Of [`Kind::Integer`].
    Integer(i64),
    /// Of [`Kind::Real`].
    Real(f64),
    /// Of [`Kind::Boolean`].
    Boolean(bool),
    /// Of [`Kind::Text`].
    Text(&'a str),
}

/// A type of Rust whose values a column can have.
pub(crate) trait Cell {
    const KIND: Kind;
    const IS_OPTIONAL: bool = false;
    fn value(&self) -> Value<'_>;
}

impl<T: Cell> Cell for Option<T> {
    const KIND: Kind = T::KIND;
    const IS_OPTIONAL: bool = true;

    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, Cell::value)
    }
}

/// Numbers; one that is too large, as of a file that was made up, is the largest that there is.
macro_rules! integers {
    ($($type:ty)+) => {
        $(impl Cell for $type {
            const KIND: Kind = Kind::Integer;

            fn value(&self) -> Value<'_> {
                Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
            }
        })+
    };
}

integers!(i64 u32 u64 usize);

/// An address or a handle: 64 bits that stand for themselves; from 2^63 on the number is negative.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bits(pub(crate) u64);

impl Cell for Bits {
    const KIND: Kind = Kind::Integer;

    fn value(&self) -> Value<'_> {
        Value::Integer(self.0.cast_signed())
    }
}

impl Cell for f64 {
    const KIND: Kind = Kind::Real;

    fn value(&self) -> Value<'_> {
        Value::Real(*self)
    }
}

impl Cell for bool {
    const KIND: Kind = Kind::Boolean;

    fn value(&self) -> Value<'_> {
        Value::Boolean(*self)
    }
}

impl Cell for &str {
    const KIND: Kind = Kind::Text;

    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl Cell for Cow<'_, str> {
    const KIND: Kind = Kind::Text;

    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

/// Declares a table as the structure of a row: its fields are the columns, their comments the documentation.
macro_rules! table {
    (@) => { false };
    (@ on_request) => { true };
    (
        $(#[doc = $about:literal])+
        $name:literal $(, $on_request:ident)? => $row:ident $(<$life:lifetime>)?, by $fill:path {
            $( $(#[doc = $meaning:literal])+ $column:ident: $type:ty, )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug)]
        pub(crate) struct $row $(<$life>)? {
            $( $(#[doc = $meaning])+ $column: $type, )+
        }

        impl $(<$life>)? $row $(<$life>)? {
            /// The declaration.
            pub(crate) const TABLE: $crate::Table = $crate::Table {
                name: $name,
                about: concat!($($about),+).trim_ascii(),
                columns: &[
                    $( $crate::Column {
                        name: stringify!($column),
                        kind: <$type as $crate::declaration::Cell>::KIND,
                        is_optional: <$type as $crate::declaration::Cell>::IS_OPTIONAL,
                        about: concat!($($meaning),+).trim_ascii(),
                    }, )+
                ],
                is_on_request: $crate::declaration::table!(@ $($on_request)?),
                fill: $fill,
            };

            fn send(&self, rows: &mut $crate::Rows<'_>) -> std::io::Result<()> {
                rows(&[$( $crate::declaration::Cell::value(&self.$column) ),+])
            }
        }
    };
}

pub(crate) use table;
