//! Requests to read the configuration again.

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::watch;

/// The cause of a reload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A file has changed.
    #[default]
    File,
    /// The process got SIGHUP, or the program that runs the server asked.
    Signal,
    /// An operator asked over the API.
    Api,
}

/// Requests to read all files again, counted, and how many of them are done. One reload answers all
/// requests that came before it began.
#[derive(Debug, Default)]
pub struct Requests {
    made: watch::Sender<u64>,
    done: watch::Sender<u64>,
    latest: Mutex<Cause>,
}

impl Requests {
    /// Asks for all files to be read again, soon. Returns the number of the request.
    pub fn ask(&self, cause: Cause) -> u64 {
        *self.latest.lock() = cause;
        let mut number = 0;
        self.made.send_modify(|made| {
            *made += 1;
            number = *made;
        });
        number
    }

    /// Waits until every request that was made before this call is done.
    pub async fn finished(&self) {
        let made = *self.made.borrow();
        self.done(made).await;
    }

    /// Waits until the request `number` is done.
    pub async fn done(&self, number: u64) {
        // The sender is `self`, so the wait ends by a value.
        let _ = self.done.subscribe().wait_for(|done| *done >= number).await;
    }

    /// Returns what tells of requests, those that came before included.
    pub fn watch(&self) -> watch::Receiver<u64> {
        let mut made = self.made.subscribe();
        made.mark_changed();
        made
    }

    /// Returns the cause of the latest request, if `request` is not done yet.
    pub fn open(&self, request: u64) -> Option<Cause> {
        let is_open = request > *self.done.borrow();
        is_open.then(|| *self.latest.lock())
    }

    /// Notes that the requests up to `request` are done.
    pub fn note_done(&self, request: u64) {
        self.done.send_replace(request);
    }
}
