//! How each track of a session travels between server and client.
//!
//! The server chooses one kind of transport for all tracks of a player, so that a
//! session is interleaved, by UDP or by multicast as a whole. A publisher may mix the
//! first two.

use std::net::SocketAddr;

use glassline_media::TrackIndex;
use smallvec::SmallVec;

use super::cursor::TrackSet;
use super::groups::MulticastMembership;
use super::srtp::TrackSrtp;

/// The channels of a connection that carry a track's RTP and RTCP (RFC 2326 §10.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Channels {
    pub(crate) media: u8,
    pub(crate) control: u8,
}

impl Channels {
    /// Returns the channel of reports, or of media.
    pub(crate) const fn channel_of(self, is_report: bool) -> u8 {
        if is_report { self.control } else { self.media }
    }
}

/// The addresses of a client's ports for a track's RTP and RTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UdpAddresses {
    pub(crate) media: SocketAddr,
    pub(crate) control: SocketAddr,
}

impl UdpAddresses {
    /// Returns the address of reports, or of media.
    pub(crate) const fn address_of(&self, is_report: bool) -> SocketAddr {
        if is_report { self.control } else { self.media }
    }
}

/// The transport of one track. A group has no SRTP: its packets are for everybody.
#[derive(Debug)]
pub(crate) enum TrackTransport {
    /// The track's packets go within the RTSP connection.
    Interleaved {
        channels: Channels,
        srtp: Option<Box<TrackSrtp>>,
    },
    /// The track's packets are datagrams between one client and this server.
    Udp {
        addresses: UdpAddresses,
        srtp: Option<Box<TrackSrtp>>,
    },
    /// The multicast thread sends the track to a group.
    Multicast(MulticastMembership),
}

/// The kind of a [`TrackTransport`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransportKind {
    Interleaved,
    Udp,
    Multicast,
}

impl TrackTransport {
    pub(crate) const fn kind(&self) -> TransportKind {
        match self {
            Self::Interleaved { .. } => TransportKind::Interleaved,
            Self::Udp { .. } => TransportKind::Udp,
            Self::Multicast(_) => TransportKind::Multicast,
        }
    }

    /// Returns the track's SRTP, if it has one.
    pub(crate) fn srtp(&self) -> Option<&TrackSrtp> {
        match self {
            Self::Interleaved { srtp, .. } | Self::Udp { srtp, .. } => srtp.as_deref(),
            Self::Multicast(_) => None,
        }
    }

    /// Seals an RTCP packet if the track has SRTP. Returns `None` if `packet` is not RTCP.
    pub(crate) fn seal_control(&mut self, packet: Vec<u8>) -> Option<Vec<u8>> {
        match self.srtp_mut() {
            Some(srtp) => srtp.control(&packet),
            None => Some(packet),
        }
    }

    /// Returns the track's SRTP for sealing or opening packets, if it has one.
    pub(crate) fn srtp_mut(&mut self) -> Option<&mut TrackSrtp> {
        match self {
            Self::Interleaved { srtp, .. } | Self::Udp { srtp, .. } => srtp.as_deref_mut(),
            Self::Multicast(_) => None,
        }
    }
}

/// The transports of a session's tracks, by the index of the track; tracks that are not
/// set up have none.
#[derive(Debug, Default)]
pub(crate) struct TrackTransports(SmallVec<[Option<TrackTransport>; 2]>);

impl TrackTransports {
    pub(crate) fn get(&self, track: TrackIndex) -> Option<&TrackTransport> {
        self.0.get(track.get())?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, track: TrackIndex) -> Option<&mut TrackTransport> {
        self.0.get_mut(track.get())?.as_mut()
    }

    /// Sets up a track, or sets it up anew.
    pub(crate) fn set(&mut self, track: TrackIndex, transport: TrackTransport) {
        let track = track.get();
        if self.0.len() <= track {
            self.0.resize_with(track + 1, || None);
        }
        self.0[track] = Some(transport);
    }

    /// Removes and returns the transport of a track; `None` if it was not set up.
    pub(crate) fn remove(&mut self, track: TrackIndex) -> Option<TrackTransport> {
        self.0.get_mut(track.get())?.take()
    }

    /// Removes and returns the SRTP of a track that is set up again.
    pub(crate) fn take_srtp(&mut self, track: TrackIndex) -> Option<Box<TrackSrtp>> {
        match self.get_mut(track)? {
            TrackTransport::Interleaved { srtp, .. } | TrackTransport::Udp { srtp, .. } => {
                srtp.take()
            }
            TrackTransport::Multicast(_) => None,
        }
    }

    /// Iterates over the tracks that are set up, with their indices.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (TrackIndex, &TrackTransport)> {
        let tracks = TrackIndex::enumerate(&self.0);
        tracks.filter_map(|(track, transport)| Some((track, transport.as_ref()?)))
    }

    /// Iterates over the tracks that are set up, with their indices, for sending.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (TrackIndex, &mut TrackTransport)> {
        let tracks = TrackIndex::enumerate(&mut self.0);
        tracks.filter_map(|(track, transport)| Some((track, transport.as_mut()?)))
    }

    /// Returns the set of tracks that are set up.
    pub(crate) fn set_up(&self) -> TrackSet {
        self.iter().map(|(track, _)| track).collect()
    }

    /// Returns the kind of the first track that is set up; a player's tracks are all of one kind.
    pub(crate) fn kind(&self) -> Option<TransportKind> {
        self.iter().next().map(|(_, transport)| transport.kind())
    }

    /// Returns whether some track goes by UDP.
    pub(crate) fn has_udp(&self) -> bool {
        self.addresses().next().is_some()
    }

    /// Returns whether some track is sealed for this client alone.
    pub(crate) fn has_srtp(&self) -> bool {
        self.iter().any(|(_, transport)| transport.srtp().is_some())
    }

    /// Iterates over the client's addresses of tracks that go by UDP.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = UdpAddresses> {
        self.iter().filter_map(|(_, transport)| match transport {
            TrackTransport::Udp { addresses, .. } => Some(*addresses),
            _ => None,
        })
    }

    /// Counts the client among the players of its multicast groups, or removes it from the count.
    pub(crate) fn set_playing(&mut self, plays: bool) {
        for (_, transport) in self.iter_mut() {
            if let TrackTransport::Multicast(membership) = transport {
                membership.set_playing(plays);
            }
        }
    }
}
