//! Microphones and loudspeakers.
//!
//! A device calls back on a thread of its own, with the times that it knows. The callback
//! must return within the device's period: the sending half only copies there, the receiving
//! half decodes and mixes.

mod clocked;
mod wav;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use glassline_voice::Format;
use thiserror::Error;

pub use clocked::{Signal, Tap, Timing, VirtualDeviceState, VirtualLoudspeaker, VirtualMicrophone};

/// A device that captures audio.
pub trait Microphone: Send {
    /// Format of the captured samples.
    fn format(&self) -> Format;

    /// Time from the capture of a period's last sample to the callback, if the callbacks do
    /// not report it.
    fn delay(&self) -> Duration {
        Duration::ZERO
    }

    /// Calls `deliver` with each period of interleaved samples, until the returned value is
    /// dropped.
    ///
    /// # Errors
    /// If the device cannot be opened.
    fn start(self: Box<Self>, deliver: Deliver) -> Result<Running, DeviceError>;
}

/// A device that plays audio.
pub trait Loudspeaker: Send {
    /// Format of the samples to be played.
    fn format(&self) -> Format;

    /// Calls `fill` for each period of interleaved samples, until the returned value is
    /// dropped.
    ///
    /// # Errors
    /// If the device cannot be opened.
    fn start(self: Box<Self>, fill: Fill) -> Result<Running, DeviceError>;
}

/// Callback that takes a period of a microphone.
pub type Deliver = Box<dyn FnMut(&[f32], CaptureTime) + Send>;

/// Callback that fills a period of a loudspeaker.
pub type Fill = Box<dyn FnMut(&mut [f32], PlayoutTime) + Send>;

/// Times of a microphone's period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureTime {
    /// When the device called back.
    pub called: Instant,
    /// When the period's last sample was at the microphone, as far as the device knows.
    pub last: Instant,
}

/// Times of a loudspeaker's period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlayoutTime {
    /// When the device called back.
    pub called: Instant,
    /// When the period's first sample will be played, as far as the device knows.
    pub plays: Instant,
}

/// The reason why a device cannot be used.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// A file cannot be read or written.
    #[error("{path}: {reason}", path = .path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The fault that it has.
        reason: String,
    },
    /// The device or its timing is unsuitable for a voice call.
    #[error("{0}")]
    Unsuited(String),
    /// The operating system refused the device.
    #[error("{device}: {reason}")]
    System {
        /// Name of the device.
        device: String,
        /// Text of the operating system.
        reason: String,
    },
}

/// A device that runs until this value is dropped.
#[derive(derive_more::Debug)]
#[debug("Running {{ .. }}")]
pub struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    failure: Arc<OnceLock<DeviceError>>,
}

impl Running {
    /// Runs `run` on a thread of its own with the name `name`, until the flag is set.
    ///
    /// # Errors
    /// If the system has no room for another thread.
    pub fn thread(
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

    /// The reason why the device stopped by itself; `None` while it runs.
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
