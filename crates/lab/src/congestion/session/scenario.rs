//! What an upload runs over.

use std::time::Duration;

use glassline_congestion::Algorithm;
use glassline_media::Bitrate;
use glassline_sim::Conditions;
use glassline_sim::Scenario as Drawn;

/// IPv4's and UDP's headers: they take their share of a link.
pub const HEADER_BYTES: usize = 28;

/// What an upload runs over: the network, who else is there, and the camera.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// From the publisher to the server; all flows share it. Its bytes count
    /// [`HEADER_BYTES`] of each datagram.
    pub up: Conditions,
    /// From the server to the publisher.
    pub down: Conditions,
    /// Bulk flows that share both ways.
    pub competitors: Vec<Competitor>,
    /// What is uploaded.
    pub source: Source,
    /// Most bytes of QUIC in a datagram; at least 1200. The publisher does not search
    /// for more.
    pub datagram_bytes: u16,
    /// What happens to the network on the way, in order of time.
    pub changes: Vec<(Duration, Change)>,
}

impl Default for Scenario {
    /// A perfect network.
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
    /// A session of a population; who competes is controlled by CUBIC.
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

/// A flow that sends as much as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Competitor {
    /// What controls it.
    pub algorithm: Algorithm,
    /// When it connects.
    pub start: Duration,
    /// When it writes no more.
    pub end: Duration,
}

impl Competitor {
    /// How long it sends in a session of `duration`.
    pub(in crate::congestion) fn time_within(&self, duration: Duration) -> Duration {
        self.end.min(duration).saturating_sub(self.start)
    }
}

/// What happens to a network.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Change {
    /// The way up is like this from now on.
    Up(Conditions),
    /// The way down is.
    Down(Conditions),
    /// Datagrams with more bytes of QUIC than this vanish, both ways.
    DatagramLimit(usize),
    /// The publisher's datagrams come from another address, as behind a NAT that forgot.
    /// What is on its way down to the old one is lost.
    ClientAddress,
}

/// A live encoder, and the application around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Source {
    /// Frames a second.
    pub frames_per_second: f64,
    /// From keyframe to keyframe.
    pub group: Duration,
    /// Size of a keyframe, in mean frames.
    pub keyframe_weight: f64,
    /// Of audio, beside the frames; zero is none.
    pub audio: Bitrate,
    /// The encoder makes no less.
    pub bitrate_min: Bitrate,
    /// Nor more.
    pub bitrate_max: Bitrate,
    /// Where it starts.
    pub bitrate_start: Bitrate,
    /// See [`Config::knee`](glassline_congestion::adaptation::Config::knee).
    pub knee: Duration,
    /// What capturing, encoding and the server add to every ping's round trip.
    pub processing: Duration,
}

impl Default for Source {
    /// As in the sketch of the study's application: 30 frames a second, keyframes every
    /// two seconds of five frames' size, 0.5 to 3 Mbit/s, no audio of its own.
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

/// In what order media is sent, and whether all of it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// In one stream, nothing is dropped: as the study's application did.
    InOrder,
    /// A stream for each group of pictures, the newest first, audio before all; what is
    /// late is reset.
    Groups(Groups),
}

/// When groups are reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// So long after its last frame, if it has not arrived by then.
    pub late: Duration,
    /// Most bytes that may wait or be on their way; beyond it the oldest group goes, and
    /// if that is the only one, the rest of it too.
    pub queue_bytes: u64,
}

impl Default for Groups {
    /// Two seconds, one more group; 4 MiB, ten seconds at 3 Mbit/s.
    fn default() -> Self {
        Self {
            late: Duration::from_secs(2),
            queue_bytes: 4 << 20,
        }
    }
}
