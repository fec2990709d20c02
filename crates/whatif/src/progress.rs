//! How far the runs are, for whoever waits for them and may stop waiting.

use std::fmt;
use std::sync::Arc;

use highwater_allocator::Settings;

use crate::conf::Conf;

/// Is told how far the simulator is, and can end its work.
pub trait Progress: Send + Sync {
    /// Whether nobody waits for the answer any more. It is asked every [`LOOK_STEPS`] steps of every run; all runs then
    /// end where they are, and the answer is not whole. Once it is stopped it stays so.
    fn is_stopped(&self) -> bool {
        false
    }

    /// The recording itself is replayed first: it is at so many of its entries.
    fn recorded(&self, _entries: usize) {}

    /// The program is run under each of these settings.
    fn begin(&self, _settings: &[Conf]) {}

    /// A run under these settings has taken so many steps of the program's, 0 if it begins. Several can be under way.
    fn ran(&self, _settings: &Settings, _steps: usize, _of: usize) {}

    /// All runs under one more of the settings are done.
    fn step(&self) {}

    /// So are those under all of them.
    fn end(&self) {}
}

impl Progress for () {}

/// Steps of a run, or entries of a recording, between two looks at who waits: some milliseconds at most.
pub const LOOK_STEPS: usize = 1024;

/// Who watches the runs of a program: by itself nobody.
///
/// Any two are equal: a program is the same whoever watches it.
#[derive(Clone)]
pub struct Watch(Arc<dyn Progress>);

impl Watch {
    /// Has the runs watched.
    pub fn new(progress: impl Progress + 'static) -> Self {
        Self(Arc::new(progress))
    }

    /// The same, of what others look at as well.
    pub fn shared(progress: Arc<dyn Progress>) -> Self {
        Self(progress)
    }
}

impl std::ops::Deref for Watch {
    type Target = dyn Progress;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self::new(())
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

impl PartialEq for Watch {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Watch {}
