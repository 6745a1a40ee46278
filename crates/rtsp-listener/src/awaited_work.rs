//! Work that a client's request waits for.

use tokio::task::{AbortHandle, JoinHandle};

/// Work that a client's request waits for, and that ends with the client: nobody else needs it.
#[derive(Debug)]
pub(super) struct AwaitedWork(AbortHandle);

impl AwaitedWork {
    pub(super) fn of(task: &JoinHandle<()>) -> Self {
        Self(task.abort_handle())
    }
}

impl Drop for AwaitedWork {
    fn drop(&mut self) {
        // Work that is done has ended already.
        self.0.abort();
    }
}
