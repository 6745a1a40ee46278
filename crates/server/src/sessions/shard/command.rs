//! Commands from other threads to a shard.

use std::net::IpAddr;
use std::sync::Arc;

use glassline_egress::webrtc::{LayerRequest, TcpConnection};
use glassline_hub::Stream;
use glassline_ingest::whip::Arrivals;
use glassline_latency::FrameStamps;
use glassline_runtime::SessionId;
use glassline_webrtc::TransportAddress;
use glassline_webrtc::sdp::{Candidate, IceCredentials};
use tokio::sync::oneshot;

use crate::sessions::peer::Peer;

/// A command to the shard that owns a peer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Command {
    /// Adopt this peer with its TCP connections: datagrams from its address arrive at your socket.
    Adopt(Box<Peer>, PeerConnections),
    /// Take a TCP connection of a session.
    Connect(Box<Connected>),
    /// A datagram for one of your peers arrived at shard `from`.
    Forward {
        /// The session that the datagram is for.
        session: SessionId,
        /// Index of the shard that received the datagram.
        from: usize,
        /// The datagram, with its addresses.
        datagram: Box<Forwarded>,
    },
    /// End the session, and confirm it.
    Leave {
        /// The session to end.
        session: SessionId,
        /// Sent to, or dropped, when the peer is released.
        done: oneshot::Sender<()>,
    },
    /// End the session if its handshake is not done: another session needs its place.
    Evict(SessionId),
    /// Add ICE candidates of the peer.
    Trickle(SessionId, Vec<Candidate>),
    /// Take the viewer's request for a layer of its video.
    LayerRequest(SessionId, LayerRequest),
    /// Send the viewer another stream from now on.
    GoOver {
        /// Session of the viewer that goes over.
        session: SessionId,
        /// The stream, which has a keyframe.
        to: Arc<Stream>,
        /// Receives whether the stream suits the session.
        done: oneshot::Sender<bool>,
    },
    /// Restart ICE (RFC 8445 §9).
    Restart {
        /// The session to restart.
        session: SessionId,
        /// The server's new credentials.
        ours: IceCredentials,
        /// The peer's new credentials.
        theirs: IceCredentials,
    },
    /// Report when these frames passed the shard's stages, in the order of the request.
    Stamps {
        /// Session of the viewer that received the frames.
        session: SessionId,
        /// RTP timestamps of the frames, as this viewer knows them.
        timestamps: Vec<u32>,
        /// Receives one entry for each timestamp; `None` for a frame that is unknown or no longer
        /// kept.
        reply: oneshot::Sender<Vec<Option<FrameStamps>>>,
    },
    /// Report what arrived of a publisher.
    Arrivals {
        /// Session of the publisher.
        session: SessionId,
        /// Receives the report; dropped if the session publishes no media.
        reply: oneshot::Sender<Arrivals>,
    },
    /// Close every session and end the thread.
    Stop,
}

/// The TCP connections of a peer, on their way from one shard to another.
#[derive(Debug, Default)]
pub struct PeerConnections(pub(crate) Vec<TcpConnection>);

/// A TCP connection over which an authentic connectivity check for a session came.
#[derive(Debug)]
pub struct Connected {
    /// The connection, from which nothing but the check was read.
    pub(crate) connection: TcpConnection,
    /// The check, without its frame.
    pub(crate) check: Vec<u8>,
}

/// A datagram on its way from the shard that received it to the shard that owns the peer.
#[derive(Clone, Debug)]
pub struct Forwarded {
    /// Content of the datagram.
    pub bytes: Vec<u8>,
    /// Address of the sender.
    pub source: TransportAddress,
    /// The server's address that the datagram was sent to, as the session knows it.
    pub destination: TransportAddress,
    /// The server's IP address that the datagram arrived at, for a socket bound to a wildcard
    /// address.
    pub local: Option<IpAddr>,
}
