//! One peer: ICE, DTLS, SRTP and RTCP joined, driven by bytes and `now`.

mod config;
mod event;

pub use config::{
    AcceptConfig, DialConfig, Kinds, ReceiveMode, Secrets, TRACKS_MAX, TrackSecrets,
};
pub use event::{CloseReason, Dropped, Event, NACK_LOST_MAX, Received, Sealed};
