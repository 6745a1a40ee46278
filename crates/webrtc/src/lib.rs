//! One WebRTC peer session without input or output: SDP, ICE, DTLS, SRTP, RTCP,
//! data channels.
//!
//! ```text
//!  offer ─► sdp ─► answer            shell: one UDP socket, many sessions
//!                                       │ demux: first byte, STUN ufrag
//!  datagram ─► Session ─┬─ ice   (STUN)  ◄┘
//!                       ├─ dtls  (handshake, keys, close_notify)
//!                       │    └─ record (data, opened in place) ─► glassline_sctp
//!                       ├─ srtp  (open: ROC, replay window)
//!                       └─ RTCP  ─► events: keyframe request, NACK, reports
//!  payload  ─► Session::seal ─► one sealed datagram in the caller's buffer
//!  messages ─► Session::channels_mut ─► Session::poll_transmit_batch ─► equal datagrams
//! ```
//!
//! Nothing here reads a clock, draws a number or opens a socket: `now`, the
//! secrets and the datagrams come in from outside. Two exceptions live inside
//! the DTLS and ICE crates: their key exchanges and transaction identifiers
//! draw from the operating system, which is why traces are compared by times,
//! sizes and decisions, never by bytes.

pub mod demux;
pub mod dtls;
mod ice;
pub mod sdp;
pub mod session;
pub mod srtp;
pub mod turn;

pub use demux::{DatagramKind, classify, stun_username};
pub use dtls::{Certificate, Cipher, CipherChoice};
pub use sdp::{IceCredentials, OpusOptions, OpusParameters, Redundancy};
pub use session::{
    AcceptConfig, AcceptError, CloseReason, Counts, DataConfig, DataCounts, DialConfig, Dropped,
    Event, Kinds, Path, PathEnd, PathReport, ReceiveMode, Received, Receiver, ReceiverIndex, Rtx,
    SKIP_MAX, Sealed, Secrets, Sender, SenderIndex, SenderTime, Session, SetAnswerError,
    TRACKS_MAX, TrackSecrets,
};
