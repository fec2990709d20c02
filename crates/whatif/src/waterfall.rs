//! Where reserved memory goes: one cause taken away after the other.

use highwater_allocator::{AddressPolicy, Memory, Settings};
use highwater_analysis::parallel;

use super::run::{Runner, run};
use super::study::{Study, machine};
use crate::replay::{Program, Step};

/// What makes the allocator hold more than the program asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Requests, as asked for.
    Requested,
    /// Rounding of requests to the sizes of blocks.
    Rounding,
    /// Rest of a block that is not worth splitting off.
    UnsplitSlack,
    /// Free memory of one stream that another cannot use.
    StreamIsolation,
    /// Free memory of a private pool that others cannot use.
    PrivatePools,
    /// Blocks that are freed and wait for another stream.
    DelayedFrees,
    /// Free memory between blocks in use: what a better placement would save.
    Placement,
}

impl Cause {
    /// The name in the JSON document.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Rounding => "rounding",
            Self::UnsplitSlack => "unsplit_slack",
            Self::StreamIsolation => "stream_isolation",
            Self::PrivatePools => "private_pools",
            Self::DelayedFrees => "delayed_frees",
            Self::Placement => "placement",
        }
    }
}

/// One bar: how much lower the peak is without a cause, all those before it taken away too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    /// The cause.
    pub cause: Cause,
    /// Bytes. Can be negative: without the cause the allocator may happen to place worse.
    pub bytes: i64,
}

impl Study {
    /// The peak of reserved memory under these settings with memory without end, cause by cause. The bars add up to it.
    pub fn waterfall(&self, settings: &Settings) -> Vec<Bar> {
        let one_stream = without_streams(&self.program);
        let one_pool = without_pools(&one_stream);
        let prompt = without_delays(&one_pool);
        let variants =
            [(&self.program, false), (&one_stream, false), (&one_pool, false), (&prompt, false), (&prompt, true)];
        let runs = parallel::map(&variants, |&(program, split_always)| {
            let machine = machine(settings, Memory::Ample, AddressPolicy::Driver);
            if split_always {
                let mut runner = Runner::new(program, &machine);
                runner.allocator.split_always();
                runner.run()
            } else {
                run(program, &machine)
            }
        });
        let peaks: Vec<u64> = runs.iter().map(super::run::Run::peak_reserved_bytes).collect();
        let last = &runs[runs.len() - 1];
        let (allocated, requested) = (last.peak_allocated_bytes(), self.live.requested_bytes);
        let requested = requested.min(allocated);
        let bar = |cause, from: u64, to: u64| Bar { cause, bytes: from.cast_signed() - to.cast_signed() };
        vec![
            bar(Cause::Requested, requested, 0),
            bar(Cause::Rounding, allocated, requested),
            bar(Cause::UnsplitSlack, peaks[3], peaks[4]),
            bar(Cause::StreamIsolation, peaks[0], peaks[1]),
            bar(Cause::PrivatePools, peaks[1], peaks[2]),
            bar(Cause::DelayedFrees, peaks[2], peaks[3]),
            bar(Cause::Placement, peaks[4], allocated),
        ]
    }
}

fn without_streams(program: &Program) -> Program {
    let mut program = program.clone();
    for step in &mut program.steps {
        if let Step::Alloc { stream, .. } | Step::Attempt { stream, .. } = step {
            *stream = 0;
        }
    }
    program
}

fn without_pools(program: &Program) -> Program {
    let mut program = Program { pools: 0, ..program.clone() };
    for step in &mut program.steps {
        if let Step::Alloc { pool, .. } | Step::Attempt { pool, .. } = step {
            *pool = 0;
        }
    }
    program
}

fn without_delays(program: &Program) -> Program {
    let mut program = program.clone();
    program.steps.retain(|step| !matches!(step, Step::Done { .. }));
    for step in &mut program.steps {
        if let Step::FreeLater { slot, .. } = *step {
            *step = Step::Free { slot };
        }
    }
    program
}
