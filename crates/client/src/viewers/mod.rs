//! Many viewers in one process, to test with and to load servers with.
//!
//! ```text
//! Pool::join ─ job ─► signalling threads: route, offer, POST; or connect ─┐
//! Pool::leave ──────────────────────────► one thread ◄────────────────────┘ a line
//!                                         owns every viewer: receive, count,
//! Pool::progress ◄──── Vec<Progress> ──── reports, NACK, timers; leaves
//! ```
//!
//! One thread serves all viewers, so that a generator's processor time is known
//! and no lock is on the way of a packet. The sessions themselves (reports,
//! transport feedback, retransmission requests) are the core's.

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
mod job;
mod misconduct;
mod peer;
mod route;
mod rtsp;
mod signalling;
mod tally;
mod webrtc;

pub use endpoint::{Endpoint, RtspTransport};
pub use glassline_webrtc::Kinds;
pub use route::{local_addresses, wildcard};
pub use tally::Flow;

use crate::trust::Trust;
use command::{Command, Mailbox};

/// What viewers do with the media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Decrypt, put in order and take apart: whole frames are counted.
    #[default]
    Verify,
    /// Read the clear headers only: a frame is a marker bit. For load, where
    /// the processor time belongs to the server.
    Count,
}

/// How a viewer behaves once it plays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Conduct {
    /// As it should.
    #[default]
    Good,
    /// After two seconds it reads and sends nothing more, and keeps its sockets.
    Stall,
    /// It reads no faster than this (RTSP over TCP only).
    Slow {
        /// Of its connection.
        bytes_per_second: u64,
    },
    /// Its receive window is a few kilobytes from the start (RTSP over TCP only).
    TinyWindow,
    /// After a second or two its sockets close without a word.
    Vanish,
    /// It watches, and sends fifty pieces of nonsense a second.
    Garbage,
}

impl Conduct {
    /// Bytes of receive buffer that it asks for before it connects by TCP; of those
    /// that let data lie, so little that the server notices soon.
    const fn receive_buffer(self) -> Option<usize> {
        match self {
            Self::Good | Self::Vanish | Self::Garbage => None,
            Self::Stall | Self::Slow { .. } => Some(64 << 10),
            Self::TinyWindow => Some(4096),
        }
    }

    /// Whether another one comes for one that ended.
    const fn is_replaced(self) -> bool {
        matches!(self, Self::Stall | Self::Vanish | Self::Garbage)
    }
}

/// One viewer to be.
#[derive(Clone, Debug)]
pub struct Join {
    /// Where it joins.
    pub endpoint: Endpoint,
    /// What it does with the media.
    pub mode: Mode,
    /// How it behaves. One that stalls, vanishes or sends garbage is replaced when it
    /// ended.
    pub conduct: Conduct,
}

impl Join {
    /// A good viewer that verifies what it gets.
    pub const fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            mode: Mode::Verify,
            conduct: Conduct::Good,
        }
    }

    /// The same, only counting.
    #[must_use]
    pub const fn counting(mut self) -> Self {
        self.mode = Mode::Count;
        self
    }
}

/// When viewers look for datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// At once when one arrives: exact gaps, one wake-up per burst and viewer.
    #[default]
    Events,
    /// All of them this often: thousands of viewers are cheap. Gaps and delays stay
    /// exact, since the kernel notes when a datagram came. Viewers over TCP look at
    /// once all the same: there it is cheaper.
    Sweep(Duration),
}

/// How a pool behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// When to look for it.
    pub wait: Wait,
    /// What to ask for.
    pub kinds: Kinds,
    /// Goes out as `Authorization: Bearer`.
    pub token: Option<String>,
    /// Whose certificates are taken, for `https` and `rtsps` URLs.
    pub trust: Trust,
    /// Joins that are signalled at a time, 1..=64.
    pub signalling_threads: usize,
    /// Bytes of receive buffer per viewer to ask for.
    pub receive_buffer: usize,
    /// Let the kernel hand over datagrams of a burst as one: see
    /// [`glassline_net::Options::coalescing`].
    pub gro: bool,
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
        }
    }
}

impl Options {
    /// How the sockets that datagrams come to are opened.
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

/// Names a viewer of one pool; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub(crate) usize);

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "viewer {}", self.0)
    }
}

/// How far a viewer has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Its offer waits for a thread, or for the server's answer.
    #[default]
    Signalling,
    /// Checks and handshake are under way.
    Connecting,
    /// Keys are there, no media yet.
    Connected,
    /// Media arrives.
    Playing,
    /// Over; [`Viewer::failure`] says why.
    Ended,
}

/// One viewer at the time of the snapshot.
#[derive(Clone, Debug)]
pub struct Viewer {
    /// Which one.
    pub id: Id,
    /// Where it joined.
    pub endpoint: Endpoint,
    /// How far it has come.
    pub state: State,
    /// Why it ended.
    pub failure: Option<String>,
    /// From the start of the POST until the keys were there.
    pub connect_time: Option<Duration>,
    /// From the start of the POST until the first media packet.
    pub join_time: Option<Duration>,
    /// From the start of the POST until the first whole keyframe
    /// ([`Mode::Verify`] only).
    pub frame_time: Option<Duration>,
    /// Name of the SRTP profile.
    pub protection: Option<&'static str>,
    /// Packets of frames.
    pub video: Flow,
    /// Packets of audio.
    pub audio: Flow,
    /// Frames received: whole ones in [`Mode::Verify`], marker bits in
    /// [`Mode::Count`].
    pub frames: u64,
    /// Keyframes among them ([`Mode::Verify`] only).
    pub keyframes: u64,
    /// Frames dropped because a packet is missing or malformed
    /// ([`Mode::Verify`] only).
    pub damaged: u64,
    /// Times between frames; between packets of audio if there is no video.
    pub gaps: Histogram,
    /// Datagrams that the session dropped, by reason.
    pub dropped: Vec<(&'static str, u64)>,
    /// Datagrams that the kernel did not take.
    pub unsent: u64,
    /// Packets asked for again.
    pub nacked: u64,
}

/// One viewer at the time of the call, without what is costly to copy.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Which one.
    pub id: Id,
    /// What it does with the media.
    pub mode: Mode,
    /// How it behaves.
    pub conduct: Conduct,
    /// How far it has come.
    pub state: State,
    /// Why it ended.
    pub failure: Option<Arc<str>>,
    /// From the start of the request until keys were there, or until it played.
    pub connect_time: Option<Duration>,
    /// From the start of the request until the first media packet.
    pub join_time: Option<Duration>,
    /// Packets of frames.
    pub video: Flow,
    /// Packets of audio.
    pub audio: Flow,
    /// Frames received, as in [`Viewer::frames`].
    pub frames: u64,
    /// Frames dropped, as in [`Viewer::damaged`].
    pub damaged: u64,
    /// Packets asked for again.
    pub nacked: u64,
}

impl Viewer {
    /// Video and audio together.
    pub fn total(&self) -> Flow {
        self.video.and(self.audio)
    }
}

/// Viewers, served by a thread until dropped; then all leave.
#[derive(Debug)]
pub struct Pool {
    mailbox: Mailbox,
    thread: Option<JoinHandle<()>>,
}

impl Pool {
    /// Starts the threads of an empty pool.
    pub fn start(options: Options) -> io::Result<Self> {
        let (mailbox, thread) = engine::start(options)?;
        Ok(Self {
            mailbox,
            thread: Some(thread),
        })
    }

    /// Adds a viewer and returns at once; it appears in snapshots from now on.
    /// Whatever goes wrong later is in its [`Viewer::failure`].
    pub fn join(&self, join: Join) -> Id {
        let id = self.mailbox.next_id();
        self.mailbox.send(Command::Join { id, join });
        id
    }

    /// Lets a viewer say farewell and forgets it; unknown ones are ignored.
    pub fn leave(&self, id: Id) {
        self.mailbox.send(Command::Leave(id));
    }

    /// All viewers that have not left, in order of joining.
    pub fn snapshot(&self) -> Vec<Viewer> {
        self.ask(Command::Snapshot).unwrap_or_default()
    }

    /// How far all viewers that have not left are, in order of joining; cheap
    /// enough for every second with a thousand of them.
    pub fn progress(&self) -> Vec<Progress> {
        self.ask(Command::Progress).unwrap_or_default()
    }

    /// Times between the frames of good viewers since the last call, all together.
    pub fn take_gaps(&self) -> Histogram {
        self.ask(Command::TakeGaps).unwrap_or_default()
    }

    /// Times from capture to arrival of good viewers' frames since the last call,
    /// where the server tells when frames were captured: by the calendar time of
    /// its sender reports (RFC 3550 §6.4.1), if that can be this machine's.
    pub fn take_delays(&self) -> Histogram {
        self.ask(Command::TakeDelays).unwrap_or_default()
    }

    /// Bad viewers that ended and were replaced.
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
    /// All viewers leave; waits for their farewells, at most some seconds.
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
