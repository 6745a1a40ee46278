//! The thread that looks whether all other threads make progress.

use std::io;
use std::sync::{Arc, Weak};
use std::thread;

use tokio::runtime::Handle;

use super::fault_point::FaultPoint;
use super::heartbeat::{LOOK, Look};
use super::part::Part;
use super::supervisor::Supervisor;

fn watch(supervisor: &Weak<Supervisor>, runtime: Option<&Handle>) {
    loop {
        thread::sleep(LOOK);
        let Some(supervisor) = supervisor.upgrade() else {
            return;
        };
        // A worker of tokio that polled the sockets and then hangs in a task may have woken no other
        // worker: nobody polls sockets and timers then. A task from elsewhere wakes one that waits.
        if let Some(runtime) = runtime {
            runtime.spawn(async {});
        }
        // The next look takes place whatever happens in this one.
        let _ = supervisor.catch(Part::Background, || supervisor.look());
    }
}

impl Supervisor {
    /// Starts the watchdog thread, which ends when the supervisor is dropped. Within a tokio runtime,
    /// the thread also sees to it that a task that hangs does not hold up all others.
    ///
    /// # Errors
    /// Returns the system's error if it has no thread to give.
    pub fn start() -> io::Result<Arc<Self>> {
        let supervisor = Arc::new(Self::new());
        let watched = Arc::downgrade(&supervisor);
        let watchdog = thread::Builder::new().name("watchdog".to_owned());
        let runtime = Handle::try_current().ok();
        watchdog.spawn(move || watch(&watched, runtime.as_ref()))?;
        Ok(supervisor)
    }

    /// Looks at every thread once, and logs those that got stuck or recovered.
    pub(super) fn look(&self) {
        let mut pulses = self.lock();
        pulses.retain(|pulse| !pulse.has_ended());
        self.fault_point(FaultPoint::Watchdog);
        for pulse in pulses.iter() {
            let thread = &pulse.thread;
            match pulse.look() {
                Look::Same => {}
                Look::Stuck => {
                    let quiet_s = pulse.progress().quiet.as_secs();
                    tracing::error!(
                        thread,
                        quiet_s,
                        "thread is stuck: it makes no progress, and whoever it serves gets nothing"
                    );
                }
                Look::Recovered => tracing::warn!(thread, "thread makes progress again"),
            }
        }
    }
}
