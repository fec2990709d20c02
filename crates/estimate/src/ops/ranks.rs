//! Tensors that tensor-parallel ranks share.
//!
//! # Source
//! transformers 5.17, `distributed/tensor_parallel.py`; PyTorch v2.11, `torch/distributed/tensor/_redistribute.py`, `_api.py`, and
//! `torch/distributed/_functional_collectives.py`: a collective gives a new tensor, an all-gather along the last size one more.

use crate::dtype::DType;
use crate::shape::{Dim, Shape, dim};
use crate::tape::{Tape, Tensor};

impl Tape {
    /// What every rank has, for a product with some outputs of each: gradients of the ranks are summed.
    pub(crate) fn given_to_ranks(&mut self, x: &Tensor) -> Tensor {
        if self.tensor_ranks <= 1 || !self.records(&[x]) {
            return x.clone();
        }
        let same = x.clone();
        self.record(&[x], same, |tape, grad| {
            vec![Some(tape.alloc("gradient, summed over ranks", grad.shape, grad.dtype))]
        })
    }

    /// The sum of what every rank has.
    pub(crate) fn summed_over_ranks(&mut self, name: &'static str, x: Tensor) -> Tensor {
        if self.tensor_ranks <= 1 {
            return x;
        }
        // Without gradients the sum is made in place.
        if !self.grad_enabled {
            return x;
        }
        let sum = self.alloc(name, x.shape, x.dtype);
        if !self.records(&[&x]) {
            return sum;
        }
        self.record(&[&x], sum, |_, grad| vec![Some(grad)])
    }

    /// The last size of every rank, side by side.
    pub(crate) fn gathered_from_ranks(&mut self, name: &'static str, x: Tensor) -> Tensor {
        if self.tensor_ranks <= 1 {
            return x;
        }
        let last = x.shape.last();
        let shape = x.shape.with_last(Dim { size: last.size.saturating_mul(self.tensor_ranks), ..last });
        let gathered = self.alloc("gathered from the ranks", shape, x.dtype);
        let joined = self.alloc(name, shape, x.dtype);
        drop(gathered);
        if !self.records(&[&x]) {
            return joined;
        }
        let own = x.shape;
        self.record(&[&x], joined, move |tape, grad| {
            let part = tape.alloc("gradient, of this rank", own, grad.dtype);
            drop(grad);
            vec![Some(part)]
        })
    }

    /// `nn.Embedding` of which each rank has some rows: ids of others' rows are masked, and the sum over the ranks has all.
    ///
    /// # Source
    /// PyTorch v2.11, `torch/distributed/tensor/placement_types.py`, `_MaskPartial`.
    pub(crate) fn embedding_of_ranks(
        &mut self,
        name: &'static str,
        ids: &Tensor,
        table: &Tensor,
        width: Dim,
    ) -> Tensor {
        if self.tensor_ranks <= 1 {
            return self.embedding(name, ids, table, width);
        }
        let mask = self.alloc("ids of other ranks, boolean", ids.shape, DType::Byte);
        let masked = self.alloc("ids of this rank", ids.shape, DType::Int64);
        let records = self.records(&[table]);
        let kept = records.then(|| self.save(ids));
        let part = self.embedding(name, ids, &table.detached(), width);
        drop((mask, masked));
        let sum = self.summed_over_ranks(name, part);
        let Some(kept) = kept else { return sum };
        let (edge, own, rows) = (table.edge, table.shape, table.shape.at(0));
        let whole = Shape::of(&[Dim { size: rows.size.saturating_mul(self.tensor_ranks), ..rows }, table.shape.last()]);
        self.record(&[table], sum, move |tape, grad| {
            // The gradient has the rows of all ranks, of which this rank's are copied and added to those of the head.
            let all = tape.alloc("gradient of the rows of all ranks", whole, grad.dtype);
            let dtype = grad.dtype;
            drop((grad, kept));
            let gradient = tape.alloc_grad(edge, "gradients", own, dtype);
            let sum = tape.alloc_grad(edge, "gradients that meet, added", own, dtype);
            drop((sum, all));
            vec![Some(gradient)]
        })
    }

    /// A size that the ranks share.
    pub(crate) fn of_rank(&self, name: &'static str, size: u64) -> Dim {
        dim(name, size.div_ceil(self.tensor_ranks.max(1)))
    }
}
