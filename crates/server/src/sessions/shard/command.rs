//! What other threads ask of a shard.

use std::net::{IpAddr, SocketAddr};

use glassline_webrtc::sdp::{Candidate, IceCredentials};
use tokio::sync::oneshot;

use crate::latency::FrameStamps;
use crate::runtime::SessionId;
use crate::sessions::peer::Peer;

/// A request to the shard that owns a peer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Command {
    /// Own this viewer from now on: its address leads here.
    Adopt(Box<Peer>),
    /// A datagram for a viewer of yours landed on shard `from`.
    Forward {
        /// Whose it is.
        session: SessionId,
        /// Where it landed.
        from: usize,
        /// The datagram.
        datagram: Box<Forwarded>,
    },
    /// The viewer leaves.
    Leave {
        /// Which.
        session: SessionId,
        /// Told, or dropped, when the viewer is gone.
        done: oneshot::Sender<()>,
    },
    /// The viewer has more ICE candidates.
    Trickle(SessionId, Vec<Candidate>),
    /// ICE begins anew (RFC 8445 §9).
    Restart {
        /// Whose.
        session: SessionId,
        /// Our new credentials.
        ours: IceCredentials,
        /// The viewer's new credentials.
        theirs: IceCredentials,
    },
    /// When did these frames pass your stages? In the order asked.
    Stamps {
        /// Of which peer.
        session: SessionId,
        /// Its RTP timestamps.
        timestamps: Vec<u32>,
        /// `None` for frames not (or no longer) known.
        reply: oneshot::Sender<Vec<Option<FrameStamps>>>,
    },
    /// Say goodbye to everyone and end.
    Stop,
}

/// A datagram on its way from the shard where it landed to its viewer's owner.
#[derive(Clone, Debug)]
pub struct Forwarded {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Who sent it.
    pub source: SocketAddr,
    /// Which of our addresses it was sent to, as the session knows it.
    pub destination: SocketAddr,
    /// The same for a socket bound to a wildcard address.
    pub local: Option<IpAddr>,
}
