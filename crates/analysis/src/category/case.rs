//! What is known of one lifetime when the rules are asked.

use highwater_snapshot::StackId;

use super::course::{Course, Pass};
use super::origin::Origin;
use super::pairing::Pairing;
use super::rows;
use crate::lifetime::Lifetime;

/// One lifetime before the rules.
pub struct Case<'a> {
    pub(crate) origin: Origin,
    /// Its row.
    pub(crate) row: usize,
    /// Requested bytes.
    pub(crate) size_bytes: u64,
    stack: StackId,
    /// The entry that allocated it; 0 if that came before.
    pub(crate) alloc: u32,
    /// It was there before the first entry.
    pub(crate) is_before: bool,
    /// The entry in which its owner freed it; the end of the recording if none is.
    pub(crate) freed: u32,
    /// The backward pass that it was made in.
    own: Option<&'a Pass>,
    /// The first backward pass that finds it.
    next: Option<&'a Pass>,
    course: &'a Course,
    pairing: &'a Pairing,
    /// No stack was recorded: the origin is by the place in the iteration.
    pub(crate) is_bare: bool,
    /// It was there before, and the optimizer's code freed it: a step, or `zero_grad`.
    pub(crate) is_freed_by_optimizer: bool,
}

/// Modules' allocations between a block and the loss: an output of the network has fewer behind it than what its layers
/// keep. A loss that is a module makes some itself.
pub(super) const BEHIND_OUTPUT: usize = 5;

/// What a loss that is a module allocates.
pub(super) const OF_LOSS: usize = 2;

impl<'a> Case<'a> {
    pub(crate) fn new(
        row: usize,
        lifetime: &Lifetime,
        (origin, is_freed_by_optimizer): (Origin, bool),
        course: &'a Course,
        pairing: &'a Pairing,
        is_bare: bool,
    ) -> Self {
        let alloc = lifetime.alloc().map_or(0, highwater_snapshot::EntryId::get);
        let freed = lifetime.free_requested().or(lifetime.free_completed());
        let freed = freed.map_or(course.entries, highwater_snapshot::EntryId::get);
        let is_before = lifetime.alloc().is_none();
        let next = if is_before { course.passes.first() } else { course.pass_after(alloc) };
        Self {
            origin,
            row,
            size_bytes: lifetime.requested_bytes,
            stack: lifetime.stack,
            alloc,
            is_before,
            freed,
            own: if is_before { None } else { course.pass_at(alloc) },
            next: next.filter(|pass| pass.start < freed),
            course,
            pairing,
            is_bare,
            is_freed_by_optimizer,
        }
    }

    /// Whether it is still there at the end of the recording.
    pub(crate) fn stays(&self) -> bool {
        self.freed >= self.course.entries
    }

    /// Whether backward finds it, and frees it: what another thread clears meanwhile is a gradient.
    pub(crate) fn is_saved(&self) -> bool {
        self.next.is_some() && self.course.pass_at(self.freed).is_some() && !self.course.clears(self.freed)
    }

    /// Whether backward finds it and leaves it.
    pub(crate) fn is_held(&self) -> bool {
        self.next.is_some() && !self.is_saved()
    }

    /// Whether it outlives the backward pass that made it.
    pub(crate) fn outlives_pass(&self) -> bool {
        if self.is_before {
            return self.course.pass_at(self.freed).is_none();
        }
        let Some(pass) = self.own else { return false };
        // What is there when a recording ends amid a pass may be anything.
        let is_whole = pass.sure_end < self.course.entries && !self.course.has_failed(pass);
        self.freed >= pass.sure_end && (is_whole || self.pairing.is_parameter_size(self.size_bytes))
    }

    /// Whether it outlives the backward pass that made it, and a later one frees it.
    pub(crate) fn is_saved_again(&self) -> bool {
        // What goes after the last that a pass makes may be cleared by the program, where frees do not tell.
        let is_passed = |pass: &&Pass| self.freed < pass.sure_end && !self.course.clears(self.freed);
        let freed = self.course.pass_at(self.freed).filter(is_passed);
        self.own.zip(freed).is_some_and(|(own, freed)| own.start < freed.start)
    }

    /// Whether it outlives the recomputation that made it.
    pub(crate) fn outlives_recomputation(&self) -> bool {
        self.course.recomputed_until(self.alloc).is_some_and(|end| self.freed >= end)
    }

    /// Whether it outlives the optimizer's step that made it.
    pub(crate) fn outlives_step(&self) -> bool {
        self.pairing.outlives_step(self.row).unwrap_or_else(|| self.course.outlives_step(self.alloc, self.freed))
    }

    /// Whether it is there after the backward pass of the next iteration.
    pub(crate) fn outlives_iterations(&self) -> bool {
        self.outlives_passes(self.course.period)
    }

    /// Whether it is there after the backward passes of two more iterations.
    pub(crate) fn outlives_two_iterations(&self) -> bool {
        self.outlives_passes(2 * self.course.period)
    }

    fn outlives_passes(&self, count: usize) -> bool {
        let after = self.course.passes.partition_point(|pass| pass.start <= self.alloc);
        self.course.passes.get(after + count).is_some_and(|pass| pass.end <= self.freed)
    }

    /// Whether a forward pass is under way: a module has run since the last backward pass or step.
    pub(crate) fn is_amid_forward(&self) -> bool {
        self.course.is_amid_forward(self.alloc)
    }

    /// Whether a module runs while it is there.
    pub(crate) fn meets_module(&self) -> bool {
        self.course.module_after(self.alloc).is_some_and(|module| module < self.freed)
    }

    /// Whether it is computed from an input, and nothing but the graph holds it.
    pub(crate) fn is_saved_from_input(&self) -> bool {
        self.is_saved() && self.pairing.may_come_from_input(self.alloc, self.size_bytes)
    }

    /// Whether layers follow it before the loss: an output of the network has none behind it.
    pub(crate) fn has_layers_behind(&self) -> bool {
        let end = self.next.map_or(self.course.entries, |pass| pass.start);
        self.pairing.saved_between(self.alloc, end) > BEHIND_OUTPUT
    }

    /// Whether the backward pass frees nothing as large that was made after it: the loss, computed from the block, keeps the block itself.
    pub(crate) fn is_saved_by_loss(&self) -> bool {
        self.next.is_some_and(|pass| {
            let after = self.pairing.saved_in(self.alloc, pass.start);
            self.course.frees_tell
                && self.course.turn_before(pass.start) <= self.alloc
                && after.iter().all(|&(_, bytes)| bytes < self.size_bytes)
        })
    }

    /// Whether it is made behind the model's last layers, as large as what these return, and backward finds it: of the loss.
    pub(crate) fn is_of_loss(&self) -> bool {
        self.pairing.is_output_size(self.size_bytes) && self.course.is_behind_layers(self.alloc, self.freed, OF_LOSS)
    }

    /// Whether it is one of many like it that the program feeds to modules and frees again.
    pub(crate) fn is_like_fed(&self) -> bool {
        self.pairing.is_like_fed(self.size_bytes, (!self.is_before).then_some(self.stack))
    }

    /// Whether its size is no product of the widths of layers.
    pub(crate) fn has_size_of_data(&self) -> bool {
        rows::has_special_factor(self.size_bytes)
    }

    /// Whether layers have run since it was made, in the last forward pass that there is.
    pub(crate) fn has_modules_behind(&self) -> bool {
        self.course.modules_between(self.alloc, self.course.entries) > BEHIND_OUTPUT
    }

    /// Whether autograd runs, and it has a gradient's size, was there before the recording, and neither stays nor is freed by backward, nor
    /// outlives a pass that makes such gradients.
    pub(crate) fn is_cleared(&self) -> bool {
        self.trains()
            && self.is_before
            && !self.stays()
            && !self.is_saved()
            && !self.pairing.replaced.contains(&self.row)
            && (self.pairing.is_parameter_size(self.size_bytes) || self.pairing.is_left_by_passes(self.size_bytes))
    }

    /// Whether gradients have no place but buckets.
    pub(crate) fn buckets_are_gradients(&self) -> bool {
        self.pairing.buckets_are_gradients()
    }

    /// Whether it is there when the allocator gives up in the forward pass that made it, and layers have followed it.
    pub(crate) fn is_there_at_failure(&self) -> bool {
        let failures = &self.course.failures;
        let failure = failures.get(failures.partition_point(|&failure| failure < self.alloc));
        failure.is_some_and(|&failure| {
            failure < self.freed
                && self.course.turn_before(failure) <= self.alloc
                && self.course.pass_after(self.alloc).is_none_or(|pass| failure < pass.start)
                && self.course.modules_between(self.alloc, failure) > BEHIND_OUTPUT
        })
    }

    /// Whether the backward pass that finds it runs out of memory.
    pub(crate) fn meets_failed_pass(&self) -> bool {
        self.next.is_some_and(|pass| self.course.has_failed(pass))
    }

    /// Whether a module makes it, or the program amid a forward pass.
    pub(crate) fn is_of_forward(&self) -> bool {
        self.origin != Origin::Program || self.is_amid_forward()
    }

    /// Whether the program made it right after a backward pass, where parameters are updated, as large as a parameter, and its line
    /// feeds no module elsewhere: the next part of an accumulated batch follows a pass, too.
    pub(crate) fn is_made_for_update(&self) -> bool {
        let turn = self.course.turn_before(self.alloc);
        !self.precedes_passes()
            && !self.pairing.feeds_at(self.stack, self.size_bytes)
            && self.pairing.is_parameter_size(self.size_bytes)
            && self.course.is_right_after_pass(self.alloc)
            && self.pairing.saved_between(turn, self.alloc) == 0
    }

    /// Whether the program computes it right after a backward pass, as large as a parameter, and a later pass frees it: weights of an
    /// inner step, with the graph of its gradients.
    pub(crate) fn is_inner_weight(&self) -> bool {
        self.is_saved()
            && !self.precedes_passes()
            && self.pairing.is_parameter_size(self.size_bytes)
            && !self.pairing.feeds_at(self.stack, self.size_bytes)
            && self.course.is_right_after_pass(self.alloc)
    }

    /// Whether it is a gradient that the program computed for the optimizer.
    pub(crate) fn is_assigned_gradient(&self) -> bool {
        self.pairing.assigned.contains(&self.row)
    }

    /// Whether a graph keeps it that no backward pass frees.
    pub(crate) fn is_of_graph(&self) -> bool {
        self.pairing.graphs.contains(&self.row)
    }

    /// Whether modules make it in a series of calls, each time larger.
    pub(crate) fn grows_by_call(&self) -> bool {
        self.pairing.growing.contains(&self.row)
    }

    /// Whether it is a gradient that the program converted for the optimizer.
    pub(crate) fn is_converted_gradient(&self) -> bool {
        self.pairing.converted.contains(&self.row)
    }

    /// Whether its line keeps what it makes: earlier blocks stayed, and none was freed.
    pub(crate) fn is_of_keeping_place(&self) -> bool {
        self.pairing.keeping.contains(&self.row)
    }

    /// Whether a backward pass frees nothing that was made in the same call of the model.
    pub(crate) fn is_of_evaluation(&self) -> bool {
        let called = self.course.program_before(self.alloc);
        self.pairing.saved_between(called, self.course.returned(self.alloc)) == 0
    }

    /// Whether its line makes blocks time and again that are never freed.
    pub(crate) fn is_repeated(&self) -> bool {
        self.pairing.is_repeated(self.stack)
    }

    /// Whether modules run while it is there, and it is freed after the pass that follows.
    pub(crate) fn serves_pass(&self) -> bool {
        self.meets_module() && self.is_held() && !self.stays()
    }

    /// Whether it was found to be a cache that the program makes before the calls that fill it.
    pub(crate) fn is_static_cache(&self) -> bool {
        self.pairing.caches.contains(&self.row)
    }

    /// Whether it was there before, and is freed where caches are.
    pub(crate) fn is_freed_like_caches(&self) -> bool {
        self.pairing.freed_like_caches.contains(&self.row)
    }

    /// Whether a call of the model before the recording left it behind, as later ones leave their like.
    pub(crate) fn is_left_before(&self) -> bool {
        self.pairing.left_before.contains(&self.row)
    }

    /// Whether an optimizer of the program's own made it for a parameter, as it was constructed.
    pub(crate) fn is_constructed_state(&self) -> bool {
        self.pairing.constructed_states.contains(&self.row)
    }

    /// Whether it was made by a constructor of the program's when the modules were there, and nothing pairs with it.
    pub(crate) fn is_apart(&self) -> bool {
        self.pairing.is_apart(self.row, self.size_bytes)
    }

    /// Whether modules keep most of what they make, though no backward pass follows: a graph that autograd would need.
    pub(crate) fn keeps_graph(&self) -> bool {
        self.pairing.keeps_graph
    }

    /// Whether the model's call that made it has returned while it is there, and layers followed it in that call.
    pub(crate) fn is_kept_by_call(&self) -> bool {
        let call_end = self.course.returned(self.alloc);
        call_end < self.freed.saturating_add(1) && self.course.modules_between(self.alloc, call_end) > BEHIND_OUTPUT
    }

    /// Whether the model's call that made it has returned while it is there, with something that was made later. A call in which
    /// memory ran out returns nothing.
    pub(crate) fn is_behind_returned(&self) -> bool {
        let call_end = self.course.returned(self.alloc);
        let fails = self.course.failure_after(self.alloc).is_some_and(|failure| failure <= call_end);
        call_end < self.freed.saturating_add(1)
            && !fails
            && self.course.modules_between(self.alloc, call_end) > 0
            && !self.pairing.returned.contains(&self.row)
    }

    /// Whether it was there before, and went in a step of the optimizer that makes its like anew.
    pub(crate) fn is_replaced_in_step(&self) -> bool {
        self.is_before && self.course.step_at(self.freed).is_some() && self.pairing.is_state_size(self.size_bytes)
    }

    /// Whether it was there before as the state of an optimizer that the program constructs anew.
    pub(crate) fn is_outdated(&self) -> bool {
        self.pairing.outdated.contains(&self.row)
    }

    /// Whether memory ran out in a call of the model, of which earlier calls kept its like when they returned.
    pub(crate) fn is_kept_by_calls(&self) -> bool {
        self.pairing.kept_by_calls.contains(&self.row)
    }

    /// Whether autograd ever ran.
    pub(crate) fn trains(&self) -> bool {
        !self.course.passes.is_empty()
    }

    /// Whether no backward pass follows.
    pub(crate) fn is_after_last_pass(&self) -> bool {
        self.course.pass_after(self.alloc).is_none()
    }

    /// Whether it was freed before the next allocation.
    pub(crate) fn is_momentary(&self) -> bool {
        !self.is_before && self.freed == self.alloc + 1
    }

    /// Whether it was found to be a library's workspace.
    pub(crate) fn is_workspace(&self) -> bool {
        self.pairing.workspaces.contains(&self.row)
    }

    /// Whether it pairs, in size, with gradients or optimizer state that have no parameter otherwise.
    pub(crate) fn pairs_as_parameter(&self) -> bool {
        self.pairing.parameters.contains(&self.row)
    }

    /// Whether it was there before and is a parameter or optimizer state, and what lies beside it suits both.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.pairing.in_doubt.contains(&self.row)
    }

    /// Whether it was there before, and is one of the blocks of one size that lie behind the layers, one or two for each.
    pub(crate) fn is_of_pages(&self) -> bool {
        self.pairing.pages.contains(&self.row)
    }

    /// Whether it was there before, and lies behind all layers of a model that is not trained, like none of their matrices.
    pub(crate) fn is_behind_layers(&self) -> bool {
        self.pairing.behind_layers.contains(&self.row)
    }

    /// Whether the program made it before several calls of a model that is not trained, and it is larger than the model.
    pub(crate) fn is_beside_model(&self) -> bool {
        self.pairing.beside_model.contains(&self.row)
    }

    /// Whether it was there before and pairs with a parameter, as optimizer state.
    pub(crate) fn pairs_as_state(&self) -> bool {
        self.pairing.states.contains(&self.row)
    }

    /// Whether it was there before and pairs with a parameter, as its gradient.
    pub(crate) fn pairs_as_gradient(&self) -> bool {
        self.pairing.kept_gradients.contains(&self.row)
    }

    /// Whether it holds the gradients of all parameters.
    pub(crate) fn is_flat_gradient(&self) -> bool {
        self.pairing.flat_gradients == Some(self.row)
    }

    /// Whether it holds what the optimizer keeps for all parameters.
    pub(crate) fn is_flat_state(&self) -> bool {
        self.pairing.flat_states.contains(&self.row)
    }

    /// Whether it was there before and is one of a set of data.
    pub(crate) fn is_of_data(&self) -> bool {
        self.pairing.data.contains(&self.row)
    }

    /// Whether it was allocated before the recording, and is as large as all inputs of one rollout.
    pub(crate) fn holds_rollout(&self) -> bool {
        self.is_before && self.stays() && self.course.collected_bytes == Some(self.size_bytes)
    }

    /// Whether it comes before the first backward pass.
    pub(crate) fn precedes_passes(&self) -> bool {
        self.course.passes.first().is_none_or(|pass| self.alloc < pass.start)
    }

    /// Whether several layers run while it is there.
    pub(crate) fn meets_layers(&self) -> bool {
        self.course.modules_between(self.alloc, self.freed) > BEHIND_OUTPUT
    }

    /// Whether no module runs between it and the backward pass that finds it, but other saved allocations follow.
    pub(crate) fn is_fed_without_modules(&self) -> bool {
        !self.pairing.sweeps(self.stack)
            && self.next.is_some_and(|next| {
                self.course.modules_between(self.course.turn_before(self.alloc), next.start) == 0
                    && self.pairing.saved_between(self.alloc, next.start) > 1
            })
    }

    /// Whether no modules run, and a line that goes through parameters makes it, to be replaced behind the next pass.
    pub(crate) fn is_replaced_by_sweep(&self) -> bool {
        self.pairing.replaces(self.stack, self.size_bytes)
            && self.next.is_none_or(|next| self.freed >= next.end)
            && !self.pairing.is_parameter_size(self.size_bytes)
    }

    /// Whether few allocations come before it in its iteration.
    pub(crate) fn leads_iteration(&self) -> bool {
        self.course.modules_between(self.course.turn_before(self.alloc), self.alloc) <= BEHIND_OUTPUT
    }
}
