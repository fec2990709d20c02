//! Parameters that data-parallel ranks share out, as FSDP 2 and `DeepSpeed`'s third stage of `ZeRO` do: a group for each layer and one for
//! the rest.
//!
//! # Source
//! `DeepSpeed` 0.19, `deepspeed/runtime/zero/partitioned_param_coordinator.py`, with the numbers of `zero/config.py`: what is gathered stays
//! until the backward pass needs it, up to `max_live_parameters`, and small parameters are never shared out.
//!
//! PyTorch v2.11, `torch/distributed/fsdp/_fully_shard`: `_fsdp_state.py`, `_fsdp_param_group.py`, `_fsdp_param.py`, `_fsdp_collectives.py`.

use super::{Category, Parameter, Tape, Tensor};
use crate::dtype::DType;
use crate::shape::{Dim, Shape, dim};

/// The stream in which shards are copied to be gathered, which has gathered ones until they are copied out.
const GATHERING: u64 = 1;
/// The stream of reduce-scatter, which has sharded gradients.
const REDUCING: u64 = 2;

/// The group of whatever is in no layer.
const ROOT: usize = 0;

/// `stage3_max_live_parameters`, in elements.
const MOST_LIVE: u64 = 1_000_000_000;
/// `stage3_param_persistence_threshold`: parameters of as many elements are on every rank.
const SMALL: u64 = 100_000;

/// Ranks that share the parameters out.
pub(crate) struct Sharded {
    ranks: u64,
    /// `MixedPrecisionPolicy`: the type in which parameters are gathered, gradients are reduced and layers give outputs.
    lower: Option<DType>,
    /// Whether it is `DeepSpeed`'s way.
    is_zero: bool,
    /// `ZeRO`: elements that are whole.
    live: u64,
    /// `ZeRO`: small parameters, whole on every rank.
    small: Vec<Tensor>,
    groups: Vec<Group>,
    /// The group of the parameters that are made now.
    current: usize,
    /// Groups in the order in which their forward passes ended.
    order: Vec<usize>,
    /// The last gathered block, until the next one is copied out (`comm_ctx.all_gather_state`).
    deferred: Option<Tensor>,
    /// The input of the last reduce-scatter, until the next group's (`comm_ctx.reduce_scatter_state`).
    reduced: Option<Tensor>,
}

/// Parameters that are gathered together.
#[derive(Default)]
struct Group {
    parameters: Vec<u32>,
    /// Gathered, and not yet copied out.
    gathered: Option<Tensor>,
    /// Whole parameters, while they are there.
    whole: Vec<Tensor>,
    is_whole: bool,
    /// Where in the order its forward passes are.
    passes: Vec<usize>,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    PreBackward,
    PostBackward,
}

/// A parameter's part of a rank: rows, of which the first rank has the most.
fn part_of(shape: Shape, ranks: u64) -> Shape {
    let mut sizes = shape.dims().to_vec();
    if let Some(first) = sizes.first_mut() {
        first.size = first.size.div_ceil(ranks.max(1));
    }
    Shape::of(&sizes)
}

/// A flat buffer of so many elements.
pub(super) fn flat(numel: u64) -> Shape {
    Shape::of(&[dim("N", numel)])
}

impl Sharded {
    pub(crate) fn new(ranks: u64, lower: Option<DType>, is_zero: bool) -> Sharded {
        Sharded {
            ranks,
            lower,
            is_zero,
            live: 0,
            small: Vec::new(),
            groups: vec![Group::default()],
            current: ROOT,
            order: Vec::new(),
            deferred: None,
            reduced: None,
        }
    }

    fn type_of(&self, parameter: &Parameter) -> DType {
        if parameter.tensor.dtype == DType::Byte {
            return DType::Byte;
        }
        self.lower.unwrap_or(parameter.tensor.dtype)
    }
}

impl Tape {
    /// Parameters that are made from here on are shared out over so many ranks.
    pub(crate) fn share_out(&mut self, ranks: u64, lower: Option<DType>) {
        self.sharded = Some(Sharded::new(ranks, lower, false));
    }

    /// The same, as `ZeRO` does.
    pub(crate) fn share_out_as_zero(&mut self, ranks: u64) {
        self.sharded = Some(Sharded::new(ranks, None, true));
    }

    /// Whether this rank has all parameters.
    pub(crate) fn is_alone(&self) -> bool {
        self.sharded.is_none()
    }

    /// Begins a group of parameters, and gives its number.
    pub(crate) fn begin_group(&mut self) -> usize {
        let Some(sharded) = &mut self.sharded else { return ROOT };
        sharded.groups.push(Group::default());
        sharded.current = sharded.groups.len() - 1;
        sharded.current
    }

    /// Parameters that are made from here on are in no layer.
    pub(crate) fn end_group(&mut self) {
        if let Some(sharded) = &mut self.sharded {
            sharded.current = ROOT;
        }
    }

    /// Makes this rank's part of a parameter, and gives the whole one, which has no memory yet.
    pub(super) fn shared_parameter(&mut self, shape: Shape, dtype: DType, trainable: bool) -> Option<Tensor> {
        let sharded = self.sharded.as_ref()?;
        let (ranks, lower, current) = (sharded.ranks, sharded.lower, sharded.current);
        let id = u32::try_from(self.parameters.len()).unwrap_or(u32::MAX);
        let mut own = self.alloc_as(Category::Parameter, "weights", part_of(shape, ranks), dtype);
        let edge = if trainable { super::Edge::Parameter(id) } else { super::Edge::Nowhere };
        own.edge = edge;
        self.parameters.push(Parameter { tensor: own, whole: shape, part: self.part, grad: None, whole_grad: None });
        if self.sharded.as_ref()?.is_zero && shape.numel() <= SMALL {
            let whole = self.alloc_as(Category::Parameter, "weights, small", shape, dtype);
            self.sharded.as_mut()?.small.push(whole);
        } else {
            self.sharded.as_mut()?.groups[current].parameters.push(id);
        }
        let dtype = lower.filter(|_| dtype != DType::Byte).unwrap_or(dtype);
        Some(Tensor { storage: None, shape, dtype, edge, is_view: false })
    }

    /// The type in which a parameter is used.
    pub(super) fn used_type(&self, id: u32) -> DType {
        let parameter = &self.parameters[id as usize];
        self.sharded.as_ref().map_or(parameter.tensor.dtype, |sharded| sharded.type_of(parameter))
    }

    /// Runs a layer, which is a group of its own.
    pub(crate) fn grouped(
        &mut self,
        group: usize,
        x: &Tensor,
        run: impl FnOnce(&mut Tape, &Tensor) -> Tensor,
    ) -> Tensor {
        let Some(sharded) = &self.sharded else { return run(self, x) };
        let lower = sharded.lower;
        let part = self.part("sharding");
        let mut input = match lower {
            Some(lower) => self.to("input of a layer, cast", x, lower),
            None => x.clone(),
        };
        self.gather(group);
        self.copy_out(group, true);
        if self.records(&[&input]) {
            let same = input.clone();
            input = self.record(&[&input], same, move |tape, grad| {
                tape.after_backward(group);
                vec![Some(grad)]
            });
        }
        self.part(part);
        let mut output = run(self, &input);
        drop(input);
        self.after_forward(group);
        if self.records(&[&output]) {
            let same = output.clone();
            output = self.record(&[&output], same, move |tape, grad| {
                tape.before_backward(group);
                vec![Some(grad)]
            });
        }
        match lower {
            Some(lower) => self.to("output of a layer, cast", &output, lower),
            None => output,
        }
    }

    /// The forward pass of the model begins.
    pub(crate) fn before_model(&mut self) {
        let part = self.part("sharding");
        self.gather(ROOT);
        self.copy_out(ROOT, true);
        self.part(part);
    }

    /// The forward pass of the model is over: whatever is in no layer stays whole.
    pub(crate) fn after_model(&mut self) {
        self.after_forward(ROOT);
        if let Some(sharded) = &mut self.sharded {
            sharded.deferred = None;
        }
    }

    /// The backward pass begins, at the model's outputs.
    pub(crate) fn before_backward_of_model(&mut self) {
        self.before_backward(ROOT);
    }

    /// The backward pass is over: groups that no layer's input has ended end now.
    pub(crate) fn after_backward_of_model(&mut self) {
        let Some(sharded) = &self.sharded else { return };
        for group in 0..sharded.groups.len() {
            if self.group(group).is_some_and(|group| group.state != State::PostBackward) {
                self.after_backward(group);
            }
        }
        if let Some(sharded) = &mut self.sharded {
            for group in &mut sharded.groups {
                group.state = State::Idle;
                group.gathered = None;
                group.passes.clear();
            }
            sharded.order.clear();
            sharded.reduced = None;
        }
    }

    fn group(&mut self, group: usize) -> Option<&mut Group> {
        self.sharded.as_mut()?.groups.get_mut(group)
    }

    /// `unshard`: all parts of all parameters of a group, in one piece.
    fn gather(&mut self, group: usize) {
        let Some(sharded) = &self.sharded else { return };
        let (ranks, lower) = (sharded.ranks, sharded.lower);
        let Some(own) = sharded.groups.get(group) else { return };
        if own.gathered.is_some() || own.is_whole || own.parameters.is_empty() {
            return;
        }
        if sharded.is_zero {
            self.fetch(group);
            return;
        }
        let of_rank = |parameter: &Parameter| parameter.tensor.shape.numel();
        let parameters = || own.parameters.iter().map(|id| &self.parameters[*id as usize]);
        let types: Vec<DType> = parameters().map(|parameter| sharded.type_of(parameter)).collect();
        let numel = parameters().fold(0_u64, |sum, parameter| sum.saturating_add(of_rank(parameter)));
        // Parts of several types are gathered as bytes.
        let (numel, dtype) = match types.as_slice() {
            [first, rest @ ..] if rest.iter().all(|dtype| dtype == first) => (numel, *first),
            _ => {
                let bytes = parameters().zip(&types).fold(0_u64, |sum, (parameter, dtype)| {
                    sum.saturating_add(of_rank(parameter).saturating_mul(dtype.bytes()))
                });
                (bytes, DType::Byte)
            }
        };
        let part = self.part("sharding");
        let stream = self.meter.enter(GATHERING);
        let cast = lower.map(|lower| {
            self.alloc_as(
                Category::Workspace,
                "parts to gather, cast",
                flat(numel),
                if dtype == DType::Byte { dtype } else { lower },
            )
        });
        let whole = flat(numel.saturating_mul(ranks));
        let gathered = self.alloc_as(Category::Workspace, "gathered parts", whole, dtype);
        drop(cast);
        self.meter.enter(stream);
        self.part(part);
        if let Some(own) = self.group(group) {
            own.gathered = Some(gathered);
        }
    }

    /// Makes a group whole, parameter by parameter.
    fn fetch(&mut self, group: usize) {
        let Some(own) = self.group(group) else { return };
        let ids = own.parameters.clone();
        let stream = self.meter.enter(GATHERING);
        let mut numel = 0_u64;
        let mut whole = Vec::with_capacity(ids.len());
        for id in ids {
            let Parameter { tensor, whole: shape, part, .. } = &self.parameters[id as usize];
            let (shape, dtype, of) = (*shape, tensor.dtype, *part);
            let part = self.part(of);
            whole.push(self.alloc_as(Category::Parameter, "weights, gathered", shape, dtype));
            self.part(part);
            numel = numel.saturating_add(shape.numel());
        }
        self.meter.enter(stream);
        let Some(sharded) = &mut self.sharded else { return };
        sharded.live = sharded.live.saturating_add(numel);
        (sharded.groups[group].whole, sharded.groups[group].is_whole) = (whole, true);
    }

    /// `ZeRO`: a parameter's gradient has come, and the parameter is not whole any longer.
    pub(super) fn release_parameter(&mut self, id: u32) {
        let Some(sharded) = self.sharded.as_mut().filter(|sharded| sharded.is_zero) else { return };
        for own in &mut sharded.groups {
            let place = own.parameters.iter().position(|parameter| *parameter == id);
            if let Some(tensor) = place.and_then(|place| own.whole.get_mut(place)) {
                sharded.live = sharded.live.saturating_sub(tensor.shape.numel());
                *tensor = Tensor { storage: None, shape: flat(0), ..tensor.clone() };
            }
        }
    }

    /// Lets go of a whole group.
    fn release(&mut self, group: usize) {
        let Some(sharded) = &mut self.sharded else { return };
        let own = &mut sharded.groups[group];
        let numel = own.whole.iter().fold(0_u64, |sum, tensor| sum.saturating_add(tensor.shape.numel()));
        (own.whole, own.is_whole) = (Vec::new(), false);
        sharded.live = sharded.live.saturating_sub(numel);
    }

    /// `wait_for_unshard`: copies each parameter out of the gathered block, which in a forward pass stays until the next block.
    fn copy_out(&mut self, group: usize, is_forward: bool) {
        let Some(sharded) = &mut self.sharded else { return };
        let ranks = sharded.ranks;
        let Some(gathered) = sharded.groups.get_mut(group).and_then(|own| own.gathered.take()) else { return };
        if is_forward {
            sharded.deferred = None;
        }
        let ids = sharded.groups[group].parameters.clone();
        let mut whole = Vec::with_capacity(ids.len());
        for id in ids {
            let parameter = &self.parameters[id as usize];
            let mut sizes: Vec<Dim> = parameter.tensor.shape.dims().to_vec();
            let padded = sizes.first().map_or(1, |first| first.size.saturating_mul(ranks));
            if let (Some(size), Some(name)) = (sizes.first_mut(), parameter.whole.dims().first()) {
                *size = Dim { size: padded, ..*name };
            }
            let (dtype, of) = (self.used_type(id), parameter.part);
            let part = self.part(of);
            whole.push(self.alloc_as(Category::Parameter, "weights, gathered", Shape::of(&sizes), dtype));
            self.part(part);
        }
        if let Some(sharded) = &mut self.sharded {
            let own = &mut sharded.groups[group];
            (own.whole, own.is_whole) = (whole, true);
            if is_forward {
                sharded.deferred = Some(gathered);
            }
        }
    }

    /// `post_forward`: a layer keeps its part only.
    fn after_forward(&mut self, group: usize) {
        let Some(sharded) = &mut self.sharded else { return };
        if sharded.is_zero {
            if group != ROOT && (sharded.live > MOST_LIVE || !self.grad_enabled) {
                self.release(group);
            }
            return;
        }
        let Some(own) = sharded.groups.get_mut(group) else { return };
        if group != ROOT {
            own.whole.clear();
            own.is_whole = false;
        }
        if own.parameters.is_empty() {
            return;
        }
        own.passes.push(sharded.order.len());
        sharded.order.push(group);
    }

    /// `pre_backward`: makes the group whole again, and gathers the group that ran before it.
    fn before_backward(&mut self, group: usize) {
        let Some(own) = self.group(group) else { return };
        if own.state == State::PreBackward {
            return;
        }
        own.state = State::PreBackward;
        self.gather(group);
        self.copy_out(group, false);
        let Some(sharded) = &mut self.sharded else { return };
        let Some(at) = sharded.groups[group].passes.pop() else { return };
        if let Some(earlier) = at.checked_sub(1).map(|at| sharded.order[at]) {
            self.gather(earlier);
        }
    }

    /// `post_backward`: the gradients of the group are reduced, and each rank keeps its part.
    fn after_backward(&mut self, group: usize) {
        let Some(own) = self.group(group) else { return };
        own.state = State::PostBackward;
        let ids = own.parameters.clone();
        if self.sharded.as_ref().is_some_and(|sharded| sharded.is_zero) {
            self.release(group);
            return;
        }
        let grads: Vec<(u32, Tensor)> =
            ids.into_iter().filter_map(|id| Some((id, self.parameters[id as usize].whole_grad.take()?))).collect();
        let Some(sharded) = &mut self.sharded else { return };
        (sharded.groups[group].whole, sharded.groups[group].is_whole) = (Vec::new(), false);
        let Some((_, first)) = grads.first() else { return };
        let (dtype, ranks) = (first.dtype, sharded.ranks);
        sharded.reduced = None;
        let own_type = self.parameters[grads[0].0 as usize].tensor.dtype;
        let numel = grads
            .iter()
            .fold(0_u64, |sum, (id, _)| sum.saturating_add(self.parameters[*id as usize].tensor.shape.numel()));
        let part = self.part("sharding");
        let to_reduce = self.alloc_as(
            Category::Workspace,
            "gradients to reduce and scatter",
            flat(numel.saturating_mul(ranks)),
            dtype,
        );
        let ids: Vec<u32> = grads.iter().map(|(id, _)| *id).collect();
        drop(grads);
        let stream = self.meter.enter(REDUCING);
        let mut reduced = self.alloc_as(Category::Gradient, "gradients, reduced", flat(numel), dtype);
        if dtype != own_type {
            reduced = self.alloc_as(Category::Gradient, "gradients, reduced", flat(numel), own_type);
        }
        self.meter.enter(stream);
        self.part(part);
        // Later ones are added in place.
        for id in ids {
            self.parameters[id as usize].grad.get_or_insert_with(|| reduced.clone());
        }
        if let Some(sharded) = &mut self.sharded {
            sharded.reduced = Some(to_reduce);
        }
    }
}
