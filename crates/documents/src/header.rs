//! The two fields that every document begins with.

use std::fmt;
use std::marker::PhantomData;

use serde::{Serialize, Serializer};

/// A JSON document: its first fields are `format` and `version`, a [`Format`] and a [`Version`] of itself.
pub trait Document: Serialize {
    /// The name of the shape: no two shapes share one.
    const FORMAT: &'static str;
    /// Raised when a name goes or changes its meaning, not when one is added.
    const VERSION: u32;
}

/// The field `format` of a document: [`Document::FORMAT`].
pub struct Format<D>(PhantomData<fn() -> D>);

/// The field `version` of a document: [`Document::VERSION`].
pub struct Version<D>(PhantomData<fn() -> D>);

/// Like a derive, but without its bound on the document.
macro_rules! constant {
    ($name:ident, $value:ident, $means:literal) => {
        impl<D> Default for $name<D> {
            fn default() -> Self {
                Self(PhantomData)
            }
        }

        impl<D> Clone for $name<D> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<D> Copy for $name<D> {}

        impl<D: Document> fmt::Debug for $name<D> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                D::$value.fmt(f)
            }
        }

        #[cfg(feature = "schema")]
        impl<D: Document> schemars::JsonSchema for $name<D> {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"const": D::$value, "description": $means})
            }
        }

        impl<D: Document> Serialize for $name<D> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                D::$value.serialize(serializer)
            }
        }
    };
}

constant!(Format, FORMAT, "The name of the document.");
constant!(Version, VERSION, "The version of its shape.");
