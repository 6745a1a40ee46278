//! One WebRTC session with one peer, without sockets: SDP, ICE, TURN, DTLS, SRTP, RTCP and data
//! channels.
//!
//! ```text
//!  offer ─► sdp ─► answer            caller: one UDP socket, many sessions
//!                                       │ demux: first byte, STUN ufrag
//!  datagram ─► Session ─┬─ ice   (STUN)  ◄┘
//!                       ├─ dtls  (handshake, keys, close_notify)
//!                       │    └─ record (data, opened in place) ─► glassline_sctp
//!                       ├─ srtp  (open: rollover counter, replay window)
//!                       └─ RTCP  ─► events: keyframe request, NACK, reports
//!  payload  ─► Session::seal ─► one sealed datagram in the caller's buffer
//!  messages ─► Session::channels_mut ─► Session::poll_transmit_batch ─► datagrams of equal size
//! ```
//!
//! Nothing here reads a clock, draws random numbers or opens a socket: `now`, the secrets and the
//! datagrams are passed in. There are two exceptions inside of the DTLS and ICE crates: key
//! exchanges and transaction identifiers use the operating system's random numbers. Traces are
//! therefore compared by times, sizes and decisions, not by bytes.
//!
//! # Example
//!
//! Two sessions, from offer to answer and through the handshake. The datagrams of each are passed
//! directly to the other one; a program would use a UDP socket:
//!
//! ```
//! use glassline_media::{Codec, Track, WallClock};
//! use glassline_webrtc::{
//!     AcceptConfig, Certificate, DialConfig, Kinds, OpusOptions, ReceiveMode, Received, Secrets,
//!     SenderIndex, Session,
//! };
//! use std::net::SocketAddr;
//! use std::sync::Arc;
//! use std::time::{Duration, Instant};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut now = Instant::now();
//! let wall = WallClock::new(now, Duration::from_secs(1_700_000_000));
//! let certificate = Arc::new(Certificate::generate()?);
//! let viewer_address: SocketAddr = "192.0.2.1:5000".parse()?;
//! let server_address: SocketAddr = "192.0.2.2:8000".parse()?;
//!
//! // The viewer offers to receive audio.
//! let (mut viewer, offer) = Session::dial(
//!     DialConfig {
//!         certificate: Arc::clone(&certificate),
//!         local: vec![viewer_address],
//!         turn_allocations: Vec::new(),
//!         secrets: Secrets::expand(&[1; 32]), // random bytes in a program
//!         wall,
//!         send: Vec::new(),
//!         receive: Kinds::AUDIO,
//!         opus: OpusOptions::default(),
//!         mode: ReceiveMode::Open,
//!         data: None,
//!     },
//!     now,
//! );
//!
//! // The server answers with a track.
//! let tracks = [Track::audio(Codec::Opus, 2)];
//! let config = AcceptConfig {
//!     certificate,
//!     local: vec![server_address.into()],
//!     secrets: Secrets::expand(&[2; 32]),
//!     wall,
//!     tracks: &tracks,
//!     receive: Kinds::NONE,
//!     opus: OpusOptions::default(),
//!     data: None,
//! };
//! let (mut server, answer) = Session::accept(config, &offer, now)?;
//! viewer.set_answer(&answer, now)?;
//!
//! // ICE and DTLS: pass datagrams until both ends are connected.
//! let mut datagram = Vec::new();
//! for _ in 0..1000 {
//!     if viewer.is_connected() && server.is_connected() {
//!         break;
//!     }
//!     now += Duration::from_millis(5);
//!     viewer.handle_timeout(now);
//!     server.handle_timeout(now);
//!     while let Some(to) = viewer.poll_transmit(&mut datagram) {
//!         server.handle_datagram(now, viewer_address, to, &mut datagram)?;
//!     }
//!     while let Some(to) = server.poll_transmit(&mut datagram) {
//!         viewer.handle_datagram(now, server_address, to, &mut datagram)?;
//!     }
//! }
//! assert!(viewer.is_connected() && server.is_connected());
//!
//! // Media: one payload becomes one datagram.
//! let mut datagram = [0; 1200];
//! let sealed = server
//!     .seal(SenderIndex(0), 960, false, b"an Opus packet", now, &mut datagram)
//!     .ok_or("the session is connected")?;
//! let bytes = &mut datagram[..sealed.len];
//! match viewer.handle_datagram(now, server_address, viewer_address, bytes)? {
//!     Received::Rtp { packet, .. } => assert_eq!(packet.payload, b"an Opus packet"),
//!     other => panic!("not media: {other:?}"),
//! }
//! # Ok(())
//! # }
//! ```

pub mod demux;
pub mod dtls;
pub mod framing;
#[cfg(any(test, fuzzing))]
pub mod fuzzing {
    //! Drivers of fuzz targets that need what no caller of this crate may do.

    pub use crate::session::fuzzing::established;
    pub use crate::turn::fuzzing::turn;
}
mod ice;
pub mod sdp;
pub mod session;
pub mod srtp;
mod transport_address;
pub mod turn;

pub use demux::{DatagramKind, classify, stun_username};
pub use dtls::{Certificate, Cipher, CipherChoice, Flight, HandshakeTrace};
pub use ice::{
    StatedCandidates, binding_request, is_stun_response, mapped_address, stun_check,
    stun_is_authentic,
};
pub use sdp::{IceCredentials, OpusOptions, OpusParameters, Redundancy};
pub use session::{
    AcceptConfig, AcceptError, CloseReason, ConnectionReport, ControlPlan, ControlStart, Counts,
    DataConfig, DataCounts, DialConfig, Dropped, Event, Fec, FecCounts, Kinds, LayerIndex, Path,
    PathEnd, PathReport, ProtectedHeader, ReceiveMode, Received, Receiver, ReceiverIndex, Rtx,
    SKIP_MAX, Sealed, Secrets, Sender, SenderIndex, SenderTime, Session, SetAnswerError,
    SimulcastLayer, TRACKS_MAX, TrackSecrets,
};
pub use transport_address::{Transport, TransportAddress};
