//! Look-ups in tables.

use crate::dtype::DType;
use crate::shape::{Dim, Shape};
use crate::tape::{Edge, Tape, Tensor};

impl Tape {
    /// `nn.Embedding`: keeps the ids; the gradient of the table is dense.
    ///
    /// # Source
    /// PyTorch v2.11, `aten/src/ATen/native/cuda/Embedding.cu`, `embedding_dense_backward_cuda`.
    pub(crate) fn embedding(&mut self, name: &'static str, ids: &Tensor, table: &Tensor, width: Dim) -> Tensor {
        let records = self.records(&[table]);
        let kept = records.then(|| self.save(ids));
        let sizes: Vec<Dim> = ids.shape.dims().iter().copied().chain([width]).collect();
        let output = self.alloc(name, Shape::of(&sizes), table.dtype);
        self.module_output(&output);
        let Some(kept) = kept else { return output };
        let (edge, shape) = (table.edge, table.shape);
        self.record(&[table], output, move |tape, grad| {
            let gradient = tape.alloc_grad(edge, "gradients", shape, grad.dtype);
            drop((grad, kept));
            vec![Some(gradient)]
        })
    }

    /// A tensor that the program makes: ids, positions, pixels.
    pub(crate) fn input(&mut self, name: &'static str, shape: Shape, dtype: DType) -> Tensor {
        let part = self.part("input");
        let input = self.alloc_as(crate::tape::Category::Input, name, shape, dtype);
        self.part(part);
        input
    }

    /// Whether gradients are wanted at all: dropout is on.
    pub(crate) fn is_training(&self) -> bool {
        self.training
    }

    /// A convolution whose windows do not overlap, as patch embeddings are: the output, and in the backward pass the
    /// gradient of the weight. What cuDNN works in is not known.
    pub(crate) fn patches(
        &mut self,
        name: &'static str,
        pixels: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        shape: Shape,
    ) -> Tensor {
        let cast = |tape: &mut Tape, x: &Tensor, name| match tape.autocast {
            Some(lower) if x.dtype == DType::Float32 => tape.cached_cast(x.edge).unwrap_or_else(|| {
                let cast = tape.to(name, x, lower);
                tape.keep_cast(x.edge, &cast);
                cast
            }),
            _ => x.clone(),
        };
        let bias = bias.map(|bias| cast(self, bias, "bias, cast by autocast"));
        let weight = cast(self, weight, "weight, cast by autocast");
        let pixels = cast(self, pixels, "input, cast by autocast");
        let operands: Vec<&Tensor> = [&pixels, &weight].into_iter().chain(bias.as_ref()).collect();
        let kept = self.records(&operands).then(|| (self.save(&pixels), self.save(&weight)));
        let output = self.alloc(name, shape, weight.dtype);
        let Some(kept) = kept else { return output };
        let edges = (pixels.edge, pixels.shape, weight.edge, weight.shape);
        let bias_edge = bias.as_ref().map(|bias| (bias.edge, bias.shape));
        self.record(&operands, output, move |tape, grad| {
            // Gradients come channels first, as the output did: a copy of them is made.
            let dense = tape.alloc("copy of a gradient", grad.shape, grad.dtype);
            let of_weight =
                (edges.2 != Edge::Nowhere).then(|| tape.alloc_grad(edges.2, "gradients", edges.3, grad.dtype));
            drop(dense);
            let of_input =
                (edges.0 != Edge::Nowhere).then(|| tape.alloc("gradient of a convolution", edges.1, grad.dtype));
            let of_bias = bias_edge
                .filter(|(edge, _)| *edge != Edge::Nowhere)
                .map(|(edge, shape)| tape.alloc_grad(edge, "gradients", shape, grad.dtype));
            drop((grad, kept));
            vec![of_input, of_weight, of_bias]
        })
    }
}
