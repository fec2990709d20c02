//! Gradients that ranks reduce into shares, as `DeepSpeed`'s `ZeRO` does.
//!
//! # Source
//! `DeepSpeed` 0.19, `deepspeed/runtime/zero/stage_1_and_2.py`: `setup_buckets`, `process_gradients`, `reduce_gradients`,
//! `reduce_ipg_grads`, `copy_grads_in_partition`; `stage3.py`: `_setup_for_real_optimizer`, `__avg_scatter_grads`; the size of a bucket: `zero/config.py`, `reduce_bucket_size`.

use super::sharded::flat;
use super::{Category, Parameter, Tape, Tensor};
use crate::dtype::DType;
use crate::shape::{Shape, dim};

/// Elements of a bucket, however small the model is.
const BUCKET: u64 = 500_000_000;

/// Ranks that share gradients out.
pub(crate) struct Shares {
    ranks: u64,
    /// Whether gradients are reduced as they come; else when all are there.
    at_once: bool,
    /// Whether bucket and share are there from the start, as in the third stage.
    stays: bool,
    /// Where each parameter begins among all elements.
    offsets: Vec<u64>,
    /// The bucket of a backward pass, the elements in it, and from where to where among all they are.
    bucket: Option<Tensor>,
    filled: u64,
    range: (u64, u64),
    /// This rank's share.
    own: Option<Tensor>,
}

impl Tape {
    /// Gradients are shared out over so many ranks.
    pub(crate) fn share_gradients(&mut self, ranks: u64, at_once: bool) {
        let stays = self.sharded.is_some();
        let mut end = 0_u64;
        let offsets = self.parameters.iter().map(|parameter| {
            let begin = end;
            if parameter.is_trainable() {
                end = end.saturating_add(self.elements(parameter));
            }
            begin
        });
        let offsets = offsets.collect();
        self.shares =
            Some(Shares { ranks, at_once, stays, offsets, bucket: None, filled: 0, range: (u64::MAX, 0), own: None });
        if stays {
            self.make_bucket();
            let (numel, dtype) = self.trained();
            let own = self.alloc_as(Category::Gradient, "gradients", flat(numel.div_ceil(ranks.max(1))), dtype);
            if let Some(shares) = &mut self.shares {
                shares.own = Some(own);
            }
        }
    }

    /// Elements of a parameter on which this rank works.
    fn elements(&self, parameter: &Parameter) -> u64 {
        if self.sharded.is_some() { parameter.numel() } else { parameter.tensor.shape.numel() }
    }

    /// Elements of all trained parameters, and their type.
    pub(crate) fn trained(&self) -> (u64, DType) {
        let trained = || self.parameters.iter().filter(|parameter| parameter.is_trainable());
        let numel = trained().fold(0_u64, |sum, parameter| sum.saturating_add(self.elements(parameter)));
        (numel, trained().next().map_or(DType::Float32, |parameter| parameter.tensor.dtype))
    }

    /// A gradient has come; the first makes the bucket.
    pub(super) fn arrive(&mut self, id: u32) {
        let Some(shares) = &self.shares else { return };
        let (is_there, at_once) = (shares.bucket.is_some(), shares.at_once);
        if !is_there {
            self.make_bucket();
        }
        if at_once {
            self.put(id);
        }
    }

    fn make_bucket(&mut self) {
        let part = self.part("sharding");
        let dtype = self.trained().1;
        let bucket = self.alloc_as(Category::Workspace, "bucket to reduce", flat(BUCKET), dtype);
        self.part(part);
        if let Some(shares) = &mut self.shares {
            shares.bucket = Some(bucket);
        }
    }

    /// A gradient is copied into the bucket, which is reduced before it overflows.
    fn put(&mut self, id: u32) {
        let numel = self.elements(&self.parameters[id as usize]);
        let Some(shares) = &mut self.shares else { return };
        if shares.filled > 0 && shares.filled.saturating_add(numel) > BUCKET {
            self.reduce();
        }
        let parameter = &mut self.parameters[id as usize];
        (parameter.grad, parameter.whole_grad) = (None, None);
        self.release_parameter(id);
        if let Some(shares) = &mut self.shares {
            shares.filled = shares.filled.saturating_add(numel);
            let begin = shares.offsets.get(id as usize).copied().unwrap_or(0);
            let (low, high) = shares.range;
            shares.range = (low.min(begin), high.max(begin.saturating_add(numel)));
        }
    }

    /// Reduces the bucket, which is flattened first if it spans ranks. The first rank keeps its share.
    fn reduce(&mut self) {
        let (numel, dtype) = self.trained();
        let Some(shares) = &mut self.shares else { return };
        let filled = std::mem::take(&mut shares.filled);
        let (low, high) = std::mem::replace(&mut shares.range, (u64::MAX, 0));
        let stays = shares.stays;
        let (share, has_own) = (numel.div_ceil(shares.ranks).max(1), shares.own.is_some());
        if filled == 0 {
            return;
        }
        let part = self.part("sharding");
        if stays || low / share != high.saturating_sub(1) / share {
            drop(self.alloc_as(Category::Workspace, "bucket, made flat", flat(filled), dtype));
        }
        if !has_own && low < share {
            let own = flat(self.of_first_rank(share));
            let own = self.alloc_as(Category::Gradient, "gradients", own, dtype);
            if let Some(shares) = &mut self.shares {
                shares.own = Some(own);
            }
        }
        self.part(part);
    }

    /// Elements of the parameters that the first rank's share is of, the last of them whole.
    fn of_first_rank(&self, share: u64) -> u64 {
        let mut sum = 0_u64;
        for parameter in self.parameters.iter().filter(|parameter| parameter.is_trainable()) {
            if sum >= share {
                break;
            }
            sum = sum.saturating_add(parameter.tensor.shape.numel());
        }
        sum
    }

    /// A backward pass is over; at the end of the last micro-batch all gradients are reduced.
    pub(crate) fn end_of_backward(&mut self, is_last: bool) {
        let Some(shares) = &self.shares else { return };
        if !shares.at_once && !is_last {
            return;
        }
        if !shares.at_once {
            for id in 0..self.parameters.len() {
                if self.parameters[id].grad.is_some() {
                    self.put(u32::try_from(id).unwrap_or(u32::MAX));
                }
            }
        }
        self.reduce();
        if let Some(shares) = self.shares.as_mut().filter(|shares| !shares.stays) {
            shares.bucket = None;
        }
    }

    /// This rank's share in float32, for the optimizer. Before, its norm is computed in float64, parameter by parameter.
    pub(crate) fn own_gradients(&mut self) -> Option<Tensor> {
        let (numel, dtype) = self.trained();
        let shares = self.shares.as_mut()?;
        let count = numel.div_ceil(shares.ranks);
        if shares.stays {
            return Some(self.alloc_as(Category::Gradient, "gradients in float32", flat(count), DType::Float32));
        }
        let own = shares.own.take();
        let largest = self.parameters.iter().map(|own| own.tensor.shape.numel()).max().unwrap_or(0).min(count);
        let part = self.part("sharding");
        drop(self.alloc_as(
            Category::Temporary,
            "gradient in float64",
            Shape::of(&[dim("bytes", largest.saturating_mul(8))]),
            DType::Byte,
        ));
        let joined = self.alloc_as(Category::Gradient, "gradients, made flat", flat(count), dtype);
        let wide = if dtype == DType::Float32 {
            joined.clone()
        } else {
            self.alloc_as(Category::Gradient, "gradients in float32", flat(count), DType::Float32)
        };
        drop((joined, own));
        self.part(part);
        Some(wide)
    }
}
