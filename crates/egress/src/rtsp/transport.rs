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
pub struct Channels {
    /// Channel of RTP packets.
    pub media: u8,
    /// Channel of RTCP packets.
    pub control: u8,
}

impl Channels {
    /// Returns the channel of reports, or of media.
    pub const fn channel_of(self, is_report: bool) -> u8 {
        if is_report { self.control } else { self.media }
    }
}

/// The addresses of a client's ports for a track's RTP and RTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpAddresses {
    /// Address of the port for RTP.
    pub media: SocketAddr,
    /// Address of the port for RTCP.
    pub control: SocketAddr,
}

impl UdpAddresses {
    /// Returns the address of reports, or of media.
    pub const fn address_of(&self, is_report: bool) -> SocketAddr {
        if is_report { self.control } else { self.media }
    }
}

/// The transport of one track. A group has no SRTP: its packets are for everybody.
#[derive(Debug)]
pub enum TrackTransport {
    /// The track's packets go within the RTSP connection.
    Interleaved {
        /// Channels of the track within the connection.
        channels: Channels,
        /// Keys of the track; `None` for plain RTP.
        srtp: Option<Box<TrackSrtp>>,
    },
    /// The track's packets are datagrams between one client and this server.
    Udp {
        /// Addresses of the client's ports.
        addresses: UdpAddresses,
        /// Keys of the track; `None` for plain RTP.
        srtp: Option<Box<TrackSrtp>>,
    },
    /// The multicast thread sends the track to a group.
    Multicast(MulticastMembership),
}

/// The kind of a [`TrackTransport`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// Packets within the RTSP connection.
    Interleaved,
    /// Datagrams between client and server.
    Udp,
    /// Datagrams to a group of receivers.
    Multicast,
}

impl TrackTransport {
    /// Returns the kind of the transport.
    pub const fn kind(&self) -> TransportKind {
        match self {
            Self::Interleaved { .. } => TransportKind::Interleaved,
            Self::Udp { .. } => TransportKind::Udp,
            Self::Multicast(_) => TransportKind::Multicast,
        }
    }

    /// Returns the track's SRTP, if it has one.
    pub fn srtp(&self) -> Option<&TrackSrtp> {
        match self {
            Self::Interleaved { srtp, .. } | Self::Udp { srtp, .. } => srtp.as_deref(),
            Self::Multicast(_) => None,
        }
    }

    /// Seals an RTCP packet if the track has SRTP. Returns `None` if `packet` is not RTCP.
    pub fn seal_control(&mut self, packet: Vec<u8>) -> Option<Vec<u8>> {
        match self.srtp_mut() {
            Some(srtp) => srtp.control(&packet),
            None => Some(packet),
        }
    }

    /// Returns the track's SRTP for sealing or opening packets, if it has one.
    pub fn srtp_mut(&mut self) -> Option<&mut TrackSrtp> {
        match self {
            Self::Interleaved { srtp, .. } | Self::Udp { srtp, .. } => srtp.as_deref_mut(),
            Self::Multicast(_) => None,
        }
    }
}

/// The transports of a session's tracks, by the index of the track; tracks that are not
/// set up have none.
#[derive(Debug, Default)]
pub struct TrackTransports(SmallVec<[Option<TrackTransport>; 2]>);

impl TrackTransports {
    /// Returns the transport of a track, if the track is set up.
    pub fn get(&self, track: TrackIndex) -> Option<&TrackTransport> {
        self.0.get(track.get())?.as_ref()
    }

    /// Returns the transport of a track for changes, if the track is set up.
    pub fn get_mut(&mut self, track: TrackIndex) -> Option<&mut TrackTransport> {
        self.0.get_mut(track.get())?.as_mut()
    }

    /// Sets up a track, or sets it up anew.
    pub fn set(&mut self, track: TrackIndex, transport: TrackTransport) {
        let track = track.get();
        if self.0.len() <= track {
            self.0.resize_with(track + 1, || None);
        }
        self.0[track] = Some(transport);
    }

    /// Removes and returns the transport of a track; `None` if it was not set up.
    pub fn remove(&mut self, track: TrackIndex) -> Option<TrackTransport> {
        self.0.get_mut(track.get())?.take()
    }

    /// Removes and returns the SRTP of a track that is set up again.
    pub fn take_srtp(&mut self, track: TrackIndex) -> Option<Box<TrackSrtp>> {
        match self.get_mut(track)? {
            TrackTransport::Interleaved { srtp, .. } | TrackTransport::Udp { srtp, .. } => {
                srtp.take()
            }
            TrackTransport::Multicast(_) => None,
        }
    }

    /// Iterates over the tracks that are set up, with their indices.
    pub fn iter(&self) -> impl Iterator<Item = (TrackIndex, &TrackTransport)> {
        let tracks = TrackIndex::enumerate(&self.0);
        tracks.filter_map(|(track, transport)| Some((track, transport.as_ref()?)))
    }

    /// Iterates over the tracks that are set up, with their indices, for sending.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (TrackIndex, &mut TrackTransport)> {
        let tracks = TrackIndex::enumerate(&mut self.0);
        tracks.filter_map(|(track, transport)| Some((track, transport.as_mut()?)))
    }

    /// Returns the set of tracks that are set up.
    pub fn set_up(&self) -> TrackSet {
        self.iter().map(|(track, _)| track).collect()
    }

    /// Returns the kind of the first track that is set up; a player's tracks are all of one kind.
    pub fn kind(&self) -> Option<TransportKind> {
        self.iter().next().map(|(_, transport)| transport.kind())
    }

    /// Returns whether some track goes by UDP.
    pub fn has_udp(&self) -> bool {
        self.addresses().next().is_some()
    }

    /// Returns whether some track is sealed for this client alone.
    pub fn has_srtp(&self) -> bool {
        self.iter().any(|(_, transport)| transport.srtp().is_some())
    }

    /// Iterates over the client's addresses of tracks that go by UDP.
    pub fn addresses(&self) -> impl Iterator<Item = UdpAddresses> {
        self.iter().filter_map(|(_, transport)| match transport {
            TrackTransport::Udp { addresses, .. } => Some(*addresses),
            _ => None,
        })
    }

    /// Counts the client among the players of its multicast groups, or removes it from the count.
    pub fn set_playing(&mut self, plays: bool) {
        for (_, transport) in self.iter_mut() {
            if let TrackTransport::Multicast(membership) = transport {
                membership.set_playing(plays);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use glassline_media::Ssrc;

    use super::*;

    /// A sender report without blocks.
    const REPORT: [u8; 28] = {
        let mut packet = [0; 28];
        [packet[0], packet[1], packet[3], packet[7]] = [0x80, 200, 6, 9];
        packet
    };

    fn srtp() -> Option<Box<TrackSrtp>> {
        let made = TrackSrtp::new(None, TrackIndex(0), Ssrc(9));
        Some(Box::new(made.expect("own keys")))
    }

    fn interleaved(srtp: Option<Box<TrackSrtp>>) -> TrackTransport {
        let (media, control) = (4, 7);
        let channels = Channels { media, control };
        TrackTransport::Interleaved { channels, srtp }
    }

    fn udp(srtp: Option<Box<TrackSrtp>>) -> TrackTransport {
        let [media, control] = [5000, 5003].map(|port| (Ipv4Addr::LOCALHOST, port).into());
        let addresses = UdpAddresses { media, control };
        TrackTransport::Udp { addresses, srtp }
    }

    #[test]
    fn reports_have_a_channel_or_an_address_of_their_own() {
        let TrackTransport::Interleaved { channels, .. } = interleaved(None) else {
            panic!("interleaved");
        };
        assert_eq!([false, true].map(|it| channels.channel_of(it)), [4, 7]);
        let TrackTransport::Udp { addresses, .. } = udp(None) else {
            panic!("UDP");
        };
        let ports = [false, true].map(|it| addresses.address_of(it).port());
        assert_eq!(ports, [5000, 5003]);
    }

    #[test]
    fn reports_are_sealed_on_tracks_with_keys_and_only_there() {
        for mut clear in [interleaved(None), udp(None)] {
            let sent = clear.seal_control(REPORT.to_vec());
            assert_eq!(sent.as_deref(), Some(&REPORT[..]));
        }
        for mut sealed in [interleaved(srtp()), udp(srtp())] {
            let sent = sealed.seal_control(REPORT.to_vec()).expect("RTCP");
            assert!(sent.len() > REPORT.len() && sent[..8] == REPORT[..8]);
            assert_eq!(sealed.seal_control(vec![1]), None);
        }
    }

    #[test]
    fn transports_are_known_by_their_tracks() {
        let [first, second, third] = [0, 1, 2].map(TrackIndex);
        let mut transports = TrackTransports::default();
        assert_eq!(transports.kind(), None);
        assert!(!transports.has_udp() && !transports.has_srtp());
        transports.set(third, interleaved(None));
        assert_eq!(transports.kind(), Some(TransportKind::Interleaved));
        assert!(transports.get(first).is_none() && transports.get(third).is_some());
        assert!(!transports.has_udp() && transports.addresses().next().is_none());
        transports.set(second, udp(srtp()));
        assert_eq!(transports.kind(), Some(TransportKind::Udp));
        assert!(transports.has_udp() && transports.has_srtp());
        assert_eq!(transports.addresses().count(), 1);
        assert_eq!(transports.set_up(), [second, third].into_iter().collect());
        assert_eq!(transports.iter_mut().count(), 2);
        assert!(transports.take_srtp(first).is_none());
        assert!(transports.take_srtp(third).is_none());
        assert!(transports.take_srtp(second).is_some());
        assert!(!transports.has_srtp() && transports.take_srtp(second).is_none());
        assert!(transports.remove(second).is_some() && transports.remove(second).is_none());
        assert!(transports.get_mut(second).is_none() && transports.get_mut(third).is_some());
        assert_eq!(transports.set_up(), [third].into_iter().collect());
    }
}
