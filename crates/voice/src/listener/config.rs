use std::time::Duration;

use thiserror::Error;

use crate::codec::Format;
use crate::jitter;
use crate::opus::Concealment;
use glassline_rtp::red;

/// Configuration of a [`Listener`](super::Listener).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Sample format that the loudspeaker takes.
    pub device: Format,
    /// Time from the device's callback until the first sample of the period is played.
    pub device_delay: Duration,
    /// Number of channels that are decoded and mixed, 1 or 2; the device's number may differ.
    pub channels: usize,
    /// Configuration of each stream's jitter buffer.
    pub jitter: jitter::Config,
    /// How losses are concealed.
    pub concealment: Concealment,
    /// Most streams that are mixed; the loudest are chosen.
    pub mixed_max: usize,
    /// Most streams that are kept. The next one replaces a stream that has been silent for
    /// five seconds, or is refused for now: its level is unknown until it is decoded.
    pub streams_max: usize,
}

impl Config {
    /// The default configuration for a loudspeaker of format `device`.
    pub fn new(device: Format) -> Self {
        Self {
            device,
            device_delay: Duration::ZERO,
            channels: 1,
            jitter: jitter::Config::default(),
            concealment: Concealment::default(),
            mixed_max: 3,
            streams_max: 16,
        }
    }
}

/// The reason why a packet was not taken. The caller need not react to any of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refused {
    /// The stream's jitter buffer refused the packet, and counts it.
    #[error(transparent)]
    Packet(#[from] jitter::Refused),
    /// The most streams that may be kept are kept already, and none is silent.
    #[error("too many streams are played already")]
    Streams,
    /// The payload is no RED as RFC 2198 defines it.
    #[error(transparent)]
    Red(#[from] red::InvalidRed),
}
