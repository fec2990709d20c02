//! Where an allocation comes from, by its stack: the rules, as data.
//!
//! The [phase](crate::phase) of a stack says whether it runs forward, backward or in the optimizer; within that, from the
//! innermost frame outwards, the first frame that one of the [`FRAMES`] names decides.

use hashbrown::HashMap;
use highwater_snapshot::{Frame, FrameId, Snapshot, StackId};

use crate::callsite::Sites;
use crate::folding::{Match, Owner};
use crate::native::operator;
use crate::phase::{Phase, StackPhases};

/// Where an allocation comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Origin {
    /// No stack was recorded, and nothing else tells.
    Untold,
    /// Modules are built, loaded, moved or converted.
    Build,
    /// A module runs.
    Module,
    /// Code runs that was compiled from a module.
    Compiled,
    /// The program's own lines, or a library's, outside of any module.
    Program,
    /// Autograd: its threads run no Python.
    Engine,
    /// Python that autograd calls: hooks, `backward` methods, compiled backward code.
    Hook,
    /// A module runs within the backward pass: activation checkpointing.
    Recompute,
    /// The optimizer.
    Optimizer,
    /// A library asks for memory to work in.
    Library,
    /// Whole parameters are gathered from their shards.
    Unshard,
    /// Buffers that gradients are sent from.
    Bucket,
}

/// A set of origins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origins(u16);

impl Origins {
    /// Every one.
    pub const ALL: Self = Self(u16::MAX);

    /// Those of a list.
    pub const fn of(list: &[Origin]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < list.len() {
            bits |= 1 << list[i] as u16;
            i += 1;
        }
        Self(bits)
    }

    /// Whether one is among them.
    pub const fn contains(self, origin: Origin) -> bool {
        self.0 & (1 << origin as u16) != 0
    }
}

/// What a frame says of where its stack comes from.
#[derive(Clone, Copy, Debug)]
pub struct FrameRule {
    /// Where from.
    pub origin: Origin,
    /// Its file.
    pub file: Option<Match>,
    /// Its function.
    pub name: Option<Match>,
}

const fn file(origin: Origin, file: &'static str) -> FrameRule {
    FrameRule { origin, file: Some(Match::FileContains(file)), name: None }
}

const fn name(origin: Origin, name: &'static str) -> FrameRule {
    FrameRule { origin, file: None, name: Some(Match::NameIs(name)) }
}

const fn both(origin: Origin, file: &'static str, name: &'static str) -> FrameRule {
    FrameRule { origin, file: Some(Match::FileContains(file)), name: Some(Match::NameIs(name)) }
}

const fn native(origin: Origin, name: &'static str) -> FrameRule {
    FrameRule { origin, file: None, name: Some(Match::NameContains(name)) }
}

/// By which PyTorch calls modules.
pub(crate) const MODULE_CALL: FrameRule = both(Origin::Module, "torch/nn/modules/", "_call_impl");

/// The frames that tell, in order.
///
/// # Source
/// Stacks of torch 2.11 and transformers 5.17 (`testdata/recordings`). Native names: PyTorch v2.11,
/// `aten/src/ATen/cuda/CublasHandlePool.cpp`, `aten/src/ATen/native/cudnn/Conv_v7.cpp`.
pub const FRAMES: &[FrameRule] = &[
    native(Origin::Library, "CUDABlasWorkspace"),
    native(Origin::Library, "CUDABlasLtWorkspace"),
    native(Origin::Library, "CUDABlasHandle"),
    native(Origin::Library, "cudnnWorkspace"),
    file(Origin::Library, "triton/testing.py"),
    file(Origin::Library, "triton/runtime/autotuner.py"),
    file(Origin::Library, "torch/_inductor/runtime/benchmarking.py"),
    both(Origin::Unshard, "fully_shard/_fsdp_param.py", "alloc_storage"),
    both(Origin::Unshard, "fully_shard/_fsdp_param.py", "init_all_gather_outputs"),
    both(Origin::Unshard, "torch/distributed/fsdp/_flat_param.py", "_alloc_padded_unsharded_flat_param"),
    both(Origin::Unshard, "torch/distributed/fsdp/_flat_param.py", "unshard"),
    both(Origin::Bucket, "torch/nn/parallel/distributed.py", "_ddp_init_helper"),
    both(Origin::Bucket, "torch/nn/parallel/distributed.py", "_pre_forward"),
    both(Origin::Build, "torch/nn/parameter.py", "materialize"),
    MODULE_CALL,
    both(Origin::Build, "torch/nn/modules/module.py", "_apply"),
    file(Origin::Build, "torch/nn/init.py"),
    file(Origin::Build, "safetensors/"),
    file(Origin::Build, "torch/serialization.py"),
    name(Origin::Build, "from_pretrained"),
    file(Origin::Build, "accelerate/utils/modeling.py"),
    name(Origin::Build, "load_state_dict"),
    name(Origin::Build, "__deepcopy__"),
    name(Origin::Build, "__init__"),
];

/// A copy of a parameter, and of any tensor.
const PARAMETER_COPY: FrameRule = both(Origin::Build, "torch/nn/parameter.py", "__deepcopy__");
const TENSOR_COPY: FrameRule = both(Origin::Build, "torch/", "__deepcopy__");

/// Autograd's roots: the gradient of the loss itself, made on the caller's thread.
const ROOTS: FrameRule = both(Origin::Hook, "torch/autograd/__init__.py", "_make_grads");

/// PyTorch's distributions: constructed of values, they have no parameters that train.
const DISTRIBUTIONS: &str = "torch/distributions/";

/// PyTorch's own checkpointing.
const CHECKPOINT: &str = "torch/utils/checkpoint.py";

impl FrameRule {
    /// Whether a frame is one of these; the parts of `file` are separated by `/`.
    pub(crate) fn holds(self, name: &str, file: &str) -> bool {
        let holds = |matches: Option<Match>| matches.is_none_or(|m| m.holds(name, file));
        holds(self.file) && holds(self.name)
    }
}

/// Parts of the names of functions in which optimizers make their state.
///
/// # Source
/// `_init_group` of all optimizers of PyTorch v2.11 whose state is not computed; `init_state` of bitsandbytes, `_init_state` of
/// torchao and `DeepSpeed`.
const INITIALISERS: [&str; 2] = ["init_group", "init_state"];

/// Operators that pick rows of a tensor by their numbers, and the one that does so for a layer.
///
/// # Source
/// PyTorch v2.11, `aten/src/ATen/native/native_functions.yaml`.
const PICKERS: [&str; 3] = ["index_Tensor", "index_select", "take_along_dim"];
const LOOK_UP: &str = "embedding";

/// The origin that a frame stands for, if it does.
pub fn of_frame(name: &str, filename: &str) -> Option<Origin> {
    let file = path(filename);
    FRAMES.iter().chain([&ROOTS]).find(|rule| rule.holds(name, &file)).map(|rule| rule.origin)
}

/// The file of a frame, its parts separated by `/`.
fn path(filename: &str) -> String {
    filename.replace('\\', "/")
}

/// What a frame says.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question about one frame")]
struct Said {
    origin: Option<Origin>,
    /// It runs a part of the forward pass again.
    recomputes: bool,
    /// It runs autograd.
    runs_engine: bool,
    /// It makes a parameter, wherever it runs: of a lazy module in its first call.
    makes_parameter: bool,
    /// It is no more than some constructor.
    is_constructor: bool,
    /// It is PyTorch's own.
    is_of_library: bool,
    /// It is an optimizer's, for making the state of parameters that have none yet.
    makes_state: bool,
    /// It runs what follows without gradients, as a decorator.
    without_grad: bool,
    /// It clears gradients.
    clears: bool,
    /// It picks rows of a tensor.
    picks: bool,
    /// It looks rows of a table up, as a layer of the model does.
    looks_up: bool,
}

impl Said {
    fn of(name: &str, filename: &str, owner: Owner) -> Self {
        let origin = of_frame(name, filename)
            .filter(|_| !path(filename).contains(DISTRIBUTIONS))
            .or((owner == Owner::Generated).then_some(Origin::Compiled));
        Self {
            origin,
            recomputes: origin == Some(Origin::Module) || path(filename).contains(CHECKPOINT),
            runs_engine: name == "_engine_run_backward",
            makes_parameter: name == "materialize" && origin == Some(Origin::Build),
            is_constructor: name == "__init__",
            is_of_library: path(filename).contains("torch/"),
            clears: name == "zero_grad",
            picks: operator(name).is_some_and(|operator| PICKERS.contains(&operator)),
            looks_up: operator(name) == Some(LOOK_UP),
            makes_state: INITIALISERS.iter().any(|part| name.contains(part)),
            without_grad: name == "decorate_context" && path(filename).contains("torch/utils/_contextlib.py"),
        }
    }

    /// The same of a frame by which a module is called.
    fn of_module(self) -> Self {
        Self { origin: Some(Origin::Module), recomputes: true, ..self }
    }
}

/// The origin of each stack of a snapshot.
#[derive(Clone, Debug)]
pub(crate) struct StackOrigins {
    origins: Vec<Origin>,
    are_native: bool,
    /// By stack, the first with the same Python frames.
    places: Vec<StackId>,
    /// By stack, whether a decorator without gradients is around the outermost call of a module.
    without_grad: Vec<bool>,
    /// By stack, whether a function runs that makes an optimizer's state.
    makes_state: Vec<bool>,
    /// By stack, whether nothing but a constructor of the program's says that modules are built.
    in_constructor: Vec<bool>,
    /// By stack, the first that runs the same constructor of the program's from the same line, at whatever line of its own.
    constructors: Vec<Option<StackId>>,
    /// By stack, whether a module runs, and none but PyTorch's own does.
    in_own_modules: Vec<bool>,
    /// By stack, whether gradients are cleared.
    clears: Vec<bool>,
    /// By stack, whether rows of a tensor are picked, and not for a layer.
    picks_rows: Vec<bool>,
}

impl StackOrigins {
    pub(crate) fn new(snapshot: &Snapshot, sites: &Sites, phases: &StackPhases) -> Self {
        // A copy of a model has its parameters. Without one, copied tensors are the program's, such as a cache.
        let holds =
            |rule: FrameRule, frame: Frame| rule.holds(snapshot.text(frame.name), &path(snapshot.text(frame.filename)));
        let copies_models = snapshot.frames.iter().any(|(_, frame)| holds(PARAMETER_COPY, frame));
        let said: Vec<Said> = snapshot
            .frames
            .iter()
            .map(|(id, frame)| {
                let said = Said::of(snapshot.text(frame.name), snapshot.text(frame.filename), sites.owner(id));
                if said.origin.is_none() && sites.is_module_call(id) {
                    said.of_module()
                } else if !copies_models && holds(TENSOR_COPY, frame) {
                    Said { origin: None, ..said }
                } else {
                    said
                }
            })
            .collect();
        if sites.are_operators_only(snapshot) {
            // Operators do not say for what they run.
            return Self {
                origins: vec![Origin::Untold; snapshot.stacks.len()],
                are_native: true,
                places: Vec::new(),
                without_grad: Vec::new(),
                makes_state: Vec::new(),
                in_constructor: Vec::new(),
                constructors: Vec::new(),
                in_own_modules: Vec::new(),
                clears: Vec::new(),
                picks_rows: Vec::new(),
            };
        }
        // The machinery that captures native frames stands in every stack that it captured.
        let are_native = snapshot.frames.iter().any(|(id, _)| sites.owner(id) == Owner::Unwinding);
        let origins = snapshot.stacks.iter().map(|(id, frames)| {
            let phase = phases.get(id);
            let is_python = |frame: &FrameId| sites.owner(*frame).is_python();
            // An engine's thread has native frames where others have: none at all is a stack that was not recorded.
            match phase {
                Some(phase) if !(are_native && frames.is_empty()) => {
                    of_stack(&sites.running(frames), phase, frames.iter().any(is_python), &said)
                }
                _ => Origin::Untold,
            }
        });
        let origins = origins.collect();
        let without_grad = snapshot.stacks.iter().map(|(_, frames)| {
            let of = |holds: fn(&Said) -> bool| frames.iter().rposition(|frame| holds(&said[frame.index()]));
            of(|said| said.without_grad).is_some_and(|outer| {
                of(|said| said.origin == Some(Origin::Module)).is_some_and(|module| module < outer)
            })
        });
        let without_grad = without_grad.collect();
        let makes_state = |frame: &FrameId| said[frame.index()].makes_state;
        let makes_state = snapshot.stacks.iter().map(|(_, frames)| frames.iter().any(makes_state)).collect();
        let in_constructor = |frames: &[FrameId]| {
            let innermost = frames.iter().map(|frame| said[frame.index()]).find(|said| said.origin.is_some());
            innermost.is_some_and(|said| said.is_constructor && !said.is_of_library)
        };
        let in_constructor: Vec<bool> =
            snapshot.stacks.iter().map(|(_, frames)| in_constructor(&sites.running(frames))).collect();
        let constructors = constructors(snapshot, sites, &in_constructor, &said);
        let is_call = |frame: &FrameId| said[frame.index()].origin == Some(Origin::Module);
        let in_own_modules = |frames: &[FrameId]| {
            frames.iter().rposition(is_call).is_some_and(|outer| {
                let inside = frames[..outer].iter().map(|&frame| sites.owner(frame));
                inside.filter(|owner| owner.is_python()).all(|owner| owner == Owner::Torch)
            })
        };
        let in_own_modules = snapshot.stacks.iter().map(|(_, frames)| in_own_modules(frames)).collect();
        let places = places(snapshot, sites);
        let clears = |frame: &FrameId| said[frame.index()].clears;
        let clears = snapshot.stacks.iter().map(|(_, frames)| frames.iter().any(clears)).collect();
        let picks_rows = |frames: &[FrameId]| {
            let any = |holds: fn(&Said) -> bool| frames.iter().any(|frame| holds(&said[frame.index()]));
            any(|said| said.picks) && !any(|said| said.looks_up)
        };
        let picks_rows = snapshot.stacks.iter().map(|(_, frames)| picks_rows(frames)).collect();
        Self {
            origins,
            are_native,
            places,
            without_grad,
            makes_state,
            in_constructor,
            constructors,
            in_own_modules,
            clears,
            picks_rows,
        }
    }

    /// That of a stack; untold if none was recorded.
    pub(crate) fn get(&self, stack: StackId) -> Origin {
        self.origins.get(stack.index()).copied().unwrap_or(Origin::Untold)
    }

    /// The first stack with the same Python frames. Native frames differ from call to call, for the interpreter adapts to what it
    /// runs.
    pub(crate) fn place(&self, stack: StackId) -> StackId {
        self.places.get(stack.index()).copied().unwrap_or(stack)
    }

    /// Whether the model was called by a function that is decorated with `no_grad` or the like: then nothing is saved for a
    /// backward pass.
    pub(crate) fn is_without_grad(&self, stack: StackId) -> bool {
        self.without_grad.get(stack.index()).copied().unwrap_or(false)
    }

    /// Whether a function runs that makes an optimizer's state.
    pub(crate) fn makes_state(&self, stack: StackId) -> bool {
        self.makes_state.get(stack.index()).copied().unwrap_or(false)
    }

    /// Whether nothing but a constructor of the program's says that modules are built: of a module, or of any other class.
    pub(crate) fn is_in_constructor(&self, stack: StackId) -> bool {
        self.in_constructor.get(stack.index()).copied().unwrap_or(false)
    }

    /// Which constructor of the program's runs, called from where, if nothing else says that modules are built.
    pub(crate) fn constructor(&self, stack: StackId) -> Option<StackId> {
        self.constructors.get(stack.index()).copied().flatten()
    }

    /// Whether a module runs, and none but PyTorch's own does: these keep no cache.
    pub(crate) fn is_in_own_modules(&self, stack: StackId) -> bool {
        self.in_own_modules.get(stack.index()).copied().unwrap_or(false)
    }

    /// Whether gradients are cleared.
    pub(crate) fn clears_gradients(&self, stack: StackId) -> bool {
        self.clears.get(stack.index()).copied().unwrap_or(false)
    }

    /// Whether rows of a tensor are picked, and not for a layer: native frames tell.
    pub(crate) fn picks_rows(&self, stack: StackId) -> bool {
        self.picks_rows.get(stack.index()).copied().unwrap_or(false)
    }

    /// Whether stacks have native frames, too.
    pub(crate) fn are_native(&self) -> bool {
        self.are_native
    }
}

fn places(snapshot: &Snapshot, sites: &Sites) -> Vec<StackId> {
    let mut first: HashMap<Vec<FrameId>, StackId> = HashMap::default();
    let of = snapshot.stacks.iter().map(|(id, frames)| {
        let python = frames.iter().copied().filter(|&frame| sites.owner(frame).is_python()).collect();
        *first.entry(python).or_insert(id)
    });
    of.collect()
}

fn constructors(snapshot: &Snapshot, sites: &Sites, in_constructor: &[bool], said: &[Said]) -> Vec<Option<StackId>> {
    let mut first: HashMap<(&str, Option<FrameId>), StackId> = HashMap::default();
    let of = snapshot.stacks.iter().zip(in_constructor).map(|((id, frames), in_constructor)| {
        let python = frames.iter().copied().filter(|&frame| *in_constructor && sites.owner(frame).is_python());
        let mut outer = python.skip_while(|frame| !said[frame.index()].is_constructor);
        let own = outer.next()?;
        let file = snapshot.text(snapshot.frames.get(own).filename);
        Some(*first.entry((file, outer.next())).or_insert(id))
    });
    of.collect()
}

fn of_stack(frames: &[FrameId], phase: Phase, has_python: bool, said: &[Said]) -> Origin {
    let said = || frames.iter().map(|frame| said[frame.index()]);
    let first = said().find_map(|said| said.origin);
    if let Some(origin @ (Origin::Library | Origin::Unshard)) = first {
        return origin;
    }
    if said().any(|said| said.makes_parameter) {
        return Origin::Build;
    }
    match phase {
        Phase::Optimizer => Origin::Optimizer,
        Phase::Backward if !has_python => Origin::Engine,
        // A checkpoint may run the engine within the engine: the inner of the two decides.
        Phase::Backward => match said().find(|said| said.recomputes || said.runs_engine) {
            Some(said) if said.runs_engine => Origin::Engine,
            Some(_) => Origin::Recompute,
            None => Origin::Hook,
        },
        // Nor what a constructor makes while a function runs that is decorated with `no_grad`: that generates, and makes a cache.
        Phase::Forward if is_constructed(said()) && said().any(|said| said.without_grad) => Origin::Program,
        // What a running module constructs is no parameter.
        Phase::Forward if first == Some(Origin::Build) && said().any(|said| said.origin == Some(Origin::Module)) => {
            Origin::Module
        }
        Phase::Forward => first.unwrap_or(Origin::Program),
    }
}

/// Whether nothing but a constructor says that something is built.
fn is_constructed(mut said: impl Iterator<Item = Said>) -> bool {
    said.find(|said| said.origin.is_some())
        .is_some_and(|said| said.origin == Some(Origin::Build) && said.is_constructor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_decides_a_frame() {
        for (i, rule) in FRAMES.iter().enumerate() {
            let file = match rule.file {
                Some(Match::FileContains(text)) => format!("/lib/python3.12/site-packages/{text}"),
                _ => "x.py".to_owned(),
            };
            let name = match rule.name {
                Some(Match::NameIs(text) | Match::NameContains(text)) => text,
                _ => "f",
            };
            let first = FRAMES.iter().position(|other| other.holds(name, &file));
            assert_eq!(first, Some(i), "rule {i} never decides: {rule:?}");
        }
    }

    #[test]
    fn frames_of_real_recordings() {
        let torch = "/home/user/venv/lib/python3.12/site-packages/torch";
        for (name, file, want) in [
            ("_call_impl", format!("{torch}/nn/modules/module.py"), Some(Origin::Module)),
            ("_apply", format!("{torch}/nn/modules/module.py"), Some(Origin::Build)),
            ("normal_", format!("{torch}/nn/init.py"), Some(Origin::Build)),
            ("__init__", "net.py".to_owned(), Some(Origin::Build)),
            ("forward", format!("{torch}/nn/modules/linear.py"), None),
            ("_make_grads", format!("{torch}/autograd/__init__.py"), Some(Origin::Hook)),
            ("benchmark_gpu", format!("{torch}/_inductor/runtime/benchmarking.py"), Some(Origin::Library)),
            (
                "init_all_gather_outputs",
                format!("{torch}/distributed/fsdp/_fully_shard/_fsdp_param.py"),
                Some(Origin::Unshard),
            ),
            ("_pre_forward", format!("{torch}/nn/parallel/distributed.py"), Some(Origin::Bucket)),
            ("at::cuda::(anonymous namespace)::getCUDABlasWorkspace()", "??".to_owned(), Some(Origin::Library)),
            ("<module>", "train.py".to_owned(), None),
        ] {
            assert_eq!(of_frame(name, &file), want, "{name} {file}");
        }
    }
}
