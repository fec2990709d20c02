//! The books: which allocation is made when, and freed when.

use std::cell::{Cell, RefCell};

use super::{Category, Moment};
use crate::shape::Shape;

/// What an allocation is, so that the peak can be told in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct What {
    /// The part of the model or of the step: `attention`, `mlp`, `loss`.
    pub(crate) part: &'static str,
    /// What it is: `silu output`.
    pub(crate) name: &'static str,
    /// Of which category while it lives.
    pub(crate) category: Category,
    /// Its shape; with the bytes of one number, its size.
    pub(crate) shape: Shape,
    /// Bytes of one number.
    pub(crate) element_bytes: u64,
}

/// One allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocation {
    /// As asked for, before the allocator rounds.
    pub(crate) bytes: u64,
    pub(crate) what: What,
    /// Whether the autograd graph has kept it.
    pub(crate) is_saved: bool,
    /// The stream that it is allocated in: memory is reused within a stream only.
    pub(crate) stream: u64,
}

/// What happened, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The allocation of this number is made.
    Alloc(u32),
    /// It is freed.
    Free(u32),
    /// A phase begins.
    Begin(Moment),
}

/// Takes down allocations as they are made and freed.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    inner: RefCell<Books>,
    stream: Cell<u64>,
}

/// Everything that was taken down.
#[derive(Debug, Default)]
pub(crate) struct Books {
    pub(crate) allocations: Vec<Allocation>,
    pub(crate) events: Vec<Event>,
}

impl Meter {
    /// Takes down an allocation and gives its number.
    pub(crate) fn alloc(&self, bytes: u64, what: What) -> u32 {
        let mut books = self.inner.borrow_mut();
        let id = u32::try_from(books.allocations.len()).unwrap_or(u32::MAX);
        books.allocations.push(Allocation { bytes, what, is_saved: false, stream: self.stream.get() });
        books.events.push(Event::Alloc(id));
        id
    }

    /// Later allocations are in this stream. Gives the stream before.
    pub(crate) fn enter(&self, stream: u64) -> u64 {
        self.stream.replace(stream)
    }

    /// Takes down that the autograd graph keeps an allocation.
    pub(crate) fn save(&self, id: u32) {
        if let Some(allocation) = self.inner.borrow_mut().allocations.get_mut(id as usize) {
            allocation.is_saved = true;
        }
    }

    /// Takes down that an allocation is freed.
    pub(crate) fn free(&self, id: u32) {
        self.inner.borrow_mut().events.push(Event::Free(id));
    }

    /// Takes down that a phase begins.
    pub(crate) fn begin(&self, moment: Moment) {
        self.inner.borrow_mut().events.push(Event::Begin(moment));
    }

    /// The events so far; the books are empty then.
    pub(crate) fn take(&self) -> Books {
        std::mem::take(&mut *self.inner.borrow_mut())
    }
}
