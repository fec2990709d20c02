//! Which kernel a launch means: the names that the compiler gave them, by the functions of the host that stand for them.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use highwater_driver::context::Kernel;

use crate::devices;
use crate::ffi::Text;
use crate::ledger::{self, Event};
use crate::memory;

/// What is known of a kernel from its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kind {
    /// It tells whether all of something is true.
    pub(crate) is_all: bool,
    /// What the driver loads for it.
    pub(crate) loaded: Kernel,
}

/// Parts of the names of PyTorch's kernels that have assertions.
const MAY_FAIL: [&str; 10] = [
    "unrolled_elementwise_kernelI",
    "gpu_kernel_implI",
    "reduce_kernelI",
    "vectorized_gather_kernel",
    "indexSelect",
    "scatter_gather_elementwise",
    "index_kernel_impl",
    "index_put_kernel",
    "nll_loss",
    "gatherTopK",
];
/// Of others that want a stack.
const WITH_STACK: [&str; 4] = ["elementwise_kernelI", "layer_norm_kernel", "dropout_kernel", "fmha_cutlass"];

impl Kind {
    fn of(name: Text) -> Self {
        let has_one = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
        let may_fail = has_one(&MAY_FAIL);
        Kind {
            is_all: name.contains("and_kernel_cuda"),
            loaded: Kernel {
                wants_stack: may_fail || has_one(&WITH_STACK),
                may_fail,
                counts_as: if name.contains("fmha_cutlass") { 5 } else { 1 },
            },
        }
    }
}

#[derive(Default)]
struct Kernels {
    /// Where the names lie: in the functions' libraries, there as long as they are.
    names: HashMap<usize, Text>,
    launched: HashMap<usize, Kind>,
}

static KERNELS: RwLock<Option<Kernels>> = RwLock::new(None);

/// Takes in that a function of the host stands for a kernel.
pub(crate) fn register(function: usize, name: Text) {
    let mut kernels = KERNELS.write().unwrap_or_else(PoisonError::into_inner);
    let kernels = kernels.get_or_insert_default();
    kernels.launched.remove(&function);
    kernels.names.insert(function, name);
}

/// The kernel that is launched; nothing is known of one that was never registered. The driver loads what it has not seen.
pub(crate) fn launched(function: usize) -> Kind {
    if let Some(kernels) = KERNELS.read().unwrap_or_else(PoisonError::into_inner).as_ref()
        && let Some(&kind) = kernels.launched.get(&function)
    {
        return kind;
    }
    let kind = {
        let mut kernels = KERNELS.write().unwrap_or_else(PoisonError::into_inner);
        let kernels = kernels.get_or_insert_default();
        let kind = kernels.names.get(&function).copied().map_or(Kind::default(), Kind::of);
        kernels.launched.insert(function, kind);
        kind
    };
    if let Some(((), bytes)) = memory::in_context(|context, space| context.load(kind.loaded, space))
        && bytes > 0
    {
        ledger::note(Event::new(ledger::Kind::Launch, devices::current(), 0, bytes));
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_known_by_the_names_that_the_compiler_gave_them() {
        let of = |name| {
            let Kernel { wants_stack, may_fail, .. } = Kind::of(Text::of(name)).loaded;
            [wants_stack, may_fail]
        };
        assert_eq!(of(c"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEE"), [true, false]);
        assert_eq!(of(c"_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_implIZZZ"), [true, true]);
        assert_eq!(of(c"_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastIZZZ"), [true, false]);
        assert_eq!(of(c"_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_7MeanOps"), [true, true]);
        assert_eq!(of(c"_ZN50_17_RangeFactories_cu29elementwise_kernel_with_indexIiZZZN2at6native"), [false, false]);
        assert_eq!(of(c"_ZN2at6native43distribution_elementwise_grid_stride_kernelIfLi4EZNS0"), [false, false]);
    }

    #[test]
    fn another_library_may_come_to_lie_where_one_was() {
        register(0x5678, Text::of(c"reduce_kernelI"));
        assert!(launched(0x5678).loaded.may_fail);
        register(0x5678, Text::of(c"another"));
        assert_eq!(launched(0x5678), Kind::default());
    }
}
