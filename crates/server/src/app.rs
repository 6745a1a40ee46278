//! The parts of a running server, as its adapters reach them.
//!
//! The assembly fills this in; nothing here is an adapter's own.

use std::sync::Arc;

use glassline_hub::Hub;

use crate::auth::Users;
use crate::config::Config;
use crate::ingest::FrameCodes;
use crate::ingest::library::Library;
use crate::latency::Board;
use crate::rooms::Rooms;
use crate::runtime::Clock;
use crate::sessions::Negotiator;
use crate::{quic, rtsp};

/// The parts of one running server.
#[derive(Clone, Debug)]
pub(crate) struct App {
    pub(crate) config: Arc<Config>,
    pub(crate) users: Arc<Users>,
    /// Of voice calls.
    pub(crate) rooms: Arc<Rooms>,
    /// Files that are streams when they are asked for.
    pub(crate) library: Option<Arc<Library>>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) sessions: Arc<Negotiator>,
    /// `None` where RTSP is off.
    pub(crate) rtsp: Option<Arc<rtsp::Shared>>,
    /// `None` where QUIC is off.
    pub(crate) quic: Option<Arc<quic::Shared>>,
    pub(crate) board: Arc<Board>,
    pub(crate) codes: FrameCodes,
    pub(crate) clock: Clock,
}
