//! Microphones and loudspeakers.
//!
//! A device calls back, on a thread of its own, with the times that it knows. What it
//! calls must return within its period: the speaking half only copies there, the
//! listening half decodes and mixes.

mod clocked;
#[cfg(feature = "devices")]
mod system;
mod wav;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use glassline_voice::Format;
use thiserror::Error;

pub use clocked::{Began, Signal, Tap, Timing, VirtualLoudspeaker, VirtualMicrophone};
#[cfg(feature = "devices")]
pub use system::{SystemLoudspeaker, SystemMicrophone};

/// Where audio comes from.
pub trait Microphone: Send {
    /// What it gives.
    fn format(&self) -> Format;

    /// How long after its last sample was heard it calls, if its calls do not say.
    fn delay(&self) -> Duration {
        Duration::ZERO
    }

    /// Calls `deliver` with each period, interleaved samples, until what is returned is
    /// dropped.
    ///
    /// # Errors
    /// The device cannot be opened.
    fn start(self: Box<Self>, deliver: Deliver) -> Result<Running, DeviceError>;
}

/// Where audio goes.
pub trait Loudspeaker: Send {
    /// What it takes.
    fn format(&self) -> Format;

    /// Calls `fill` for each period, interleaved samples, until what is returned is
    /// dropped.
    ///
    /// # Errors
    /// The device cannot be opened.
    fn start(self: Box<Self>, fill: Fill) -> Result<Running, DeviceError>;
}

/// Takes a period of a microphone.
pub type Deliver = Box<dyn FnMut(&[f32], CaptureTime) + Send>;

/// Fills a period of a loudspeaker.
pub type Fill = Box<dyn FnMut(&mut [f32], PlayoutTime) + Send>;

/// When a microphone's period was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureTime {
    /// The device calls.
    pub called: Instant,
    /// The period's last sample was at the microphone, as far as the device knows.
    pub last: Instant,
}

/// When a loudspeaker's period is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlayoutTime {
    /// The device calls.
    pub called: Instant,
    /// The period's first sample will be heard, as far as the device knows.
    pub plays: Instant,
}

/// Why there is no microphone, or no loudspeaker.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// A file cannot be read or written.
    #[error("{path}: {reason}", path = .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// It is not what a voice call takes.
    #[error("{0}")]
    Unsuited(String),
    /// The system said no.
    #[error("{device}: {reason}")]
    System {
        /// Which.
        device: String,
        /// What was said.
        reason: String,
    },
}

/// A device that runs until this is dropped.
pub struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    failure: Arc<OnceLock<DeviceError>>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

impl Running {
    /// `run` is a thread of its own, until the flag is up.
    fn thread(
        name: &str,
        run: impl FnOnce(&AtomicBool) -> Result<(), DeviceError> + Send + 'static,
    ) -> Result<Self, DeviceError> {
        let stop = Arc::new(AtomicBool::new(false));
        let failure = Arc::new(OnceLock::new());
        let (flag, failed) = (Arc::clone(&stop), Arc::clone(&failure));
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || {
            if let Err(error) = run(&flag) {
                // Only this thread sets it.
                let _ = failed.set(error);
            }
        });
        let thread = thread.map_err(|error| DeviceError::System {
            device: name.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self {
            stop,
            thread: Some(thread),
            failure,
        })
    }

    /// Why it stopped, if it did by itself.
    pub fn failure(&self) -> Option<DeviceError> {
        self.failure.get().cloned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of a sound device has panicked");
        }
    }
}

/// The names of this machine's devices, microphones first; `None` where the program was
/// built without them (feature `devices`).
pub fn devices() -> Option<Result<[Vec<String>; 2], DeviceError>> {
    #[cfg(feature = "devices")]
    return Some(system::names());
    #[cfg(not(feature = "devices"))]
    None
}
