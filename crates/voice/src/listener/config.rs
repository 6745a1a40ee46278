use std::time::Duration;

use thiserror::Error;

use crate::codec::Format;
use crate::jitter;
use crate::opus::Concealment;
use glassline_rtp::red;

/// How to listen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// What the device takes.
    pub device: Format,
    /// How long after the device calls the first sample that it is given is heard.
    pub device_delay: Duration,
    /// Channels that are decoded and mixed, 1 or 2; the device's may differ.
    pub channels: usize,
    /// Of each stream.
    pub jitter: jitter::Config,
    /// What losses become.
    pub concealment: Concealment,
    /// So many of the loudest streams are heard.
    pub mixed_max: usize,
    /// So many streams are kept. The next takes the place of one that has said nothing
    /// for five seconds, or is refused for now: nobody knows how loud it is.
    pub streams_max: usize,
}

impl Config {
    /// The usual for `device`.
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

/// Why a packet was not taken. None of these needs an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refused {
    /// By its stream's jitter buffer, which counts it.
    #[error(transparent)]
    Packet(#[from] jitter::Refused),
    /// As many streams as there may be are heard already.
    #[error("too many streams are heard already")]
    Streams,
    /// It is not what RFC 2198 calls RED.
    #[error(transparent)]
    Red(#[from] red::InvalidRed),
}
