//! Ingest: publishes files, the built-in clip, cameras and publishers into the hub.
//!
//! ```text
//! SourceSpec ─► spawn ─┬► file: a thread, paced by due times ─┐
//!                      ├► pipe: a thread, paced by its writer ┤
//!                      ├► command: a thread, and a program ───┤
//!                      ├► camera: a task, paced by the camera ┴► hub::Publisher::push
//!                      └► stand_in: a task, while the source is away ─► hub::Stream::stand_in
//! ```
//!
//! Each source runs on its own. A source that fails, or panics, is tried again with growing pauses,
//! and its stream shows why it is down. Media is packetized once, here, into units whose accounted delay
//! begins at their origin: a frame's due time in a file, or the arrival of its first packet from a
//! network.

// This crate is outside the sans-IO cores: it reads the clock for them.
#![expect(
    clippy::disallowed_methods,
    reason = "the shell reads the clock and draws chance for the cores"
)]

#[cfg(any(test, fuzzing))]
mod assembler;
mod backoff;
mod camera;
mod command;
mod feedback;
mod file;
mod lack;
mod layer_pauses;
mod layer_streams;
#[cfg(any(test, fuzzing))]
pub mod fuzzing {
    //! Drivers of fuzz targets that need what no caller of this crate may do.

    pub use crate::assembler::fuzzing::assembler;
    pub use crate::rtsp::fuzzing::record;
    pub use crate::whip::fuzzing::whip;
}
pub mod library;
mod live_publisher;
pub mod moq;
mod on_demand;
pub mod oversized;
mod pace;
mod pipe;
mod publishing;
mod pulled;
mod reach;
pub mod rtsp;
mod running;
mod sendable;
mod shared_source;
mod simulcast;
mod source_layers;
mod source_parts;
mod spec;
pub mod spelling;
mod stand_in;
pub mod stream_names;
mod time_order;
mod tracks;
mod trial;
mod unit_packetizer;
mod units;
mod voice;
pub mod whip;

use glassline_hub::{CreateError, StreamName};
use glassline_runtime::Panicked;

pub use layer_streams::LayerStreams;

pub use camera::{CameraConnection, Failure as CameraFailure, Purpose};
pub use pace::{Pace, Rate};
pub use publishing::{Ended, NameClaim};
pub use tracks::with_sets;
pub use trial::{TrialError, Tried, try_source};
pub use unit_packetizer::{UnitPacketizer, UnitTiming};
pub use units::Units;

pub use running::Sources;
pub use running::{ChangeError, Prepared};
pub use running::{Permit, spawn};
pub use source_parts::Surroundings;

pub use reach::{AddressLimits, Reach};
pub use spec::{
    Away, CameraSource, CommandSource, Device, FileSource, Input, NoOnvifService, OnvifService,
    PlaceholderKind, Program, PublisherSource, SourceSpec, SpecError, StreamPolicy, SubStream,
    Transport, UdpPorts, UdpPortsError,
};
pub use stand_in::ImageError;
pub use voice::{Voice, VoiceCounters};
pub use whip::{Arrivals, ArrivedLine, WhipCounters};

/// The reason why a source cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A file cannot be played.
    #[error("source '{name}': {source}")]
    File {
        /// Name of the stream.
        name: StreamName,
        /// The file, the byte, and what is wrong there.
        source: Box<glassline_demux::Error>,
    },
    /// The text names a file of no known extension, and may have been meant as something else.
    #[error(
        "source '{name}': '{}' has no extension of a media file, and is no other source: write {}",
        path.display(),
        spec::KINDS
    )]
    Kind {
        /// Name of the stream.
        name: StreamName,
        /// Path that the source has been taken for.
        path: std::path::PathBuf,
    },
    /// A file cannot be played because of a mistake of the server.
    #[error(
        "source '{name}': opening the file: {source}; leave the source out until the mistake is fixed"
    )]
    Panicked {
        /// Name of the stream.
        name: StreamName,
        /// Says that the place of the panic is in the log.
        source: Panicked,
    },
    /// Two sources have the same stream name.
    #[error("two sources are called '{name}': give each stream one source")]
    Twice {
        /// Name of the stream.
        name: StreamName,
    },
    /// The image of a placeholder cannot be used.
    #[error("source '{name}': placeholder: {source}")]
    Image {
        /// Name of the stream.
        name: StreamName,
        /// The file, and what is wrong with it.
        source: Box<ImageError>,
    },
    /// A stream would stand in for itself.
    #[error(
        "source '{name}': its fallback leads back to it; name a stream that does not need '{name}'"
    )]
    Circle {
        /// Name of the stream.
        name: StreamName,
    },
    /// The hub refused the stream.
    #[error("source '{name}': {source} (limits.streams)")]
    Create {
        /// Name of the stream.
        name: StreamName,
        /// Reason why the hub refused the stream.
        source: CreateError,
    },
    /// The system has no thread to give.
    #[error("source '{name}': cannot start a thread: {source}")]
    Thread {
        /// Name of the stream.
        name: StreamName,
        /// The error that the system returned.
        source: std::io::Error,
    },
}

#[cfg(test)]
mod tests;
