//! One voice call: a session, its socket, a microphone and a loudspeaker.
//!
//! ```text
//! microphone's thread ─ periods ─► speaker's thread: Speaker ─ seal, sendto ─► socket
//!                                     ▲ played audio, for AEC       ▲
//! loudspeaker's thread: Listener ─────┘            the session, behind a lock
//!    ▲ opened packets                                 ▼
//!    └──────────────── network's thread: receive, open, timers, RTCP ◄─ socket
//! ```
//!
//! A packet is sealed and sent by the thread that encoded it: no pacer and no other thread
//! delays it, only the session's lock, which is never held for longer than a datagram takes.
//! Between threads are bounded queues; an item that finds its queue full is dropped and
//! counted. Each end keeps its own stamps ([`Call::drain`]), and receives the far end's if it
//! asks for them ([`Stamps`]). Joining the stamps of both ends is the laboratory's work.
//!
//! The caller carries the signalling: [`Dialling`] makes an offer, [`answer`] accepts one.

mod bounded_sender;
mod device;
pub mod dial;
mod leg;
mod listening;
mod media_transport;
mod network;
pub mod room;
pub mod serve;
mod signal;
mod speaking;
mod stamp_channels;
mod stamping;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use glassline_net::BindError;
use glassline_sctp as sctp;
use glassline_webrtc::{CloseReason, DataConfig, OpusOptions, Redundancy};
use parking_lot::{Mutex, MutexGuard};
use thiserror::Error;

pub(crate) use bounded_sender::BoundedSender;
pub use device::{
    CaptureTime, Deliver, DeviceError, Fill, Loudspeaker, Microphone, PlayoutTime, Running, Signal,
    Tap, Timing, VirtualDeviceState, VirtualLoudspeaker, VirtualMicrophone,
};
pub use dial::{Dial, DialError, Dialled, dial};
pub use glassline_voice::far;
pub use glassline_voice::{
    Bitrate, DuplicateReason, DuplicateRecord, Format, Marks, PlayoutStamps, Record, SendStamps,
    Ssrc, jitter, listener, opus, preprocess, speaker,
};
pub use leg::{Leg, LegConnector};
pub use media_transport::MediaTransport;
pub use room::{Change, JoinError, Room, RoomRecord};
pub use serve::{Incoming, Server};
pub use signal::{AnswerError, Dialling, answer};
use stamping::Drains;
pub use stamping::Records;

/// Configuration of a call.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Processing of captured audio.
    pub preprocess: preprocess::Config,
    /// Encoder configuration; FEC and DTX are used only if the peer wants them too.
    pub opus: opus::Config,
    /// Whether packets repeat the previous one (RFC 2198), if the peer accepts that.
    pub redundancy: bool,
    /// Configuration of the jitter buffers.
    pub jitter: jitter::Config,
    /// Whether the call begins muted.
    pub muted: bool,
    /// Which stamps the ends exchange.
    pub stamps: Stamps,
}

/// Which stamps the ends of a call exchange, over data channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stamps {
    /// None: there are no data channels.
    Off,
    /// Ours are sent if the other end asks.
    #[default]
    Send,
    /// Ours are sent if the other end asks, and its stamps are requested.
    Exchange,
}

impl Config {
    /// Opus parameters for SDP.
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

    /// Configuration of the data channels for stamps: small, because they must not take
    /// bandwidth from voices.
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

/// Longest message of the data channels, in bytes; a message of stamps is a fraction of it.
const DATA_MESSAGE_BYTES_MAX: usize = 16 << 10;
/// Distance between the origin of stamps and the call's beginning, because frames are older
/// than their packets.
const BEFORE: Duration = Duration::from_secs(60);
/// Buffer of the data channels in each direction, in bytes: seconds of records.
const DATA_BUFFER_BYTES: usize = 128 << 10;

/// Devices of a call.
#[derive(derive_more::Debug)]
#[debug("Devices {{ .. }}")]
pub struct Devices {
    /// Device that captures audio.
    pub microphone: Box<dyn Microphone>,
    /// Device that plays audio.
    pub loudspeaker: Box<dyn Loudspeaker>,
}

/// How a call ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// We ended it with [`Call::hang_up`].
    ByUs,
    /// The peer ended it.
    ByPeer,
}

/// The reason why there is no call, or why it ended.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum CallError {
    /// No connection was established, by the network's fault or the peer's.
    #[error("no connection to {peer}: {reason}; check that no firewall blocks UDP")]
    NotConnected {
        /// Peer that the SDP named.
        peer: String,
        /// Reason of the session.
        reason: CloseReason,
    },
    /// The connection was established, and then nothing more arrived.
    #[error("the peer vanished: nothing arrived from {peer} for 15 s or more")]
    Vanished {
        /// Last address of the peer.
        peer: SocketAddr,
    },
    /// Nothing arrives from the server any more, and it does not answer about the session.
    #[error("the server is lost: nothing arrived for 2 s, and the session is not found: {0}")]
    ServerLost(String),
    /// The session ended for another reason.
    #[error("the call ended: {0}")]
    Closed(CloseReason),
    /// Microphone or loudspeaker failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The voice engine refuses the configuration.
    #[error("the voice engine: {0}")]
    Engine(String),
    /// The operating system refused something.
    #[error("{what}: {reason}")]
    System {
        /// The operation that was tried.
        what: &'static str,
        /// Text of the operating system.
        reason: String,
    },
    /// No socket could be opened.
    #[error("{0}")]
    Socket(String),
}

impl From<BindError> for CallError {
    fn from(error: BindError) -> Self {
        Self::Socket(error.to_string())
    }
}

/// State of a call.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Whether keys are established.
    pub is_connected: bool,
    /// Address to which datagrams are sent.
    pub peer: Option<SocketAddr>,
    /// Name of the SRTP profile.
    pub protection: Option<&'static str>,
    /// State of the sending half; `None` before it begins, or if the peer accepts no audio.
    pub speaking: Option<speaker::Report>,
    /// State of the receiving half; `None` before it begins.
    pub listening: Option<listener::Report>,
    /// Round trip time, from the peer's reports.
    pub rtt: Option<Duration>,
    /// Share of our packets that the peer lost recently, 0 to 1.
    pub lost_ratio: Option<f64>,
    /// Datagrams that the kernel refused to send.
    pub unsent: u64,
    /// Datagrams that the session dropped: see [`glassline_webrtc::Dropped`].
    pub dropped: u64,
    /// Packets, periods and records that found their queue full, and periods that waited
    /// longer than 100 ms for the speaking thread: late audio is worse than none.
    pub overflowed: u64,
    /// Exchange of stamps with the far end; `None` if it has no channel for them, as browsers
    /// have none.
    pub far: Option<far::Report>,
}

/// State that the threads of a call share.
pub(crate) struct Shared {
    pub(crate) transport: Mutex<MediaTransport>,
    pub(crate) figures: Mutex<Figures>,
    pub(crate) is_muted: AtomicBool,
    /// Requested bitrate in bits per second; 0 leaves the configured one.
    bitrate: AtomicU64,
    /// Share of our packets that the peer loses, in 256ths.
    pub(crate) lost_256: AtomicU64,
    pub(crate) overflowed: AtomicU64,
    /// Whether the far end wants our records.
    pub(crate) is_requested: AtomicBool,
    pub(crate) stop: AtomicBool,
    /// When a datagram of the peer was accepted last.
    heard: Mutex<Option<Instant>>,
    pub(crate) end: OnceLock<Result<Ended, CallError>>,
    /// Voices that have left.
    gone: Mutex<Vec<Ssrc>>,
    /// Far ends of the call's legs, which get the records that they ask for.
    legs: Mutex<Vec<leg::RecordRecipient>>,
    /// For a leg: SSRC of its voice, once that has spoken.
    voice: OnceLock<Ssrc>,
}

impl Shared {
    fn new(transport: MediaTransport, is_muted: bool) -> Self {
        Self {
            transport: Mutex::new(transport),
            figures: Mutex::default(),
            is_muted: AtomicBool::new(is_muted),
            bitrate: AtomicU64::new(0),
            lost_256: AtomicU64::new(0),
            overflowed: AtomicU64::new(0),
            is_requested: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            heard: Mutex::default(),
            end: OnceLock::new(),
            gone: Mutex::default(),
            legs: Mutex::default(),
            voice: OnceLock::new(),
        }
    }

    pub(crate) fn gone(&self) -> MutexGuard<'_, Vec<Ssrc>> {
        self.gone.lock()
    }

    pub(crate) fn transport(&self) -> MutexGuard<'_, MediaTransport> {
        self.transport.lock()
    }

    pub(crate) fn figures(&self) -> MutexGuard<'_, Figures> {
        self.figures.lock()
    }

    /// When a datagram of the peer was accepted last; `None` before the first one.
    pub(crate) fn heard(&self) -> MutexGuard<'_, Option<Instant>> {
        self.heard.lock()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.end.get().is_some()
    }

    pub(crate) fn bitrate(&self) -> Option<Bitrate> {
        let bps = self.bitrate.swap(0, Ordering::Relaxed);
        (bps > 0).then(|| Bitrate::from_bps(bps))
    }

    /// Ends the call; the first reason is kept.
    pub(crate) fn end(&self, end: Result<Ended, CallError>) {
        // A later reason would only be a consequence of the first.
        let _ = self.end.set(end);
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// A call. It ends by itself, by [`Call::hang_up`], or when it is dropped.
#[derive(derive_more::Debug)]
#[debug("Call {{ .. }}")]
pub struct Call {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    drains: Drains,
    connector: LegConnector,
    ssrc: Option<Ssrc>,
}

impl Call {
    /// Connects over `transport`; audio is sent and played as soon as the connection is
    /// established.
    ///
    /// # Errors
    /// If the system refuses a thread, or a poll for the socket.
    pub fn start(
        transport: MediaTransport,
        config: Config,
        devices: Devices,
    ) -> Result<Self, CallError> {
        Self::begin(transport, config, devices, false)
    }

    /// Starts a call in which others are heard by legs of their own
    /// ([`leg_connector`](Self::leg_connector)), even if no media comes over `transport`.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_among(
        transport: MediaTransport,
        config: Config,
        devices: Devices,
    ) -> Result<Self, CallError> {
        Self::begin(transport, config, devices, true)
    }

    fn begin(
        transport: MediaTransport,
        config: Config,
        devices: Devices,
        has_legs: bool,
    ) -> Result<Self, CallError> {
        let ssrc = transport.session.senders().first().map(|it| it.ssrc);
        let shared = Arc::new(Shared::new(transport, config.muted));
        let (packets_sender, packets) = BoundedSender::new(listening::PACKETS_MAX, &shared);
        let (connected, when_connected) = mpsc::channel();
        let wants_records = config.stamps == Stamps::Exchange;
        let now = Instant::now();
        let epoch = now.checked_sub(BEFORE).unwrap_or(now);
        let (stamping, duplicates, stamp_channels, drains) =
            stamping::queues(&shared, ssrc, wants_records, epoch);
        let connector = LegConnector {
            call: Arc::clone(&shared),
            packets: packets_sender,
            duplicates,
            wants_records,
            epoch,
        };
        let (sender, duplicates) = (connector.packets.clone(), connector.duplicates.stamp());
        let network = network::Network::new(
            Arc::clone(&shared),
            sender,
            duplicates,
            stamp_channels,
            connected,
        )?;
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
            connector,
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

    /// SSRC of our voice; `None` before the answer, or if the peer accepts no audio.
    pub const fn ssrc(&self) -> Option<Ssrc> {
        self.ssrc
    }

    /// Returns the state of the call.
    pub fn figures(&self) -> Figures {
        let overflowed = self.shared.overflowed.load(Ordering::Relaxed);
        Figures {
            overflowed,
            ..self.shared.figures().clone()
        }
    }

    /// Sets whether silence is sent.
    pub fn set_muted(&self, is_muted: bool) {
        self.shared.is_muted.store(is_muted, Ordering::Relaxed);
    }

    /// Sets the encoder's bitrate.
    pub fn set_bitrate(&self, bitrate: Bitrate) {
        self.shared.bitrate.store(bitrate.bps(), Ordering::Relaxed);
    }

    /// Appends the records since the last call. Call it every few seconds: 4,096 of each kind
    /// are kept, and further ones are counted in [`Figures::overflowed`].
    pub fn drain(&self, records: &mut Records) {
        self.drains.drain(records);
    }

    /// How the call ended; `None` while it lasts.
    pub fn ended(&self) -> Option<Result<Ended, CallError>> {
        self.shared.end.get().cloned()
    }

    /// Ends the call, waits until the devices have stopped, and returns how it ended.
    /// Remaining records can still be drained.
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
        // A caller that needs the result has called `hang_up` itself.
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
