//! Many viewers in one process, for tests and for load on servers.
//!
//! ```text
//! Pool::join ─ job ─► signalling threads: route, offer, POST; or connect ─┐
//! Pool::leave ──────────────────────────► one thread ◄────────────────────┘ an answered viewer
//!                                         owns every viewer: receive, count,
//! Pool::progress ◄──── Vec<Progress> ──── reports, NACK, timers; leaves
//! ```
//!
//! Viewers of HLS are tasks on two threads of their own ([`hls`]), and appear in progress only.
//!
//! One thread serves all viewers, so that a generator's processor time is known and no lock
//! delays a packet. The sessions themselves (reports, transport feedback, retransmission
//! requests) are `glassline-webrtc`'s.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use glassline_media::Histogram;

mod capture;
mod command;
mod counts;
mod endpoint;
mod engine;
mod flow;
mod frame_reports;
mod hls;
mod job;
mod misconduct;
mod peer;
mod route;
mod rtsp;
mod signalling;
mod webrtc;

pub use endpoint::{Endpoint, IceTransport, RtspTransport};
pub use flow::Flow;
pub use glassline_webrtc::Kinds;
pub use hls::HlsFigures;
pub use route::{bind_for, local_addresses, local_addresses_of_both_versions, wildcard};
#[cfg(test)]
pub(crate) use rtsp::test_server as rtsp_test_server;
pub(crate) use rtsp::{
    Connection as RtspConnection, ControlConnection, Ports, connect as connect_rtsp,
};

use command::{Command, Mailbox};
use glassline_trust::Trust;

/// The use that viewers make of the media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Decrypt, reorder and depacketize: whole frames are counted.
    #[default]
    Verify,
    /// Read the clear headers only; a marker bit counts as a frame. For load tests, where
    /// processor time belongs to the server.
    Count,
}

/// How a viewer behaves once it plays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Conduct {
    /// The viewer behaves correctly.
    #[default]
    Good,
    /// After two seconds the viewer reads and sends nothing more, and keeps its sockets open.
    Stall,
    /// The viewer reads no faster than this rate (RTSP over TCP only).
    Slow {
        /// Reading rate of its connection, in bytes per second.
        bytes_per_second: u64,
    },
    /// The viewer's receive window is a few kilobytes from the start (RTSP over TCP only).
    TinyWindow,
    /// After one to two seconds the viewer's sockets close without a farewell.
    Vanish,
    /// The viewer plays, and sends fifty malformed datagrams or requests a second.
    Garbage,
}

impl Conduct {
    /// Bytes of TCP receive buffer to request before connecting; small for viewers that stop
    /// reading, so that the server notices soon.
    const fn receive_buffer(self) -> Option<usize> {
        match self {
            Self::Good | Self::Vanish | Self::Garbage => None,
            Self::Stall | Self::Slow { .. } => Some(64 << 10),
            Self::TinyWindow => Some(4096),
        }
    }

    /// Whether another viewer joins when this one has ended.
    const fn is_replaced(self) -> bool {
        matches!(self, Self::Stall | Self::Vanish | Self::Garbage)
    }
}

/// A viewer that is to join.
#[derive(Clone, Debug)]
pub struct Join {
    /// Where the viewer joins.
    pub endpoint: Endpoint,
    /// The use that the viewer makes of the media.
    pub mode: Mode,
    /// How the viewer behaves. One that stalls, vanishes or sends garbage is replaced when it
    /// has ended.
    pub conduct: Conduct,
}

impl Join {
    /// A correct viewer that verifies the media.
    pub const fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            mode: Mode::Verify,
            conduct: Conduct::Good,
        }
    }

    /// Changes the mode to [`Mode::Count`].
    #[must_use]
    pub const fn counting(mut self) -> Self {
        self.mode = Mode::Count;
        self
    }
}

/// How the pool waits for datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Each viewer is read when a datagram arrives: exact gaps, one wake-up per burst and
    /// viewer.
    #[default]
    Events,
    /// All viewers are read this often, which makes thousands of viewers cheap. Gaps and
    /// delays stay exact, because the kernel stamps datagrams. Viewers over TCP are still
    /// read at once, which is cheaper for them.
    Sweep(Duration),
}

/// Options of a [`Pool`].
#[derive(Clone, Debug)]
pub struct Options {
    /// How the pool waits for datagrams.
    pub wait: Wait,
    /// Kinds of media to ask for.
    pub kinds: Kinds,
    /// Bearer token, sent as `Authorization: Bearer`.
    pub token: Option<String>,
    /// Which certificates are accepted for `https` and `rtsps` URLs.
    pub trust: Trust,
    /// Number of joins that are signalled at the same time, 1..=64.
    pub signalling_threads: usize,
    /// UDP receive buffer to request for each viewer, in bytes.
    pub receive_buffer: usize,
    /// Let the kernel deliver a burst of datagrams as one: see
    /// [`glassline_net::Options::coalescing`].
    pub gro: bool,
    /// Whether viewers over WHEP report their frames about once a second, as the player page does.
    /// A viewer whose report is refused ends.
    pub reports: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            wait: Wait::default(),
            kinds: Kinds::ALL,
            token: None,
            trust: Trust::System,
            signalling_threads: 8,
            // 100 ms of 20 Mbit/s in the kernel's accounting.
            receive_buffer: 512 * 1024,
            gro: false,
            reports: false,
        }
    }
}

impl Options {
    /// Options of the sockets that receive datagrams.
    fn sockets(&self) -> glassline_net::Options {
        glassline_net::Options {
            receive_buffer: Some(self.receive_buffer),
            segmentation: false,
            receive_timestamps: matches!(self.wait, Wait::Sweep(_)),
            coalescing: self.gro,
            ..glassline_net::Options::default()
        }
    }
}

/// Identifies a viewer of one pool; ids are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
#[display("viewer {_0}")]
pub struct Id(pub(crate) usize);

/// How far a viewer has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// The viewer's offer waits for a signalling thread, or for the server's answer.
    #[default]
    Signalling,
    /// Connectivity checks and the handshake are under way.
    Connecting,
    /// Keys are established; no media has arrived.
    Connected,
    /// Media arrives at the viewer.
    Playing,
    /// The viewer has ended; [`Viewer::failure`] says why.
    Ended,
}

/// A viewer at the time of the snapshot.
#[derive(Clone, Debug)]
pub struct Viewer {
    /// Identifier of the viewer.
    pub id: Id,
    /// Where the viewer joined.
    pub endpoint: Endpoint,
    /// How far the viewer has come.
    pub state: State,
    /// The reason why the viewer ended; `None` while it runs.
    pub failure: Option<String>,
    /// Time from the start of the POST until keys were established.
    pub connect_time: Option<Duration>,
    /// Time from the start of the POST until the first media packet.
    pub join_time: Option<Duration>,
    /// Time from the start of the POST until the first whole keyframe ([`Mode::Verify`]
    /// only).
    pub frame_time: Option<Duration>,
    /// Name of the SRTP profile.
    pub protection: Option<&'static str>,
    /// Counts of video packets.
    pub video: Flow,
    /// Counts of audio packets.
    pub audio: Flow,
    /// Frames received: whole ones in [`Mode::Verify`], marker bits in
    /// [`Mode::Count`].
    pub frames: u64,
    /// Keyframes among them ([`Mode::Verify`] only).
    pub keyframes: u64,
    /// Frames dropped because a packet is missing or malformed
    /// ([`Mode::Verify`] only).
    pub damaged: u64,
    /// Times between frames; times between audio packets if there is no video.
    pub gaps: Histogram,
    /// Datagrams that the session dropped, counted by reason.
    pub dropped: Vec<(&'static str, u64)>,
    /// Datagrams that the kernel refused to send.
    pub unsent: u64,
    /// Packets requested again (NACK).
    pub nacked: u64,
}

/// A viewer at the time of the call, without the parts that are costly to copy.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Identifier of the viewer.
    pub id: Id,
    /// The use that the viewer makes of the media.
    pub mode: Mode,
    /// How the viewer behaves.
    pub conduct: Conduct,
    /// How far the viewer has come.
    pub state: State,
    /// The reason why the viewer ended; `None` while it runs.
    pub failure: Option<Arc<str>>,
    /// Time from the start of the request until keys were established, or, over RTSP, until
    /// the stream played.
    pub connect_time: Option<Duration>,
    /// Time from the start of the request until the first media packet.
    pub join_time: Option<Duration>,
    /// Counts of video packets.
    pub video: Flow,
    /// Counts of audio packets.
    pub audio: Flow,
    /// Frames received, as in [`Viewer::frames`].
    pub frames: u64,
    /// Frames dropped, as in [`Viewer::damaged`].
    pub damaged: u64,
    /// Packets requested again (NACK).
    pub nacked: u64,
    /// Figures of viewers of HLS, whose packets are parts and segments.
    pub hls: Option<HlsFigures>,
}

impl Viewer {
    /// Counts of video and audio together.
    pub fn total(&self) -> Flow {
        self.video.and(self.audio)
    }
}

/// A pool of viewers, served by one thread, and those of HLS by two more. When the pool is dropped, all viewers leave.
#[derive(Debug)]
pub struct Pool {
    mailbox: Mailbox,
    thread: Option<JoinHandle<()>>,
    hls: hls::Viewers,
}

impl Pool {
    /// Starts the threads of an empty pool.
    ///
    /// # Errors
    /// If the system refuses a thread, a poll or a certificate.
    pub fn start(options: Options) -> io::Result<Self> {
        let hls = hls::Viewers::new(&options);
        let (mailbox, thread) = engine::start(options)?;
        Ok(Self {
            mailbox,
            thread: Some(thread),
            hls,
        })
    }

    /// Adds a viewer and returns at once; the viewer appears in snapshots from now on. Later
    /// failures are in its [`Viewer::failure`].
    pub fn join(&self, join: Join) -> Id {
        let id = self.mailbox.next_id();
        match join.endpoint {
            Endpoint::Hls(url) => self.hls.join(id, url),
            _ => self.mailbox.send(Command::Join { id, join }),
        }
        id
    }

    /// Lets a viewer leave with a farewell and forgets it; an unknown id is ignored.
    pub fn leave(&self, id: Id) {
        self.hls.leave(id);
        self.mailbox.send(Command::Leave(id));
    }

    /// All viewers that have not left, in order of joining, without those of HLS.
    pub fn snapshot(&self) -> Vec<Viewer> {
        self.ask(Command::Snapshot).unwrap_or_default()
    }

    /// Progress of all viewers that have not left, in order of joining; cheap enough to call
    /// every second with a thousand viewers.
    pub fn progress(&self) -> Vec<Progress> {
        let mut all = self.ask(Command::Progress).unwrap_or_default();
        all.extend(self.hls.progress());
        all.sort_by_key(|viewer| viewer.id);
        all
    }

    /// Times between the frames of all correct viewers since the last call.
    pub fn take_gaps(&self) -> Histogram {
        let mut gaps = self.ask(Command::TakeGaps).unwrap_or_default();
        self.hls.take_gaps(&mut gaps);
        gaps
    }

    /// Times from capture to arrival of correct viewers' frames since the last call. They are
    /// known where the server's sender reports (RFC 3550 §6.4.1) give capture times on a
    /// calendar that can be this machine's.
    pub fn take_delays(&self) -> Histogram {
        let mut delays = self.ask(Command::TakeDelays).unwrap_or_default();
        self.hls.take_delays(&mut delays);
        delays
    }

    /// Number of misbehaving viewers that ended and were replaced.
    pub fn replaced(&self) -> u64 {
        self.ask(Command::Replaced).unwrap_or_default()
    }

    fn ask<T>(&self, question: impl FnOnce(mpsc::Sender<T>) -> Command) -> Option<T> {
        let (reply, receive) = mpsc::channel();
        self.mailbox.send(question(reply));
        receive.recv().ok()
    }
}

impl Drop for Pool {
    /// All viewers leave; waits for their farewells, at most a few seconds.
    fn drop(&mut self) {
        self.mailbox.send(Command::Stop);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of a viewer pool has panicked");
        }
    }
}

#[cfg(test)]
mod test_server;
#[cfg(test)]
mod test_waiting;
#[cfg(test)]
mod tests;
