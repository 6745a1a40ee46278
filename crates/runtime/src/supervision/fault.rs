//! Faults on request, for tests of the supervision with real processes.
//!
//! This file is compiled with debug assertions only, which no release has.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::fault_point::FaultPoint;

/// A fault of one thread, or of a task at a [`FaultPoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The thread panics in its next turn, and no peer is to blame.
    Panic,
    /// The thread panics while it serves the next peer.
    PanicServing,
    /// The thread hangs in its next turn for this time.
    Hang(Duration),
}

/// The faults that a thread has still to make.
#[derive(Debug, Default)]
pub(super) struct Faults {
    panics: AtomicBool,
    panics_serving: AtomicBool,
    hangs_ms: AtomicU64,
}

impl Faults {
    pub(super) fn inject(&self, fault: Fault) {
        match fault {
            Fault::Panic => self.panics.store(true, Ordering::Relaxed),
            Fault::PanicServing => self.panics_serving.store(true, Ordering::Relaxed),
            Fault::Hang(time) => {
                let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
                self.hangs_ms.store(ms, Ordering::Relaxed);
            }
        }
    }

    /// Makes the faults of a whole thread that were requested.
    pub(super) fn strike(&self) {
        let ms = self.hangs_ms.swap(0, Ordering::Relaxed);
        if ms > 0 {
            std::thread::sleep(Duration::from_millis(ms));
        }
        assert!(
            !self.panics.swap(false, Ordering::Relaxed),
            "a panic was requested by a test"
        );
    }

    /// Makes the fault of a thread that serves a peer, if it was requested.
    #[inline]
    pub(super) fn strike_peer(&self) {
        assert!(
            !self.panics_serving.load(Ordering::Relaxed)
                || !self.panics_serving.swap(false, Ordering::Relaxed),
            "a panic for one peer was requested by a test"
        );
    }
}

/// The faults that tasks have still to make.
#[derive(Debug, Default)]
pub(super) struct PointFaults(Mutex<Vec<(FaultPoint, Fault)>>);

impl PointFaults {
    pub(super) fn inject(&self, point: FaultPoint, fault: Fault) {
        let mut faults = self.0.lock();
        faults.push((point, fault));
    }

    /// Makes the oldest fault that was requested at `point`, if there is one.
    pub(super) fn strike(&self, point: FaultPoint) {
        let fault = {
            let mut faults = self.0.lock();
            let found = faults.iter().position(|(at, _)| *at == point);
            found.map(|index| faults.remove(index).1)
        };
        match fault {
            None => {}
            Some(Fault::Hang(time)) => std::thread::sleep(time),
            Some(Fault::Panic | Fault::PanicServing) => {
                panic!("a panic at {point:?} was requested by a test")
            }
        }
    }
}
