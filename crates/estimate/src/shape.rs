//! Shapes whose sizes have names, so that a number can say how it came about.

use std::fmt;

/// One size of a tensor, with the symbol that formulas use for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dim {
    /// How formulas call it: `B`, `S`, `h`.
    pub symbol: &'static str,
    /// How large it is.
    pub size: u64,
}

/// A size with its symbol.
pub const fn dim(symbol: &'static str, size: u64) -> Dim {
    Dim { symbol, size }
}

/// Up to four sizes, outermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    dims: [Dim; 4],
    rank: u8,
}

impl Shape {
    /// A shape of these sizes; sizes beyond the fourth are multiplied into it.
    pub fn of(sizes: &[Dim]) -> Shape {
        let mut dims = [dim("", 1); 4];
        for (index, &size) in sizes.iter().enumerate() {
            match dims.get_mut(index) {
                Some(place) => *place = size,
                None => dims[3].size = dims[3].size.saturating_mul(size.size),
            }
        }
        let rank = u8::try_from(sizes.len().min(4)).unwrap_or(4);
        Shape { dims, rank }
    }

    /// The sizes, outermost first.
    pub fn dims(&self) -> &[Dim] {
        &self.dims[..usize::from(self.rank)]
    }

    /// The size at a place; 1 where there is none.
    pub fn at(&self, place: usize) -> Dim {
        self.dims().get(place).copied().unwrap_or(dim("1", 1))
    }

    /// How many numbers; saturates.
    pub fn numel(&self) -> u64 {
        self.dims().iter().fold(1, |product: u64, dim| product.saturating_mul(dim.size))
    }

    /// The innermost size.
    pub fn last(&self) -> Dim {
        self.dims().last().copied().unwrap_or(dim("1", 1))
    }

    /// The same with another innermost size.
    #[must_use]
    pub fn with_last(&self, last: Dim) -> Shape {
        let mut shape = *self;
        if shape.rank == 0 {
            return Shape::of(&[last]);
        }
        shape.dims[usize::from(shape.rank) - 1] = last;
        shape
    }

    /// All but the innermost size.
    #[must_use]
    pub fn rows(&self) -> Shape {
        Shape::of(&self.dims()[..self.dims().len().saturating_sub(1)])
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for dim in self.dims().iter().filter(|dim| dim.symbol != "1") {
            if !first {
                formatter.write_str("·")?;
            }
            first = false;
            formatter.write_str(dim.symbol)?;
        }
        if first { formatter.write_str("1") } else { Ok(()) }
    }
}
