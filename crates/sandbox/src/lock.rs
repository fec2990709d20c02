//! One process at a time, and one thread of it, changes the shape of the tree.

use crate::abi;
use crate::settings::Settings;
use crate::system::{Errno, File};

/// Held until it is dropped.
pub(crate) struct Lock(File);

impl Lock {
    /// Waits for it.
    ///
    /// # Errors
    /// The sandbox's directory is gone, or no file can be opened any more.
    pub(crate) fn take(settings: &Settings) -> Result<Self, Errno> {
        // Opened anew each time: a lock is between openings, so it holds between threads too.
        let file = File::open(&settings.lock, abi::O_RDWR | abi::O_CREAT, 0o600)?;
        file.lock()?;
        Ok(Lock(file))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.0.unlock();
    }
}
