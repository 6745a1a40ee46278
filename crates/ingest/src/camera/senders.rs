//! Whose datagrams are taken for a track by UDP.

use std::net::{IpAddr, SocketAddr};

use glassline_media::Ssrc;
use glassline_rtp::Header;

/// The sender of a track's RTP and RTCP.
///
/// Media comes from the address that the camera named as its source, or from the camera itself. Where no
/// source was named, it may come from anywhere. The first datagram with a payload type of the track, and
/// with the SSRC that was announced, says from where; from then on nobody else is heard.
#[derive(Debug)]
pub(super) struct Senders {
    camera: IpAddr,
    /// The source that the camera named, if that is another address than its own.
    named: Option<IpAddr>,
    ssrc: Option<Ssrc>,
    payload_types: Vec<u8>,
    media: Option<SocketAddr>,
    control: Option<SocketAddr>,
    /// The latest sender that was not taken.
    stranger: Option<Stranger>,
}

/// A sender whose datagrams are not taken, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stranger {
    /// The camera named another source.
    Unnamed { from: IpAddr, named: IpAddr },
    /// The datagrams are none of the track.
    OtherFormat { from: IpAddr },
    /// The camera answered that it sends to other ports than it was asked to.
    Misdirected { answered: (u16, u16) },
    /// The track has a sender.
    Second { from: SocketAddr, first: SocketAddr },
}

impl Senders {
    /// Creates the state for a track of the camera at `camera` that has these payload types. The camera
    /// said in its response to SETUP what the `named` source and the SSRC are.
    pub(super) fn new(
        camera: IpAddr,
        named: Option<IpAddr>,
        ssrc: Option<Ssrc>,
        payload_types: Vec<u8>,
    ) -> Self {
        Self {
            camera,
            // Cameras behind a NAT name what nobody else can reach, or nothing.
            named: named.filter(|ip| *ip != camera && !ip.is_unspecified()),
            ssrc,
            payload_types,
            media: None,
            control: None,
            stranger: None,
        }
    }

    /// Returns whether a datagram on the port of RTP is the track's.
    pub(super) fn takes_media(&mut self, from: SocketAddr, bytes: &[u8]) -> bool {
        if let Some(first) = self.media {
            if first != from {
                self.stranger = Some(Stranger::Second { from, first });
            }
            return first == from;
        }
        let is_known = self.knows(from.ip());
        if let Some(named) = self.named.filter(|_| !is_known) {
            let from = from.ip();
            self.stranger = Some(Stranger::Unnamed { from, named });
            return false;
        }
        let Ok(header) = Header::parse(bytes) else {
            return false;
        };
        // What a camera says of its own SSRC is often wrong.
        let is_ssrc = is_known || self.ssrc.is_none_or(|ssrc| ssrc == header.ssrc);
        if is_ssrc && self.payload_types.contains(&header.payload_type) {
            self.media = Some(from);
            self.stranger = None;
            return true;
        }
        if !is_known {
            let from = from.ip();
            self.stranger = Some(Stranger::OtherFormat { from });
        }
        // What else comes from a known address is judged like packets within the connection.
        is_known
    }

    /// Returns whether a datagram on the port of RTCP is the track's: it comes from the host of the
    /// media, or from a known one before any media.
    pub(super) fn takes_control(&mut self, from: SocketAddr, bytes: &[u8]) -> bool {
        let is_host = match self.media {
            Some(media) => media.ip() == from.ip(),
            None => self.knows(from.ip()),
        };
        if !is_host || !is_rtcp(bytes) {
            return false;
        }
        // Media of another host makes an earlier sender a stranger.
        let first = self.control.filter(|first| first.ip() == from.ip());
        *self.control.insert(first.unwrap_or(from)) == from
    }

    /// Returns where reports go, if the camera named its ports as `server`.
    pub(super) fn report_to(&self, server: Option<(u16, u16)>) -> Option<SocketAddr> {
        let host = self
            .media
            .map_or(self.named.unwrap_or(self.camera), |it| it.ip());
        let named = server.map(|(_, control)| SocketAddr::new(host, control));
        // By convention RTCP has the port above (RFC 3550 §11).
        let above = |media: SocketAddr| {
            let port = media.port().checked_add(1)?;
            Some(SocketAddr::new(media.ip(), port))
        };
        named
            .or(self.control)
            .or_else(|| self.media.and_then(above))
    }

    /// Returns the latest sender that was not taken.
    pub(super) const fn stranger(&self) -> Option<Stranger> {
        self.stranger
    }

    /// Returns whether media has come.
    pub(super) const fn is_heard(&self) -> bool {
        self.media.is_some()
    }

    fn knows(&self, ip: IpAddr) -> bool {
        ip == self.camera || Some(ip) == self.named
    }
}

/// Returns whether the bytes begin like RTCP (RFC 5761 §4).
fn is_rtcp(bytes: &[u8]) -> bool {
    matches!(bytes, [first, 192..=223, _, _, ..] if first >> 6 == 2)
}

#[cfg(test)]
mod tests {
    use glassline_rtp::{HEADER_BYTES, write_header};
    use proptest::prelude::{any, prop, proptest};

    use super::*;

    const REPORT: [u8; 8] = [0x80, 200, 0, 1, 0, 0, 0, 7];

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    fn at(last: u8, port: u16) -> SocketAddr {
        SocketAddr::new(ip(last), port)
    }

    fn packet(payload_type: u8, ssrc: u32) -> Vec<u8> {
        let header = Header {
            marker: false,
            payload_type,
            sequence: 1,
            timestamp: 2,
            ssrc: Ssrc(ssrc),
        };
        let mut packet = vec![0; HEADER_BYTES];
        write_header(&mut packet, &header, &[]);
        packet
    }

    fn make(named: Option<IpAddr>, ssrc: Option<u32>) -> Senders {
        Senders::new(ip(1), named, ssrc.map(Ssrc), vec![96, 97])
    }

    #[test]
    fn media_of_another_address_is_taken_from_the_first_sender_only() {
        let mut senders = make(None, None);
        assert!(
            !senders.takes_media(at(3, 9), &packet(8, 7)),
            "not its type"
        );
        assert!(!senders.takes_media(at(3, 9), b"noise"));
        assert!(
            senders.takes_media(at(1, 8), &packet(8, 7)),
            "of the camera"
        );
        assert!(!senders.takes_media(at(1, 8), b"noise"));
        assert!(!senders.takes_control(at(2, 9), &REPORT), "unknown so far");
        assert!(senders.takes_media(at(2, 9), &packet(96, 7)));
        for stranger in [at(3, 9), at(1, 9), at(2, 10)] {
            assert!(!senders.takes_media(stranger, &packet(96, 7)), "{stranger}");
        }
        assert!(senders.takes_media(at(2, 9), &packet(13, 8)), "as it likes");
        assert!(!senders.takes_control(at(1, 10), &REPORT));
        assert!(!senders.takes_control(at(2, 10), b"noise"));
        assert!(senders.takes_control(at(2, 10), &REPORT));
        assert!(!senders.takes_control(at(2, 11), &REPORT));
        assert_eq!(senders.report_to(None), Some(at(2, 10)));
        assert_eq!(senders.report_to(Some((4, 5))), Some(at(2, 5)));
    }

    #[test]
    fn an_announced_ssrc_keeps_others_out() {
        let mut senders = make(None, Some(7));
        assert!(!senders.takes_media(at(3, 9), &packet(96, 8)));
        let refused = Some(Stranger::OtherFormat { from: ip(3) });
        assert_eq!(senders.stranger(), refused);
        assert!(senders.takes_media(at(2, 9), &packet(97, 7)));
        assert_eq!(senders.stranger(), None);
        let mut of_camera = make(None, Some(7));
        assert!(
            of_camera.takes_media(at(1, 9), &packet(96, 8)),
            "it is wrong"
        );
    }

    #[test]
    fn a_named_source_is_the_only_other_address() {
        let mut senders = make(Some(ip(2)), None);
        assert!(!senders.takes_media(at(3, 9), &packet(96, 7)));
        let (from, named) = (ip(3), ip(2));
        let refused = Some(Stranger::Unnamed { from, named });
        assert_eq!(senders.stranger(), refused);
        assert!(senders.takes_control(at(2, 8), &REPORT), "before media");
        assert_eq!(senders.report_to(Some((4, 5))), Some(at(2, 5)));
        assert!(
            senders.takes_media(at(1, 9), &packet(96, 7)),
            "behind a NAT"
        );
        assert!(!senders.takes_control(at(2, 8), &REPORT));
        assert!(senders.takes_control(at(1, 8), &REPORT));
        let any = IpAddr::from([0, 0, 0, 0]);
        let mut anywhere = make(Some(any), None);
        assert!(anywhere.takes_media(at(3, 9), &packet(96, 7)));
    }

    proptest! {
        /// Whatever comes from wherever, a track has one sender of its format at most.
        #[test]
        fn one_sender_is_heard(
            datagrams in prop::collection::vec((1u8..4, 1u16..3, prop::collection::vec(any::<u8>(), 0..16)), 0..60),
            named in prop::option::of(1u8..4),
        ) {
            let mut senders = make(named.map(ip), None);
            let mut heard = std::collections::BTreeSet::new();
            for (host, port, mut bytes) in datagrams {
                // Half of them look like RTP.
                if bytes.len() >= HEADER_BYTES && bytes[0] & 1 == 0 {
                    bytes[0] = 0x80;
                    bytes[1] = 96;
                }
                let is_format = bytes.get(1) == Some(&96);
                if senders.takes_media(at(host, port), &bytes) && is_format {
                    heard.insert((host, port));
                }
                senders.takes_control(at(host, port), &bytes);
            }
            assert!(heard.len() <= 1, "{heard:?}");
        }
    }
}
