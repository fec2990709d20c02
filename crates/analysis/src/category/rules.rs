//! The rules that decide what a block is for, as data.

use super::Category;
use super::case::Case;
use super::origin::{Origin, Origins};

/// One rule.
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// What it decides.
    pub category: Category,
    /// Whom it is asked about.
    pub of: Origins,
    /// What it looks for, for people.
    pub says: &'static str,
    pub(crate) holds: fn(&Case<'_>) -> bool,
}

const fn rule(
    category: Category,
    name: &'static str,
    of: &'static [Origin],
    says: &'static str,
    holds: fn(&Case<'_>) -> bool,
) -> Rule {
    Rule { name, category, of: Origins::of(of), says, holds }
}

use Category::{Activation, Cache, Gradient, Input, OptimizerState, Parameter, Temporary, Unknown, Workspace};
use Origin::{Bucket, Build, Compiled, Engine, Hook, Library, Module, Optimizer, Program, Recompute, Unshard, Untold};

/// The rules, in order: the first that holds decides.
#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "a method's path is of one lifetime, a rule is asked about cases of any"
)]
pub const RULES: &[Rule] = &[
    rule(
        Workspace,
        "library",
        &[Library],
        "requested by a library's own frames: cuBLAS, cuDNN, Triton's tuning",
        |_| true,
    ),
    rule(
        Workspace,
        "kept-workspace",
        &[Module, Compiled, Program, Engine, Hook, Recompute, Untold],
        "allocated by a matrix product, once per thread and stream, with the size of a cuBLAS workspace, and never freed",
        |case| case.is_workspace(),
    ),
    rule(
        Gradient,
        "bucket-view",
        &[Bucket],
        "allocated by `DistributedDataParallel`; the gradients are views of it (`gradient_as_bucket_view`)",
        |case| case.buckets_are_gradients(),
    ),
    rule(Workspace, "bucket", &[Bucket], "allocated by `DistributedDataParallel` to send gradients from", |_| true),
    rule(Parameter, "unsharded", &[Unshard], "a whole parameter that FSDP gathers from its shards", |_| true),
    rule(
        Gradient,
        "flat-gradient",
        &[Build, Program, Untold],
        "as large as all parameters together, in their precision or one twice as wide, and no backward pass leaves a gradient: \
         hooks add the gradients to the first such block",
        |case| case.is_flat_gradient(),
    ),
    rule(
        OptimizerState,
        "flat-state",
        &[Build, Program, Untold],
        "as large as the block that holds all gradients, and allocated after it",
        |case| case.is_flat_state(),
    ),
    rule(
        Temporary,
        "build-scratch",
        &[Build],
        "allocated while modules are built, and freed before anything else happens",
        |case| case.is_momentary(),
    ),
    rule(
        Input,
        "rows-of-data",
        &[Untold, Build],
        "allocated before the recording, or by one of the program's constructors, as a data set: several such blocks have the same \
         number of rows, which no parameter has; or a layer makes as many rows from one of them; or each is the same number of times \
         as large as a block that the program picks from it; or the same constructor makes such blocks",
        |case| case.is_of_data(),
    ),
    rule(
        Cache,
        "constructed-cache",
        &[Build],
        "no backward pass: one of several blocks of equal size, allocated at one line of one of the program's constructors after \
         the model was built",
        |case| case.is_static_cache(),
    ),
    rule(
        Unknown,
        "constructed-apart",
        &[Build],
        "large, allocated by one of the program's constructors before or after the model was built, and paired with nothing: a cache, a \
         queue, a memory bank, data, or a part of the model",
        |case| case.is_apart(),
    ),
    rule(
        OptimizerState,
        "constructed-state",
        &[Build],
        "allocated by one of the program's constructors after the model, as large as a parameter or all twice as large, with as many for \
         every other parameter for which PyTorch's optimizers keep nothing, and none for those for which they do",
        |case| case.is_constructed_state(),
    ),
    rule(Parameter, "built", &[Build], "allocated while modules are built, loaded, moved or converted", |_| true),
    rule(
        OptimizerState,
        "outlives-step",
        &[Optimizer],
        "allocated by the optimizer, and alive after the step; in a step that runs out of memory, judged by the \
         code that allocates it",
        |case| case.outlives_step(),
    ),
    rule(
        Temporary,
        "optimizer-scratch",
        &[Optimizer],
        "allocated by the optimizer, and freed in the same step",
        |_| true,
    ),
    rule(
        Unknown,
        "backward-keeps",
        &[Engine, Hook],
        "allocated by autograd: several backward passes leave a block of this size, and nothing frees them; the program keeps them, as a hook may",
        |case| case.is_of_keeping_place(),
    ),
    rule(
        Activation,
        "saved-again",
        &[Engine, Hook],
        "allocated by autograd, and freed by a later backward pass: gradients of gradients",
        |case| case.is_saved_again(),
    ),
    rule(
        Gradient,
        "outlives-backward",
        &[Engine, Hook],
        "allocated by autograd, and alive after the backward pass",
        |case| case.outlives_pass(),
    ),
    rule(
        Activation,
        "recomputed",
        &[Recompute],
        "allocated by a checkpointed module that is recomputed in the backward pass, and alive after it",
        |case| case.outlives_recomputation(),
    ),
    rule(
        Temporary,
        "backward-scratch",
        &[Engine, Hook, Recompute],
        "allocated in the backward pass, and freed before its end",
        |_| true,
    ),
    rule(
        Input,
        "holds-rollout",
        &[Untold],
        "allocated before the recording, never freed, and as large as all inputs of one rollout, on which several steps train",
        |case| case.holds_rollout(),
    ),
    rule(
        Unknown,
        "parameter-or-state",
        &[Untold],
        "allocated before the recording, never freed, and of a size that trained parameters, their optimizer state and a frozen \
         model's parameters share, or parameters of several optimizers; its address fits each of them",
        |case| case.is_in_doubt(),
    ),
    rule(
        Cache,
        "pages-of-layers",
        &[Untold],
        "no backward pass: allocated before the recording, larger than each matrix of the model's layers, and one or two for each layer, after \
         all of them or in segments that none of them shares; no other size lies so: keys and values; or as large as a matrix, and two for \
         each layer beyond those among the layers",
        |case| case.is_of_pages(),
    ),
    rule(
        Cache,
        "freed-like-cache",
        &[Untold],
        "no backward pass: allocated before the recording, several of one size, and freed at a line that also frees caches which the \
         recording shows",
        |case| case.is_freed_like_caches(),
    ),
    rule(
        Unknown,
        "behind-layers",
        &[Untold],
        "no backward pass: allocated before the recording, and placed as `pages-of-layers` says, but of several sizes; or after all layers, \
         more than all other such blocks together and not the model's last matrix: pages of a cache, or weights of another model",
        |case| case.is_behind_layers(),
    ),
    rule(
        Activation,
        "left-like-later",
        &[Untold],
        "allocated before the recording, never freed, and as large as blocks that modules leave behind in each iteration; several such sizes \
         have the same multiple: from earlier iterations",
        |case| case.is_left_before(),
    ),
    rule(
        Parameter,
        "pairs-with-gradient",
        &[Program, Untold, Module],
        "as large as gradients or optimizer state that no other parameter explains, and older than them; or alive from before the \
         recording to its end",
        |case| case.pairs_as_parameter(),
    ),
    rule(
        OptimizerState,
        "pairs-with-parameter",
        &[Untold],
        "allocated before the recording, never freed, and as large as a known parameter",
        |case| case.pairs_as_state(),
    ),
    rule(
        Gradient,
        "kept-from-step-to-step",
        &[Untold],
        "allocated before the recording, never freed, and as large as a parameter that the optimizer updates, though no backward \
         pass leaves a gradient of that size: a gradient that is zeroed in place",
        |case| case.pairs_as_gradient(),
    ),
    rule(
        Gradient,
        "converted-gradient",
        &[Program],
        "allocated by the program between a backward pass and the optimizer's step, twice as large as a gradient that the pass left, and \
         alive after the step: gradients in the precision of the optimizer's copy of the weights",
        |case| case.is_converted_gradient(),
    ),
    rule(
        Gradient,
        "assigned-gradient",
        &[Program],
        "allocated by the program right after a backward pass, as large as a parameter, and freed as gradients are cleared, or by a line \
         whose other blocks are; or alive after the step, where gradients of its size were cleared that no pass leaves: the program \
         computes the gradients itself",
        |case| case.is_assigned_gradient(),
    ),
    rule(
        OptimizerState,
        "kept-by-update",
        &[Program],
        "allocated by the program right after one backward pass, as large as a parameter, and never freed: momentum \
         by hand",
        |case| case.stays() && case.is_made_for_update() && !case.is_repeated(),
    ),
    rule(
        Unknown,
        "kept-for-pass",
        &[Program],
        "allocated by the program right after a backward pass, as large as a parameter, and freed after the next one: a copy of the weights, \
         an average, state of the program's own, or data of that size",
        |case| case.is_made_for_update() && case.serves_pass(),
    ),
    rule(
        OptimizerState,
        "replaced-by-sweep",
        &[Program],
        "no modules: allocated by a line that visits all parameters and replaces blocks of this size; alive after the next backward pass, and \
         not as large as a gradient: state of the program's own, such as moments in 8 bits",
        |case| case.is_replaced_by_sweep(),
    ),
    rule(
        Unknown,
        "program-keeps",
        &[Program],
        "allocated by the program in its loop, and never freed, for at least two iterations, or at a line of which earlier blocks are \
         kept so; unless the same line allocates batches that are fed and freed",
        |case| {
            let outlives = !case.precedes_passes() && case.outlives_two_iterations();
            case.stays() && (outlives || case.is_of_keeping_place()) && !case.is_like_fed()
        },
    ),
    rule(
        Cache,
        "static-cache",
        &[Program],
        "allocated by the program before the model is called, several of one size, and alive throughout the calls: in a program without a \
         backward pass, or freed before the next one, in calls that save nothing for it",
        |case| case.is_static_cache(),
    ),
    rule(
        Unknown,
        "beside-model",
        &[Program],
        "no backward pass: allocated by the program before several calls of the model, never freed, and larger than the whole model: a cache of \
         all layers in one block, or a data set",
        |case| case.is_beside_model(),
    ),
    rule(
        Activation,
        "saved-until-failed-pass",
        &[Module, Compiled, Program],
        "allocated in a forward pass, and alive when its backward pass runs out of memory",
        |case| case.meets_failed_pass() && case.is_of_forward(),
    ),
    rule(
        Activation,
        "saved-by-program",
        &[Program],
        "allocated by the program in a forward pass, or before it where the program holds an input that it may be computed from, and freed by \
         the backward pass; or right after another pass, as large as a parameter: weights of an inner step",
        |case| {
            let is_of_graph = case.is_amid_forward() || !case.meets_module() || case.is_saved_from_input();
            (case.is_saved() && is_of_graph) || case.is_inner_weight()
        },
    ),
    rule(
        Activation,
        "computed-for-loss",
        &[Program],
        "allocated by the program after the last layers, as large as their output, and alive after the backward pass: the loss is \
         computed from it, and the program holds it, too",
        |case| case.is_held() && case.is_of_loss(),
    ),
    rule(
        Input,
        "fed",
        &[Program],
        "allocated by the program before the forward pass, and alive when a module runs; or allocated during it, before several \
         layers",
        |case| {
            let is_first = !case.trains() || !case.is_amid_forward();
            case.meets_module() && (is_first || case.meets_layers())
        },
    ),
    rule(
        Input,
        "fed-like-others",
        &[Program, Untold],
        "as large as batches of other iterations that the program feeds and frees: allocated before the recording and freed \
         outside the backward pass and the optimizer, or fetched by the same line for a later iteration",
        |case| {
            let is_fed = if case.is_before { !case.stays() && !case.is_saved() } else { case.stays() };
            case.is_like_fed() && is_fed && !case.is_freed_by_optimizer
        },
    ),
    rule(
        Input,
        "held-like-fed",
        &[Untold],
        "allocated before the recording, never freed, paired with nothing, and exactly as large as batches that the program feeds and \
         frees, by a number that no layer's width explains: data that these are computed from",
        |case| case.is_before && case.stays() && case.trains() && case.is_like_fed() && case.has_size_of_data(),
    ),
    rule(
        Input,
        "fed-without-modules",
        &[Program],
        "allocated by a program without modules, followed by other saved blocks, and alive after the backward pass",
        |case| case.is_held() && case.is_fed_without_modules(),
    ),
    rule(
        Input,
        "leads",
        &[Module, Compiled],
        "without stacks: among the first allocations of an iteration, and alive after the backward pass",
        |case| case.is_bare && case.is_held() && !case.outlives_iterations() && case.leads_iteration(),
    ),
    rule(
        Activation,
        "saved",
        &[Module, Compiled],
        "allocated by a module, alive when the backward pass begins, and freed by it",
        |case| case.is_saved(),
    ),
    rule(
        Activation,
        "graph-without-pass",
        &[Module, Compiled],
        "allocated by a module in a call of which more than a third of the blocks stay, and not freed by a backward pass: the graph of an \
         evaluation without `no_grad`, or of a loss that the program keeps",
        |case| case.is_of_graph(),
    ),
    rule(
        Unknown,
        "collected-output",
        &[Module, Compiled],
        "allocated by a module at a line that makes one in each of several iterations, of which none is freed, in a call that saves nothing \
         for a backward pass; or without a history, one of several of one size that PyTorch's own modules made at one line: an output that \
         the program collects",
        |case| case.is_of_keeping_place() && case.is_of_evaluation(),
    ),
    rule(
        Activation,
        "saved-and-held",
        &[Module, Compiled],
        "allocated by a module before other layers, and alive after the backward pass: the program holds it, too",
        |case| case.is_held() && case.has_layers_behind(),
    ),
    rule(
        Unknown,
        "module-keeps",
        &[Module, Compiled],
        "allocated by a module, and still alive after the next iteration's backward pass",
        |case| case.outlives_iterations(),
    ),
    rule(
        Activation,
        "saved-by-loss",
        &[Module],
        "an output that the program holds, and no block as large is saved after it: the loss keeps the output itself for its \
         backward pass",
        |case| case.is_held() && case.is_saved_by_loss(),
    ),
    rule(
        Activation,
        "compiled-output",
        &[Compiled],
        "an output of compiled code that the program holds: a compiled loss computes its backward pass from the output itself",
        |case| case.is_held(),
    ),
    rule(
        Cache,
        "cache-at-dump",
        &[Module, Compiled],
        "allocated by a module before the first entry, and alive at the dump: a few call sites keep one for each \
         layer, and no others keep any",
        |case| case.is_before && case.stays() && case.is_static_cache(),
    ),
    rule(
        Activation,
        "live-at-dump",
        &[Module, Compiled],
        "allocated by a module before the first entry, and alive at the dump",
        |case| case.is_before && case.stays(),
    ),
    rule(
        Activation,
        "saved-until-failure",
        &[Module, Compiled],
        "allocated by a module before other layers, and alive when the forward pass runs out of memory",
        |case| !case.is_kept_by_calls() && case.is_there_at_failure(),
    ),
    rule(
        Activation,
        "saved-so-far",
        &[Module, Compiled],
        "allocated by a module in a training program, and alive at the end of a recording without another backward \
         pass",
        |case| case.trains() && case.is_after_last_pass() && case.stays() && case.has_modules_behind(),
    ),
    rule(
        Activation,
        "saved-by-graph",
        &[Module, Compiled],
        "no backward pass follows, but modules keep most of their allocations: they are saved for one, except the last, which the \
         call returns",
        |case| !case.trains() && case.keeps_graph() && (case.is_kept_by_call() || case.is_behind_returned()),
    ),
    rule(
        Cache,
        "cache",
        &[Module, Compiled],
        "no backward pass: allocated by a module before other layers, and alive after the model has returned (a KV \
         cache)",
        |case| !case.trains() && (case.is_kept_by_call() || case.is_kept_by_calls()),
    ),
    rule(
        Cache,
        "grows-by-call",
        &[Module, Compiled],
        "allocated by modules, several blocks in each call, in calls that save nothing for a backward pass, larger from call to call, and \
         alive until the next one: a KV cache, also in a program that trains",
        |case| case.grows_by_call(),
    ),
    rule(
        Temporary,
        "forward-scratch",
        &[Module, Compiled],
        "allocated by a module, and freed before the backward pass, or returned as an output",
        |_| true,
    ),
    rule(
        Activation,
        "saved-before",
        &[Untold],
        "allocated before the recording, and freed by the first backward pass",
        |case| case.is_before && case.is_saved(),
    ),
    rule(
        OptimizerState,
        "replaced-in-step",
        &[Untold],
        "allocated before the recording, and freed in an optimizer step that allocates a block of this size and keeps it; or freed by the \
         program, and the next optimizer step makes as many blocks of each such size: the program constructs a new optimizer",
        |case| case.is_replaced_in_step() || case.is_outdated(),
    ),
    rule(
        Gradient,
        "cleared-before",
        &[Untold],
        "allocated before the recording, as large as a parameter or as blocks that backward passes leave, freed outside these \
         passes, and not after one that leaves such blocks",
        |case| case.is_cleared(),
    ),
    rule(Temporary, "program-scratch", &[Program], "allocated by the program, and freed", |case| !case.stays()),
];
