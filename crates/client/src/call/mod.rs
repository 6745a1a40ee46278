//! One voice call: a session, its socket, a microphone and a loudspeaker.
//!
//! ```text
//! microphone's thread ─ periods ─► speaker's thread: Speaker ─ seal, sendto ─► socket
//!                                     ▲ what is played, for AEC      ▲
//! loudspeaker's thread: Listener ─────┘            the session, behind a lock
//!    ▲ opened packets                                 ▼
//!    └──────────────── network's thread: receive, open, timers, RTCP ◄─ socket
//! ```
//!
//! A packet is sealed and sent by the thread that encoded it: no pacer and no other
//! thread is on its way, only the session's lock, which nobody holds for longer than a
//! datagram takes. Between threads are bounded queues; what does not fit is dropped and
//! counted. Each end keeps its own stamps ([`Call::drain`]), and has the far end's, too, if
//! it asks for them ([`Stamps`]); joining those of both ends is the laboratory's.
//!
//! Signalling is the caller's: [`Dialling`] gives an offer, [`answer`] takes one.

mod device;
pub mod dial;
mod leg;
mod line;
mod listening;
mod marker;
mod network;
pub mod room;
pub mod serve;
mod signal;
mod speaking;
mod stamping;
mod talk;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use glassline_net::BindError;
use glassline_sctp as sctp;
use glassline_webrtc::{CloseReason, DataConfig, OpusOptions, Redundancy};
use thiserror::Error;

pub use device::{
    Began, CaptureTime, Deliver, DeviceError, Fill, Loudspeaker, Microphone, PlayoutTime, Running,
    Signal, Tap, Timing, VirtualLoudspeaker, VirtualMicrophone, devices,
};
#[cfg(feature = "devices")]
pub use device::{SystemLoudspeaker, SystemMicrophone};
pub use dial::{Dial, DialError, Dialled, dial};
pub use glassline_voice::far;
pub use glassline_voice::{
    Again, Bitrate, CameAgain, Format, Heard, Record, Spoken, Ssrc, jitter, listener, opus,
    preprocess, speaker,
};
pub use leg::{Ear, Leg};
pub use line::Line;
pub use marker::Marks;
pub use room::{Change, JoinError, Noted, Room};
pub use serve::{Incoming, Server};
pub use signal::{AnswerError, Dialling, answer};
use stamping::Drains;
pub use stamping::Records;

/// How to call.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// What is done to what the microphone gives.
    pub preprocess: preprocess::Config,
    /// How to encode; FEC and DTX are used where the peer wants them, too.
    pub opus: opus::Config,
    /// Packets repeat the one before (RFC 2198), where the peer takes that.
    pub redundancy: bool,
    /// How long voices wait.
    pub jitter: jitter::Config,
    /// Send silence from the beginning.
    pub muted: bool,
    /// What the ends tell each other of their stages.
    pub stamps: Stamps,
}

/// What the ends of a call tell each other of their stages, over data channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stamps {
    /// Nothing: no data channels.
    Off,
    /// Ours, if the other end asks.
    #[default]
    Tell,
    /// Ours if it asks, and we ask for its own.
    Ask,
}

impl Config {
    /// What is said of it in SDP.
    pub(crate) fn options(&self) -> OpusOptions {
        OpusOptions {
            fec: self.opus.fec,
            dtx: self.opus.dtx,
            redundancy: match self.redundancy {
                true => Redundancy::Always,
                false => Redundancy::Never,
            },
            stereo: false,
        }
    }

    /// Data channels for stamps, small: they must not cost what voices need.
    pub(crate) fn data(&self) -> Option<DataConfig> {
        let association = sctp::Config {
            max_message_size: DATA_MESSAGE_BYTES_MAX,
            receive_window_min: DATA_BUFFER_BYTES as u32,
            receive_window_max: DATA_BUFFER_BYTES as u32,
            send_buffer_max: DATA_BUFFER_BYTES,
            streams: 16,
            ..sctp::Config::default()
        };
        let limits = sctp::channel::Limits {
            channels_max: 8,
            names_max: 1024,
            parts_max: DATA_MESSAGE_BYTES_MAX,
        };
        (self.stamps != Stamps::Off).then(|| DataConfig {
            association,
            limits,
            ..DataConfig::default()
        })
    }
}

/// A message of stamps is a fraction of it.
const DATA_MESSAGE_BYTES_MAX: usize = 16 << 10;
/// Stamps count from so long before the call: frames are older than their packets.
const BEFORE: Duration = Duration::from_secs(60);
/// What waits in either direction: seconds of records.
const DATA_BUFFER_BYTES: usize = 128 << 10;

/// What a call speaks into and plays on.
pub struct Devices {
    /// Where audio comes from.
    pub microphone: Box<dyn Microphone>,
    /// And where it goes.
    pub loudspeaker: Box<dyn Loudspeaker>,
}

impl std::fmt::Debug for Devices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Devices").finish_non_exhaustive()
    }
}

/// How a call ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// [`Call::hang_up`].
    ByUs,
    /// The peer said goodbye.
    ByPeer,
}

/// Why there is no call, or no longer.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum CallError {
    /// It never came about: the network's fault, or the peer's.
    #[error("no connection to {peer}: {reason}; is UDP blocked on the way?")]
    NotConnected {
        /// Whom the SDP named.
        peer: String,
        /// What the session says.
        reason: CloseReason,
    },
    /// It was there, and then no more came.
    #[error("the peer vanished: nothing was heard of {peer} for 15 s or more")]
    Vanished {
        /// Where it was.
        peer: SocketAddr,
    },
    /// The session ended for another reason.
    #[error("the call ended: {0}")]
    Closed(CloseReason),
    /// Microphone or loudspeaker.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The engine takes no such configuration.
    #[error("the voice engine: {0}")]
    Engine(String),
    /// The operating system refused.
    #[error("{what}: {reason}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What it said.
        reason: String,
    },
    /// No socket.
    #[error("{0}")]
    Socket(String),
}

impl From<BindError> for CallError {
    fn from(error: BindError) -> Self {
        Self::Socket(error.to_string())
    }
}

/// How a call stands, for whoever looks at it.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Keys are there.
    pub is_connected: bool,
    /// Where datagrams go.
    pub peer: Option<SocketAddr>,
    /// Name of the SRTP profile.
    pub protection: Option<&'static str>,
    /// The speaking half; `None` before it begins, or where the peer takes nothing.
    pub speaking: Option<speaker::Report>,
    /// The listening half; `None` before it begins.
    pub listening: Option<listener::Report>,
    /// By the peer's reports.
    pub rtt: Option<Duration>,
    /// Of what we send, the part that the peer missed lately, 0 to 1.
    pub lost_ratio: Option<f64>,
    /// Datagrams that the kernel did not take.
    pub unsent: u64,
    /// Datagrams of no use: see [`glassline_webrtc::Dropped`].
    pub dropped: u64,
    /// Packets, periods and records that found their queue full, and periods that waited
    /// longer than 100 ms for the thread that speaks: late audio is worse than none.
    pub overflowed: u64,
    /// How it stands with the far end's stamps; `None` where it has no channel for them,
    /// as a browser has none.
    pub far: Option<far::Report>,
}

/// What threads of a call share.
pub(crate) struct Shared {
    pub(crate) line: Mutex<Line>,
    pub(crate) figures: Mutex<Figures>,
    pub(crate) is_muted: AtomicBool,
    /// In bits a second; 0 leaves what was configured.
    bitrate: AtomicU64,
    /// What the peer misses, in 256ths.
    pub(crate) lost_256: AtomicU64,
    pub(crate) overflowed: AtomicU64,
    /// The far end wants to be told records.
    pub(crate) is_asked: AtomicBool,
    pub(crate) stop: AtomicBool,
    pub(crate) end: OnceLock<Result<Ended, CallError>>,
    /// Voices that will not be heard any more.
    gone: Mutex<Vec<Ssrc>>,
    /// The ends of its legs, which are told what they ask for.
    legs: Mutex<Vec<leg::Listener>>,
    /// Of a leg: whose voice it brings, once that has spoken.
    voice: OnceLock<Ssrc>,
}

impl Shared {
    fn new(line: Line, is_muted: bool) -> Self {
        Self {
            line: Mutex::new(line),
            figures: Mutex::default(),
            is_muted: AtomicBool::new(is_muted),
            bitrate: AtomicU64::new(0),
            lost_256: AtomicU64::new(0),
            overflowed: AtomicU64::new(0),
            is_asked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            end: OnceLock::new(),
            gone: Mutex::default(),
            legs: Mutex::default(),
            voice: OnceLock::new(),
        }
    }

    pub(crate) fn gone(&self) -> MutexGuard<'_, Vec<Ssrc>> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn figures(&self) -> MutexGuard<'_, Figures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.end.get().is_some()
    }

    pub(crate) fn bitrate(&self) -> Option<Bitrate> {
        let bps = self.bitrate.swap(0, Ordering::Relaxed);
        (bps > 0).then(|| Bitrate::from_bps(bps))
    }

    /// The first reason counts.
    pub(crate) fn end(&self, end: Result<Ended, CallError>) {
        // A later one would only tell of what followed.
        let _ = self.end.set(end);
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// A bounded queue's end that never waits: what does not fit is counted.
pub(crate) struct Feed<T> {
    sender: mpsc::SyncSender<T>,
    shared: Arc<Shared>,
}

impl<T> Clone for Feed<T> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T> Feed<T> {
    pub(crate) fn new(capacity: usize, shared: &Arc<Shared>) -> (Self, Receiver<T>) {
        let (sender, receiver) = mpsc::sync_channel(capacity);
        let shared = Arc::clone(shared);
        (Self { sender, shared }, receiver)
    }

    pub(crate) fn push(&self, item: T) {
        if let Err(TrySendError::Full(_)) = self.sender.try_send(item) {
            self.shared.overflowed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A call, until it ends or is dropped, which hangs up.
pub struct Call {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    drains: Drains,
    ear: Ear,
    ssrc: Option<Ssrc>,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}

impl Call {
    /// Connects over `line`, and speaks and listens as soon as it is.
    ///
    /// # Errors
    /// The system gives no threads, or no way to wait for the socket.
    pub fn start(line: Line, config: Config, devices: Devices) -> Result<Self, CallError> {
        Self::begin(line, config, devices, false)
    }

    /// The same where others are heard by legs of their own ([`ear`](Self::ear)), even
    /// if nothing comes over `line`.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_among(line: Line, config: Config, devices: Devices) -> Result<Self, CallError> {
        Self::begin(line, config, devices, true)
    }

    fn begin(
        line: Line,
        config: Config,
        devices: Devices,
        has_legs: bool,
    ) -> Result<Self, CallError> {
        let ssrc = line.session.senders().first().map(|it| it.ssrc);
        let shared = Arc::new(Shared::new(line, config.muted));
        let (packets_feed, packets) = Feed::new(listening::PACKETS_MAX, &shared);
        let (connected, when_connected) = mpsc::channel();
        let asks = config.stamps == Stamps::Ask;
        let now = Instant::now();
        let epoch = now.checked_sub(BEFORE).unwrap_or(now);
        let (stamping, again, talk, drains) = stamping::queues(&shared, ssrc, asks, epoch);
        let ear = Ear {
            call: Arc::clone(&shared),
            packets: packets_feed,
            again,
            asks,
            epoch,
        };
        let (feed, again) = (ear.packets.clone(), ear.again.stamp());
        let network = network::Network::new(Arc::clone(&shared), feed, again, talk, connected)?;
        let speaking = speaking::Audio {
            shared: Arc::clone(&shared),
            config,
            devices,
            packets,
            has_legs,
            stamping,
        };
        let mut call = Self {
            shared,
            threads: Vec::new(),
            drains,
            ear,
            ssrc,
        };
        let network = spawn("call network", move || network.run())?;
        call.threads.push(network);
        let speaker = spawn("call speaker", move || {
            if let Ok(agreed) = when_connected.recv() {
                speaking.run(&agreed);
            }
        })?;
        call.threads.push(speaker);
        Ok(call)
    }

    /// Under what number we speak; `None` before the answer, or if the peer takes nothing.
    pub const fn ssrc(&self) -> Option<Ssrc> {
        self.ssrc
    }

    /// How it stands.
    pub fn figures(&self) -> Figures {
        let overflowed = self.shared.overflowed.load(Ordering::Relaxed);
        Figures {
            overflowed,
            ..self.shared.figures().clone()
        }
    }

    /// Whether to send silence.
    pub fn set_muted(&self, is_muted: bool) {
        self.shared.is_muted.store(is_muted, Ordering::Relaxed);
    }

    /// From now on so many bits a second.
    pub fn set_bitrate(&self, bitrate: Bitrate) {
        self.shared.bitrate.store(bitrate.bps(), Ordering::Relaxed);
    }

    /// Appends the records since the last time. Call it every few seconds: 4,096 of each
    /// are kept, and what does not fit is counted in [`Figures::overflowed`].
    pub fn drain(&self, records: &mut Records) {
        self.drains.drain(records);
    }

    /// How it ended; `None` while it goes on.
    pub fn ended(&self) -> Option<Result<Ended, CallError>> {
        self.shared.end.get().cloned()
    }

    /// Says goodbye and waits until the devices are at rest; says how it ended. What was
    /// recorded can still be drained.
    pub fn hang_up(&mut self) -> Result<Ended, CallError> {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of a call has panicked");
            }
        }
        let end = self.shared.end.get().cloned();
        end.unwrap_or(Ok(Ended::ByUs))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // How it ended was asked before, or nobody wants to know.
        let _ = self.hang_up();
    }
}

pub(crate) fn spawn(
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, CallError> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(run).map_err(|error| CallError::System {
        what: "starting a thread",
        reason: error.to_string(),
    })
}
