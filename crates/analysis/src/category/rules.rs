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
    rule(Workspace, "library", &[Library], "a library's own frames ask for it: cuBLAS, cuDNN, Triton's tuning", |_| {
        true
    }),
    rule(
        Workspace,
        "kept-workspace",
        &[Module, Compiled, Program, Engine, Hook, Recompute, Untold],
        "made once for a thread and stream where a matrix product runs, of the size of a cuBLAS workspace, and never freed",
        |case| case.is_workspace(),
    ),
    rule(
        Gradient,
        "bucket-view",
        &[Bucket],
        "`DistributedDataParallel` makes it, and gradients have no other place (`gradient_as_bucket_view`)",
        |case| case.buckets_are_gradients(),
    ),
    rule(Workspace, "bucket", &[Bucket], "`DistributedDataParallel` makes it to send gradients from", |_| true),
    rule(Parameter, "unsharded", &[Unshard], "FSDP gathers a whole parameter from its shards", |_| true),
    rule(
        Temporary,
        "build-scratch",
        &[Build],
        "made while modules are built, and freed before anything else happens",
        |case| case.is_momentary(),
    ),
    rule(Parameter, "built", &[Build], "made while modules are built, loaded, moved or converted", |_| true),
    rule(
        OptimizerState,
        "outlives-step",
        &[Optimizer],
        "the optimizer makes it, and it is there when the step is over; or, where a step runs out of memory, by the code that makes it",
        |case| case.outlives_step(),
    ),
    rule(Temporary, "optimizer-scratch", &[Optimizer], "the optimizer makes it, and frees it in the same step", |_| {
        true
    }),
    rule(
        Activation,
        "saved-again",
        &[Engine, Hook],
        "autograd makes it, and a later backward pass frees it: gradients of gradients",
        |case| case.is_saved_again(),
    ),
    rule(
        Gradient,
        "outlives-backward",
        &[Engine, Hook],
        "autograd makes it, and it is there when the backward pass is over",
        |case| case.outlives_pass(),
    ),
    rule(
        Activation,
        "recomputed",
        &[Recompute],
        "a checkpointed module runs again in the backward pass, and it is there when it has run",
        |case| case.outlives_recomputation(),
    ),
    rule(
        Temporary,
        "backward-scratch",
        &[Engine, Hook, Recompute],
        "made in the backward pass, and gone before it is over",
        |_| true,
    ),
    rule(
        Input,
        "holds-rollout",
        &[Untold],
        "there before the recording, never freed, and as large as all that the model is fed while it collects what several steps learn from",
        |case| case.holds_rollout(),
    ),
    rule(
        Parameter,
        "pairs-with-gradient",
        &[Program, Untold, Module],
        "as large as gradients or optimizer state that no other parameter accounts for, and older than they; or there \
         before the recording and throughout it",
        |case| case.pairs_as_parameter(),
    ),
    rule(
        OptimizerState,
        "pairs-with-parameter",
        &[Untold],
        "there before the recording, never freed, and as large as a parameter beside it",
        |case| case.pairs_as_state(),
    ),
    rule(
        Gradient,
        "kept-from-step-to-step",
        &[Untold],
        "there before the recording, never freed, and as large as a parameter that the optimizer works on, though no backward pass \
         leaves a gradient of that size: zeroed in place",
        |case| case.pairs_as_gradient(),
    ),
    rule(
        OptimizerState,
        "kept-by-update",
        &[Program],
        "made by the program right after a backward pass, as large as a parameter, and there for good: momentum by hand",
        |case| case.stays() && case.is_made_for_update(),
    ),
    rule(
        Unknown,
        "program-keeps",
        &[Program],
        "made by the program in its loop, and there for good, two iterations later, too",
        |case| !case.precedes_passes() && case.stays() && case.outlives_two_iterations(),
    ),
    rule(
        Cache,
        "static-cache",
        &[Program],
        "no backward pass: made by the program before the model is called, several of one size, and there throughout the calls",
        |case| case.is_static_cache(),
    ),
    rule(
        Activation,
        "saved-until-failed-pass",
        &[Module, Compiled, Program],
        "made in a forward pass, and there when its backward pass runs out of memory",
        |case| case.meets_failed_pass() && case.is_of_forward(),
    ),
    rule(
        Activation,
        "saved-by-program",
        &[Program],
        "made by the program in a forward pass, and freed by the backward pass",
        |case| case.is_saved() && (case.is_amid_forward() || !case.meets_module()),
    ),
    rule(
        Input,
        "fed",
        &[Program],
        "made by the program before the forward pass, and there when a module runs; or amid it, with several layers after",
        |case| {
            let is_first = !case.trains() || !case.is_amid_forward();
            case.meets_module() && (is_first || case.meets_layers())
        },
    ),
    rule(
        Input,
        "fed-without-modules",
        &[Program],
        "a program without modules makes it, other saved blocks follow, and it is there when the backward pass is over",
        |case| case.is_held() && case.is_fed_without_modules(),
    ),
    rule(
        Input,
        "leads",
        &[Module, Compiled],
        "without stacks: among the first of an iteration, and there when the backward pass is over",
        |case| case.is_bare && case.is_held() && !case.outlives_iterations() && case.leads_iteration(),
    ),
    rule(
        Activation,
        "saved",
        &[Module, Compiled],
        "made by a module, there when the backward pass begins, and freed by it",
        |case| case.is_saved(),
    ),
    rule(
        Activation,
        "saved-and-held",
        &[Module, Compiled],
        "made by a module with layers behind it, and there when the backward pass is over: the program holds it, too",
        |case| case.is_held() && case.has_layers_behind(),
    ),
    rule(
        Unknown,
        "module-keeps",
        &[Module, Compiled],
        "made by a module, and still there after the next iteration's backward pass",
        |case| case.outlives_iterations(),
    ),
    rule(
        Activation,
        "compiled-output",
        &[Compiled],
        "an output of compiled code that the program holds: a compiled loss computes its backward from the output itself",
        |case| case.is_held(),
    ),
    rule(
        Cache,
        "cache-at-dump",
        &[Module, Compiled],
        "made by a module before the first entry, and there at the dump: a few places keep one for each layer, and nothing else is kept",
        |case| case.is_before && case.stays() && case.is_static_cache(),
    ),
    rule(
        Activation,
        "live-at-dump",
        &[Module, Compiled],
        "made by a module before the first entry, and there at the dump",
        |case| case.is_before && case.stays(),
    ),
    rule(
        Activation,
        "saved-until-failure",
        &[Module, Compiled],
        "made by a module with layers behind it, and there when the forward pass runs out of memory",
        |case| !case.is_kept_by_calls() && case.is_there_at_failure(),
    ),
    rule(
        Activation,
        "saved-so-far",
        &[Module, Compiled],
        "made by a module in a training program, and there at the end of a recording that has no more backward pass",
        |case| case.trains() && case.is_after_last_pass() && case.stays() && case.has_modules_behind(),
    ),
    rule(
        Activation,
        "saved-by-graph",
        &[Module, Compiled],
        "no backward pass follows, but modules keep most of what they make: saved for one",
        |case| !case.trains() && case.is_kept_by_call() && case.keeps_graph(),
    ),
    rule(
        Cache,
        "cache",
        &[Module, Compiled],
        "no backward pass: made by a module with layers behind it, and there when the model has returned (a KV cache)",
        |case| !case.trains() && (case.is_kept_by_call() || case.is_kept_by_calls()),
    ),
    rule(
        Temporary,
        "forward-scratch",
        &[Module, Compiled],
        "made by a module, and gone before the backward pass, or an output",
        |_| true,
    ),
    rule(
        Activation,
        "saved-before",
        &[Untold],
        "there before the recording, and freed by the first backward pass",
        |case| case.is_before && case.is_saved(),
    ),
    rule(
        Gradient,
        "cleared-before",
        &[Untold],
        "there before the recording, as large as a parameter, and freed outside the backward pass",
        |case| case.is_cleared(),
    ),
    rule(Temporary, "program-scratch", &[Program], "made by the program, and freed", |case| !case.stays()),
];
