//! Tensors: a storage that is counted while anybody holds it, a shape, and where their gradient goes.

use std::rc::Rc;

use super::meter::Meter;
use crate::dtype::DType;
use crate::shape::Shape;

/// Memory that is freed with the last tensor that refers to it.
#[derive(Debug)]
pub(crate) struct Storage {
    meter: Rc<Meter>,
    id: u32,
}

impl Storage {
    pub(crate) fn new(meter: &Rc<Meter>, id: u32) -> Rc<Storage> {
        Rc::new(Storage { meter: Rc::clone(meter), id })
    }
}

impl Storage {
    /// Takes down that the autograd graph keeps it.
    pub(crate) fn save(&self) {
        self.meter.save(self.id);
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        self.meter.free(self.id);
    }
}

/// Where the gradient of a tensor goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    /// Nowhere: it needs none.
    Nowhere,
    /// To a node of the graph, as the gradient of its output of this number.
    Node(u32, u8),
    /// To a parameter.
    Parameter(u32),
}

/// A tensor. Views are tensors that share a storage.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    /// `None`: memory that nobody keeps here, such as what a checkpoint drops.
    pub(crate) storage: Option<Rc<Storage>>,
    pub(crate) shape: Shape,
    pub(crate) dtype: DType,
    pub(crate) edge: Edge,
    /// A gradient that came through a view.
    ///
    /// # Source
    /// Recordings of torch 2.11 and 2.15: when gradients meet, the first is added to in place unless it is such a view.
    pub(crate) is_view: bool,
}

impl Tensor {
    /// The same gradient, having passed a view.
    pub(crate) fn through_view(self) -> Tensor {
        Tensor { is_view: true, ..self }
    }

    /// Whether a gradient is wanted of it.
    pub(crate) fn requires_grad(&self) -> bool {
        self.edge != Edge::Nowhere
    }

    /// The same memory, without a graph.
    pub(crate) fn detached(&self) -> Tensor {
        Tensor { edge: Edge::Nowhere, ..self.clone() }
    }

    /// The same memory and graph, seen as another shape.
    pub(crate) fn view(&self, shape: Shape) -> Tensor {
        Tensor { shape, ..self.clone() }
    }

    /// Whether nobody else refers to its memory.
    pub(crate) fn is_only_reference(&self) -> bool {
        self.storage.as_ref().is_none_or(|storage| Rc::strong_count(storage) == 1)
    }
}
