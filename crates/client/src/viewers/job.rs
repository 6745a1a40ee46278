//! Jobs of the signalling threads, and their results.

use std::time::Instant;

use glassline_webrtc::Session;
use url::Url;

use super::frame_reports::{FrameReport, ServerClock};
use super::webrtc::MediaSocket;
use super::{Id, Join, RtspTransport, rtsp};
use crate::whep;

/// Work that may block: name resolution, HTTP, connecting.
pub(super) enum Job {
    Join { id: Id, join: Join },
    Leave { location: Url },
    ControlTeardown(Box<rtsp::ControlTeardown>),
    Report { id: Id, report: FrameReport },
}

/// A viewer that the server has accepted.
pub(super) enum Dialled {
    WebRtc(Box<Answered>),
    Rtsp {
        connection: rtsp::Connection,
        url: Url,
        transport: RtspTransport,
    },
}

/// A WebRTC viewer whose offer was answered.
pub(super) struct Answered {
    pub(super) url: Url,
    pub(super) socket: MediaSocket,
    pub(super) session: Session,
    /// When the POST began.
    pub(super) started: Instant,
    pub(super) answer: whep::Answer,
    /// Clock of the server, for viewers that report their frames.
    pub(super) clock: Option<ServerClock>,
}
