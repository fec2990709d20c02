//! Element by element: sums, products, activation functions, casts, dropout.

use crate::dtype::DType;
use crate::shape::{Shape, dim};
use crate::tape::{Edge, Tape, Tensor};

/// The type that two numbers of these types give.
fn promoted(a: DType, b: DType) -> DType {
    if a == b { a } else { DType::Float32 }
}

fn larger(a: &Tensor, b: &Tensor) -> Shape {
    let size = |x: &Tensor| (x.shape.numel(), x.shape.dims().len());
    if size(b) > size(a) { b.shape } else { a.shape }
}

impl Tape {
    /// The gradient of a factor or summand that was expanded: summed to its own shape.
    fn summed_to(&mut self, edge: Edge, name: &'static str, grad: Tensor, shape: Shape) -> Tensor {
        if grad.shape.numel() == shape.numel() {
            return grad;
        }
        let sum = self.alloc_grad(edge, name, shape, grad.dtype);
        if shape.numel() > 1 && shape.last().size == grad.shape.last().size {
            self.column_sum_scratch(grad.shape.numel() / shape.numel(), shape.numel());
        }
        drop(grad);
        sum
    }

    /// `a + b`: keeps nothing.
    pub(crate) fn add(&mut self, name: &'static str, a: &Tensor, b: &Tensor) -> Tensor {
        let records = self.records(&[a, b]);
        let sum = self.alloc(name, larger(a, b), promoted(a.dtype, b.dtype));
        if !records {
            return sum;
        }
        let (edges, shapes) = ((a.edge, b.edge), (a.shape, b.shape));
        self.record(&[a, b], sum, move |tape, grad| {
            let b =
                (edges.1 != Edge::Nowhere).then(|| tape.summed_to(edges.1, "gradient, summed", grad.clone(), shapes.1));
            let a =
                (edges.0 != Edge::Nowhere).then(|| tape.summed_to(edges.0, "gradient, summed", grad.clone(), shapes.0));
            vec![a, b]
        })
    }

    /// `a.add_(b)`: the sum is where `a` was.
    pub(crate) fn add_in_place(&mut self, a: &Tensor, b: &Tensor) -> Tensor {
        if !self.records(&[a, b]) {
            return a.clone();
        }
        let (edge, shape) = (b.edge, b.shape);
        self.record(&[a, b], a.clone(), move |tape, grad| {
            let b = (edge != Edge::Nowhere).then(|| tape.summed_to(edge, "gradient, summed", grad.clone(), shape));
            vec![Some(grad), b]
        })
    }

    /// `torch.where(mask, x, number)` or `x.masked_fill(mask, number)`: keeps the mask.
    pub(crate) fn masked(&mut self, name: &'static str, x: &Tensor, mask: &Tensor) -> Tensor {
        let kept = self.records(&[x]).then(|| self.save(mask));
        let output = self.alloc(name, x.shape, x.dtype);
        let Some(kept) = kept else { return output };
        self.record(&[x], output, move |tape, grad| {
            let gradient = tape.alloc("gradient of a masked fill", grad.shape, grad.dtype);
            drop((grad, kept));
            vec![Some(gradient)]
        })
    }

    /// `torch.clamp` to a range: keeps its input.
    ///
    /// # Source
    /// PyTorch v2.11, `torch/csrc/autograd/FunctionsManual.cpp`, `clamp_backward`.
    pub(crate) fn clamp(&mut self, name: &'static str, x: &Tensor) -> Tensor {
        let kept = self.records(&[x]).then(|| self.save(x));
        let output = self.alloc(name, x.shape, x.dtype);
        let Some(kept) = kept else { return output };
        self.record(&[x], output, move |tape, grad| {
            let above = tape.alloc("within the range, boolean", grad.shape, DType::Byte);
            let below = tape.alloc("within the range, boolean", grad.shape, DType::Byte);
            drop(below);
            let gradient = tape.alloc("gradient of a clamp", grad.shape, grad.dtype);
            drop((grad, kept, above));
            vec![Some(gradient)]
        })
    }

    /// `a * b`: keeps each factor that the other's gradient needs.
    pub(crate) fn mul(&mut self, name: &'static str, a: &Tensor, b: &Tensor) -> Tensor {
        let records = self.records(&[a, b]);
        let dtype = promoted(a.dtype, b.dtype);
        let shape = larger(a, b);
        if !records {
            return self.alloc(name, shape, dtype);
        }
        let kept_a = b.requires_grad().then(|| self.save(a));
        let kept_b = a.requires_grad().then(|| self.save(b));
        let product = self.alloc(name, shape, dtype);
        let (edges, shapes) = ((a.edge, b.edge), (a.shape, b.shape));
        self.record(&[a, b], product, move |tape, grad| {
            let product = |tape: &mut Tape, kept: &Option<Tensor>, edge, shape: Shape| {
                let kept = kept.as_ref()?;
                let full = if shape.numel() == grad.shape.numel() { edge } else { Edge::Nowhere };
                Some(tape.alloc_grad(full, "gradient of a factor", grad.shape, promoted(grad.dtype, kept.dtype)))
            };
            // Both products are made before either is summed to its factor's shape.
            let b = product(tape, &kept_a, edges.1, shapes.1);
            let a = product(tape, &kept_b, edges.0, shapes.0);
            let a = a.map(|a| tape.summed_to(edges.0, "gradient of a factor, summed", a, shapes.0));
            let b = b.map(|b| tape.summed_to(edges.1, "gradient of a factor, summed", b, shapes.1));
            vec![a, b]
        })
    }

    /// `x * number`, `x / number`, `-x`: keeps nothing, its gradient is a product again.
    pub(crate) fn scale(&mut self, name: &'static str, x: &Tensor) -> Tensor {
        let product = self.alloc(name, x.shape, x.dtype);
        if !self.records(&[x]) {
            return product;
        }
        let edge = x.edge;
        self.record(&[x], product, move |tape, grad| {
            vec![Some(tape.alloc_grad(edge, "gradient of a product with a number", grad.shape, grad.dtype))]
        })
    }

    /// `x + number`: keeps nothing, its gradient is passed on.
    pub(crate) fn shift(&mut self, name: &'static str, x: &Tensor) -> Tensor {
        let sum = self.alloc(name, x.shape, x.dtype);
        if !self.records(&[x]) {
            return sum;
        }
        self.record(&[x], sum, |_, grad| vec![Some(grad)])
    }

    /// An activation function that keeps its input: `silu`, `gelu`.
    pub(crate) fn activation_of_input(&mut self, name: &'static str, x: &Tensor) -> Tensor {
        let kept = self.records(&[x]).then(|| self.save(x));
        let output = self.alloc(name, x.shape, x.dtype);
        let Some(kept) = kept else { return output };
        self.record(&[x], output, move |tape, grad| {
            let gradient = tape.alloc("gradient of an activation function", grad.shape, grad.dtype);
            drop((grad, kept));
            vec![Some(gradient)]
        })
    }

    /// An activation function that keeps its output: `relu`, `tanh`, `sigmoid`.
    pub(crate) fn activation_of_output(&mut self, name: &'static str, x: &Tensor) -> Tensor {
        let records = self.records(&[x]);
        let output = self.alloc(name, x.shape, x.dtype);
        if !records {
            return output;
        }
        let kept = self.save(&output);
        self.record(&[x], output, move |tape, grad| {
            let gradient = tape.alloc("gradient of an activation function", grad.shape, grad.dtype);
            drop((grad, kept));
            vec![Some(gradient)]
        })
    }

    /// `x.pow(exponent)`: keeps its input; the gradient makes the lower power and its multiple.
    ///
    /// # Source
    /// PyTorch v2.11, `torch/csrc/autograd/FunctionsManual.cpp`, `pow_backward`: `grad * (exponent * self.pow(exponent - 1))`.
    pub(crate) fn pow(&mut self, name: &'static str, x: &Tensor) -> Tensor {
        let kept = self.records(&[x]).then(|| self.save(x));
        let output = self.alloc(name, x.shape, x.dtype);
        let Some(kept) = kept else { return output };
        self.record(&[x], output, move |tape, grad| {
            let lower = tape.alloc("lower power", grad.shape, grad.dtype);
            let multiple = tape.alloc("multiple of the lower power", grad.shape, grad.dtype);
            let gradient = tape.alloc("gradient of a power", grad.shape, grad.dtype);
            drop((lower, multiple, kept));
            vec![Some(gradient)]
        })
    }

    /// `x.to(dtype)`: nothing where it has that type; else a copy, and a copy back of the gradient.
    pub(crate) fn to(&mut self, name: &'static str, x: &Tensor, dtype: DType) -> Tensor {
        if x.dtype == dtype {
            return x.clone();
        }
        let copy = self.alloc(name, x.shape, dtype);
        if !self.records(&[x]) {
            return copy;
        }
        let (edge, from) = (x.edge, x.dtype);
        self.record(&[x], copy, move |tape, grad| {
            vec![Some(tape.alloc_grad(edge, "cast of a gradient", grad.shape, from))]
        })
    }

    /// `x.contiguous()` of what lies otherwise, or a `reshape` that has to copy: a copy; its gradient is passed on.
    pub(crate) fn copy(&mut self, name: &'static str, x: &Tensor) -> Tensor {
        let copy = self.alloc(name, x.shape, x.dtype);
        if !self.records(&[x]) {
            return copy;
        }
        self.record(&[x], copy, |_, grad| vec![Some(grad)])
    }

    /// A view whose gradient has to be copied on the way back, because it lies otherwise.
    pub(crate) fn view_with_copied_grad(&mut self, x: &Tensor, shape: Shape) -> Tensor {
        let view = x.view(shape);
        if !self.records(&[x]) {
            return view;
        }
        let shape = x.shape;
        self.record(&[x], view, move |tape, grad| {
            let copy = tape.alloc("copy of a gradient", shape, grad.dtype);
            drop(grad);
            vec![Some(copy)]
        })
    }

    /// Dropout in training: a mask of one byte a number, kept, and the output.
    ///
    /// # Source
    /// PyTorch v2.11, `aten/src/ATen/native/cuda/Dropout.cu`, `native_dropout_cuda`.
    pub(crate) fn dropout(&mut self, part: &'static str, x: Tensor, p: f64) -> Tensor {
        self.module_output(&x);
        if p <= 0.0 || !self.is_training() {
            return x;
        }
        let part = self.part(part);
        let records = self.records(&[&x]);
        let mask = self.alloc("dropout mask", x.shape, DType::Byte);
        let output = self.alloc("dropout output", x.shape, x.dtype);
        self.part(part);
        if !records {
            return output;
        }
        let kept = self.save(&mask);
        drop(mask);
        self.record(&[&x], output, move |tape, grad| {
            let gradient = tape.alloc("gradient of dropout", grad.shape, grad.dtype);
            drop((grad, kept));
            vec![Some(gradient)]
        })
    }

    /// `rotate_half` of rotary embeddings: `cat((-x2, x1))`.
    pub(crate) fn rotate_half(&mut self, x: &Tensor) -> Tensor {
        let last = x.shape.last();
        let half = x.shape.with_last(dim("d/2", last.size / 2));
        let negated = self.alloc("rotary: negated half", half, x.dtype);
        let output = self.alloc("rotary: halves exchanged", x.shape, x.dtype);
        drop(negated);
        if !self.records(&[x]) {
            return output;
        }
        self.record(&[x], output, move |tape, grad| {
            let negated = tape.alloc("rotary: gradient of a half", half, grad.dtype);
            let first = tape.alloc("rotary: gradient of a slice", grad.shape, grad.dtype);
            drop(negated);
            let second = tape.alloc("rotary: gradient of a slice", grad.shape, grad.dtype);
            drop(second);
            vec![Some(first)]
        })
    }

    /// `x * cos + rotate_half(x) * sin`.
    pub(crate) fn rotate(&mut self, x: &Tensor, cos: &Tensor, sin: &Tensor) -> Tensor {
        let straight = self.mul("rotary: by the cosine", x, cos);
        let halves = self.rotate_half(x);
        let turned = self.mul("rotary: by the sine", &halves, sin);
        drop(halves);
        self.add("rotary output", &straight, &turned)
    }

    /// `x.split(…)` or `x.chunk(…)` along the last size: views, whose gradients are joined to one.
    pub(crate) fn split(&mut self, x: &Tensor, shapes: &[Shape]) -> Vec<Tensor> {
        let views = shapes.iter().map(|&shape| x.view(shape));
        if !self.records(&[x]) {
            return views.collect();
        }
        let (whole, dtype, edge) = (x.shape, x.dtype, x.edge);
        let shapes_of_parts: Vec<Shape> = shapes.to_vec();
        let edges = self.record_many(&[x], &vec![dtype; shapes.len()], move |tape, grads| {
            // A part that got no gradient is filled with zeros.
            let filled: Vec<Tensor> = grads
                .iter()
                .zip(&shapes_of_parts)
                .map(|(grad, &shape)| grad.clone().unwrap_or_else(|| tape.alloc("zeros for a gradient", shape, dtype)))
                .collect();
            let joined = tape.alloc_grad(edge, "gradients of a split, joined", whole, dtype);
            drop((filled, grads));
            vec![Some(joined)]
        });
        views.zip(edges).map(|(view, edge)| Tensor { edge, ..view }).collect()
    }

    /// A slice: a view, whose gradient is put into zeros of the whole.
    pub(crate) fn slice(&mut self, x: &Tensor, shape: Shape) -> Tensor {
        let view = x.view(shape);
        if !self.records(&[x]) {
            return view;
        }
        let whole = x.shape;
        self.record(&[x], view, move |tape, grad| {
            let zeros = tape.alloc("gradient of a slice", whole, grad.dtype);
            drop(grad);
            vec![Some(zeros)]
        })
    }

    /// `torch.cat`: a copy, of the wider type; the gradients are views of one.
    pub(crate) fn cat(&mut self, name: &'static str, parts: &[&Tensor], shape: Shape) -> Tensor {
        let dtype = parts.iter().map(|part| part.dtype).reduce(promoted).unwrap_or(DType::Float32);
        self.cat_as(name, parts, shape, dtype)
    }

    /// `torch.cat` with parts of no size, which have a type all the same.
    pub(crate) fn cat_as(&mut self, name: &'static str, parts: &[&Tensor], shape: Shape, dtype: DType) -> Tensor {
        let joined = self.alloc(name, shape, dtype);
        if !self.records(parts) {
            return joined;
        }
        let shapes: Vec<Shape> = parts.iter().map(|part| part.shape).collect();
        self.record(parts, joined, move |_, grad| {
            shapes.iter().map(|&shape| Some(grad.view(shape).through_view())).collect()
        })
    }
}

impl Tape {
    /// A kernel over inputs and weights that keeps what it is given: a scan, a convolution, a sum with weights of its own.
    pub(crate) fn kernel(
        &mut self,
        name: &'static str,
        inputs: &[&Tensor],
        weights: &[Tensor],
        shape: Shape,
    ) -> Tensor {
        self.kernel_with_scratch(name, inputs, weights, shape, 0)
    }

    /// A kernel that needs scratch memory of so many bytes, as do the gradients of its first input and of its weight.
    pub(crate) fn kernel_with_scratch(
        &mut self,
        name: &'static str,
        inputs: &[&Tensor],
        weights: &[Tensor],
        shape: Shape,
        scratch: u64,
    ) -> Tensor {
        let operands: Vec<&Tensor> = inputs.iter().copied().chain(weights).collect();
        let records = self.records(&operands);
        let dtype = inputs.iter().map(|input| input.dtype).reduce(promoted).unwrap_or(DType::Float32);
        let kept: Vec<Tensor> =
            if records { inputs.iter().map(|input| self.save(input)).collect() } else { Vec::new() };
        let output = self.alloc(name, shape, dtype);
        drop(self.scratch("scratch of a kernel", scratch));
        if !records {
            return output;
        }
        let edges: Vec<_> = operands.iter().map(|operand| (operand.edge, operand.shape, operand.dtype)).collect();
        self.record(&operands, output, move |tape, grad| {
            let grads = edges
                .iter()
                .enumerate()
                .map(|(at, &(edge, shape, dtype))| {
                    (edge != crate::tape::Edge::Nowhere).then(|| {
                        let grad = tape.alloc_grad(edge, "gradients of a kernel", shape, dtype);
                        drop(tape.scratch("scratch of a kernel", if at < 2 { scratch } else { 0 }));
                        grad
                    })
                })
                .collect();
            drop((grad, kept));
            grads
        })
    }

    /// `x.expand(…)`: a view; the gradient is summed.
    pub(crate) fn expand(&mut self, x: &Tensor, shape: Shape) -> Tensor {
        let view = x.view(shape);
        if !self.records(&[x]) {
            return view;
        }
        let (edge, shape) = (x.edge, x.shape);
        self.record(&[x], view, move |tape, grad| vec![Some(tape.summed_to(edge, "gradients", grad, shape))])
    }
}
