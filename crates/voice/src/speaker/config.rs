//! Configuration of a speaker.

use std::time::Duration;

use thiserror::Error;

use crate::codec::Format;
use crate::{opus, preprocess};
/// Configuration of a [`Speaker`](super::Speaker).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Sample format that the microphone delivers.
    pub device: Format,
    /// Time from the capture of a period's last sample to the device's callback; at most 1 s
    /// counts.
    pub device_delay: Duration,
    /// Processing before encoding: echo, noise, gain.
    pub preprocess: preprocess::Config,
    /// The parts of that processing which the device already does.
    pub hardware: preprocess::Hardware,
    /// Configuration of the Opus encoder.
    pub opus: opus::Config,
    /// Redundancy: packets repeat earlier ones (RFC 2198). `None` sends plain Opus.
    pub red: Option<Red>,
    /// First RTP timestamp. It should be random (RFC 3550 §5.1), so the caller draws it.
    pub timestamp_first: u32,
}

/// How packets repeat earlier ones as RED (RFC 2198).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Red {
    /// Payload type of the Opus blocks inside the RED payload.
    pub payload_type: u8,
    /// Number of earlier packets that each packet repeats, 1 to 4.
    pub copies: usize,
}

impl Config {
    /// The default configuration for a microphone of format `device`.
    pub fn new(device: Format) -> Self {
        Self {
            device,
            device_delay: Duration::ZERO,
            preprocess: preprocess::Config::default(),
            hardware: preprocess::Hardware::default(),
            opus: opus::Config::default(),
            red: None,
            timestamp_first: 0,
        }
    }
}

/// The reason why a speaker cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// libopus offers no encoder for this configuration.
    #[error(transparent)]
    Opus(#[from] opus::Error),
    /// The number of repeated packets is not 1 to 4.
    #[error("RED repeats one to four packets, not {0}")]
    Copies(usize),
}
