//! WebRTC sessions: from an SDP offer to the peer that a shard owns, and to its end.
//!
//! ```text
//!  HTTP ─► Negotiator ─ Peer ─► Registry: waits ─ first STUN ─► a shard owns it whole
//!               └ trickle, restart, leave ─► SessionRecord: where it is ─► Command ─┘
//! ```

mod admission;
mod browser_offer;
mod candidates;
mod change;
mod counters;
mod data_channels;
mod diagnosis;
mod endings;
mod metrics;
mod negotiator;
mod offer;
mod past;
mod peer;
mod publish;
mod record;
mod registry;
mod service;
mod settings;
mod shard;
mod talk;
mod tcp_listener;

pub use admission::{Admitted, Bounds, Full, Permit};
pub(crate) use change::{ChangeError, Expected};
pub use counters::Counters;
pub(crate) use data_channels::DataChannelSetup;
pub(crate) use diagnosis::ClientView;
pub use endings::EndReason;
pub(crate) use negotiator::{AnsweredOffer, JoinError, Negotiator};
pub(crate) use offer::{ConnectionAddresses, Offer, OfferError};
pub(crate) use past::PastSession;
pub use peer::Peer;
pub(crate) use publish::PublishOfferError;
pub use record::{IceGeneration, SessionLocation, SessionRecord, SessionState};
pub use registry::Registry;
pub(crate) use settings::{SessionDefaults, Settings};
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use shard::fuzz_registry;
pub use shard::{
    Command, Connected, Forwarded, Handle, PeerConnections, Shards, Shared, StartError,
};
pub use shard::{RECEIVE_BUFFER_BYTES, SEND_BUFFER_BYTES};
pub(crate) use tcp_listener::serve as serve_tcp;
