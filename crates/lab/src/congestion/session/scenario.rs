//! Scenario of an upload: network, competing flows, and source.

use std::time::Duration;

use glassline_congestion::Algorithm;
use glassline_media::Bitrate;
use glassline_sim::Conditions;
use glassline_sim::Scenario as Drawn;

/// Bytes of the IPv4 and UDP headers of a datagram, which take their share of a link.
pub const HEADER_BYTES: usize = 28;

/// Scenario of an upload.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Conditions from the publisher to the server; all flows share them. A datagram's size on
    /// the link includes [`HEADER_BYTES`].
    pub up: Conditions,
    /// Conditions from the server to the publisher.
    pub down: Conditions,
    /// Bulk flows that share both directions.
    pub competitors: Vec<Competitor>,
    /// Source of the uploaded media.
    pub source: Source,
    /// Largest QUIC packet in a datagram, in bytes; at least 1200. The publisher does not search
    /// for a larger one.
    pub datagram_bytes: u16,
    /// Changes of the network during the session, in order of time.
    pub changes: Vec<(Duration, Change)>,
}

impl Default for Scenario {
    /// A scenario with a perfect network.
    fn default() -> Self {
        Self {
            up: Conditions::default(),
            down: Conditions::default(),
            competitors: Vec::new(),
            source: Source::default(),
            datagram_bytes: 1200,
            changes: Vec::new(),
        }
    }
}

impl From<&Drawn> for Scenario {
    /// The scenario of a session of a population. CUBIC controls the competing flows.
    fn from(drawn: &Drawn) -> Self {
        let application = &drawn.application;
        let competitors = drawn.competitors.iter();
        Self {
            up: drawn.uplink.clone(),
            down: drawn.downlink.clone(),
            competitors: competitors
                .map(|competitor| Competitor {
                    algorithm: Algorithm::Cubic,
                    start: competitor.start,
                    end: competitor.end,
                })
                .collect(),
            source: Source {
                frames_per_second: application.frames_per_second,
                group: application.keyframe_interval,
                keyframe_weight: application.keyframe_weight,
                audio: Bitrate::from_bps(0),
                bitrate_min: application.bitrate_min,
                bitrate_max: application.bitrate_max,
                bitrate_start: application.bitrate_start,
                knee: application.abr_knee,
                processing: application.processing,
            },
            ..Self::default()
        }
    }
}

/// A competing flow that sends as much as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Competitor {
    /// Congestion control of the flow.
    pub algorithm: Algorithm,
    /// Time at which the flow connects.
    pub start: Duration,
    /// Time at which the flow stops writing.
    pub end: Duration,
}

impl Competitor {
    /// Time that the flow sends in a session of `duration`.
    pub(in crate::congestion) fn time_within(&self, duration: Duration) -> Duration {
        self.end.min(duration).saturating_sub(self.start)
    }
}

/// A change of the network.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Change {
    /// The direction from publisher to server has these conditions from now on.
    Up(Conditions),
    /// The direction from server to publisher has these conditions from now on.
    Down(Conditions),
    /// Datagrams with more bytes of QUIC than this are dropped in both directions.
    DatagramLimit(usize),
    /// The publisher's datagrams come from another address, as behind a NAT that lost its state.
    /// Datagrams in flight to the old address are lost.
    ClientAddress,
}

/// A live encoder with the application around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Source {
    /// Frame rate of the video, in frames per second.
    pub frames_per_second: f64,
    /// Time from keyframe to keyframe.
    pub group: Duration,
    /// Size of a keyframe divided by the mean size of a frame.
    pub keyframe_weight: f64,
    /// Bitrate of audio beside the frames; zero for none.
    pub audio: Bitrate,
    /// Lowest bitrate of the encoder.
    pub bitrate_min: Bitrate,
    /// Highest bitrate of the encoder.
    pub bitrate_max: Bitrate,
    /// Bitrate of the encoder at the start.
    pub bitrate_start: Bitrate,
    /// Unacknowledged media that the encoder accepts of a good path, in seconds of media:
    /// [`Config::knee`](glassline_congestion::adaptation::Config::knee).
    pub knee: Duration,
    /// Constant time that capture, encoding and the server add to every ping's round trip.
    pub processing: Duration,
}

impl Default for Source {
    /// The source of the study's application: 30 frames per second, a keyframe every two seconds
    /// with the size of five frames, 0.5 to 3 Mbit/s, no audio of its own.
    fn default() -> Self {
        Self {
            frames_per_second: 30.0,
            group: Duration::from_secs(2),
            keyframe_weight: 5.0,
            audio: Bitrate::from_bps(0),
            bitrate_min: Bitrate::from_bps(500_000),
            bitrate_max: Bitrate::from_bps(3_000_000),
            bitrate_start: Bitrate::from_bps(1_000_000),
            knee: Duration::from_secs(3),
            processing: Duration::ZERO,
        }
    }
}

/// Order in which media is sent, and whether late media is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// All media in one stream, nothing is dropped, as in the study's application.
    InOrder,
    /// A stream for each group of pictures, the newest first, and audio before all; late groups
    /// are reset.
    Groups(Groups),
}

/// Conditions on which groups are reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// Time after a group's last frame at which the group is reset if it has not arrived.
    pub late: Duration,
    /// Most bytes that may wait or be in flight. Beyond it the oldest group is reset, and the
    /// rest of the newest if that is the only one.
    pub queue_bytes: u64,
}

impl Default for Groups {
    /// Two seconds, the duration of one more group; 4 MiB, which are ten seconds at 3 Mbit/s.
    fn default() -> Self {
        Self {
            late: Duration::from_secs(2),
            queue_bytes: 4 << 20,
        }
    }
}
