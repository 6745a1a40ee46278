//! Choice of one transport among those that a client offers for a track (RFC 2326 §12.39).

use super::{Access, Config, Endpoints, SelectedTransport, SetUp, SrtpPolicy};
use crate::transport::{Delivery, Lower, Profile, Transport};

/// Number of interleaved channels: one byte names them.
const CHANNELS: u16 = 256;

/// The facts that the choice of a transport depends on.
pub(super) struct TransportSelector<'a> {
    pub(super) config: &'a Config,
    pub(super) endpoints: &'a Endpoints,
    /// The tracks that are set up, without the track in question.
    pub(super) others: &'a [SetUp],
    /// Whether the client receives or sends.
    pub(super) access: Access,
}

impl TransportSelector<'_> {
    /// Returns the first acceptable transport of a `Transport` header, and the profile to
    /// answer with; `None` if none is acceptable.
    pub(super) fn choose(&self, offered: &str) -> Option<(SelectedTransport, Profile)> {
        let offered = Transport::parse_list(offered);
        offered.iter().find_map(|transport| {
            let selected = self.accept(transport)?;
            Some((selected, transport.profile))
        })
    }

    fn accept(&self, transport: &Transport) -> Option<SelectedTransport> {
        let is_srtp = matches!(transport.profile, Profile::Savp | Profile::Savpf);
        let policy = match self.endpoints.secure {
            true => self.config.srtp,
            // Without TLS anybody could read the keys.
            false => SrtpPolicy::Off,
        };
        let is_wrong = match policy {
            SrtpPolicy::Off => is_srtp,
            SrtpPolicy::Optional => false,
            SrtpPolicy::Required => !is_srtp && self.access == Access::Read,
        };
        if is_wrong {
            return None;
        }
        // Without a word about delivery it is multicast (RFC 2326 §12.39). A client that names
        // ports of its own nevertheless means unicast.
        let multicast = match transport.delivery {
            Some(delivery) => delivery == Delivery::Multicast,
            None => transport.lower == Lower::Udp && transport.client_port.is_none(),
        };
        match transport.lower {
            Lower::Tcp if multicast => None,
            Lower::Tcp => self.channels(transport.interleaved),
            // Packets of a connection within TLS do not leave it unencrypted.
            Lower::Udp if self.endpoints.secure && !is_srtp => None,
            Lower::Udp if multicast => {
                // A key for one client would be useless to the others of a group.
                let may = self.config.multicast && self.access == Access::Read && !is_srtp;
                may.then_some(SelectedTransport::Multicast)
            }
            Lower::Udp if !self.config.udp => None,
            Lower::Udp => {
                let client_ports = transport.client_port?;
                let are_ports = client_ports.0 != 0 && client_ports.1 != 0;
                // A destination that the client names could be a third party's address.
                are_ports.then_some(SelectedTransport::Udp {
                    client_ports,
                    destination: self.endpoints.peer.ip(),
                })
            }
        }
    }

    /// Returns the channels that the client asks for. If it asks for none, or for channels of
    /// another track, returns the first free pair.
    fn channels(&self, asked: Option<(u8, u8)>) -> Option<SelectedTransport> {
        let free = |channel: u8| {
            !self.others.iter().any(|other| match other.transport {
                SelectedTransport::Interleaved { channels } => {
                    channels.0 == channel || channels.1 == channel
                }
                _ => false,
            })
        };
        let usable = |(rtp, rtcp): &(u8, u8)| rtp != rtcp && free(*rtp) && free(*rtcp);
        let pairs = (0..CHANNELS / 2).filter_map(|pair| {
            let rtp = u8::try_from(pair * 2).ok()?;
            Some((rtp, rtp + 1))
        });
        let channels = asked.into_iter().chain(pairs).find(usable)?;
        Some(SelectedTransport::Interleaved { channels })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::TrackIndex;

    #[test]
    fn srtp_may_leave_the_tls_connection() {
        let udp = "RTP/SAVP;unicast;client_port=6-7";
        let tcp = "RTP/SAVP/TCP;unicast;interleaved=0-1";
        let config = Config {
            srtp: SrtpPolicy::Optional,
            ..Config::default()
        };
        let udp_way = Some(self::udp(6, 7));
        assert_eq!(choose(&config, true, &[], udp), udp_way);
        assert_eq!(choose(&config, true, &[], tcp), Some(self::tcp(0, 1)));
        for offered in [udp, tcp] {
            assert_eq!(
                choose(&config, false, &[], offered),
                None,
                "keys in the clear"
            );
            assert_eq!(choose(&Config::default(), true, &[], offered), None);
        }
        let required = Config {
            srtp: SrtpPolicy::Required,
            ..Config::default()
        };
        let within = "RTP/AVP/TCP;unicast;interleaved=0-1";
        assert_eq!(choose(&config, true, &[], within), Some(self::tcp(0, 1)));
        assert_eq!(choose(&required, true, &[], within), None);
        assert_eq!(choose(&required, true, &[], tcp), Some(self::tcp(0, 1)));
        assert_eq!(choose(&required, false, &[], within), Some(self::tcp(0, 1)));
    }

    fn choose(
        config: &Config,
        secure: bool,
        others: &[SelectedTransport],
        offered: &str,
    ) -> Option<SelectedTransport> {
        let endpoints = Endpoints {
            peer: "192.0.2.7:4000".parse().expect("an address"),
            local: "192.0.2.1:8554".parse().expect("an address"),
            secure,
        };
        let others: Vec<_> = others
            .iter()
            .enumerate()
            .map(|(track, &transport)| SetUp {
                track: TrackIndex(track),
                transport,
            })
            .collect();
        let selector = TransportSelector {
            config,
            endpoints: &endpoints,
            others: &others,
            access: Access::Read,
        };
        selector.choose(offered).map(|(transport, _)| transport)
    }

    const fn tcp(rtp: u8, rtcp: u8) -> SelectedTransport {
        SelectedTransport::Interleaved {
            channels: (rtp, rtcp),
        }
    }

    fn udp(first: u16, second: u16) -> SelectedTransport {
        SelectedTransport::Udp {
            client_ports: (first, second),
            destination: "192.0.2.7".parse().expect("an address"),
        }
    }

    #[test]
    fn the_first_acceptable_way_is_taken() {
        let config = Config::default();
        let cases = [
            ("RTP/AVP/TCP;unicast;interleaved=0-1", Some(tcp(0, 1))),
            ("RTP/AVP/TCP;interleaved=6-9", Some(tcp(6, 9))),
            ("RTP/AVP/TCP;unicast", Some(tcp(0, 1))),
            ("RTP/AVP/TCP;interleaved=5-5", Some(tcp(0, 1))),
            // ffmpeg's and GStreamer's.
            (
                "RTP/AVP/UDP;unicast;client_port=5000-5001",
                Some(udp(5000, 5001)),
            ),
            (
                "RTP/AVP;unicast;client_port=5000-5001,RTP/AVP/TCP;unicast;interleaved=0-1",
                Some(udp(5000, 5001)),
            ),
            (
                "RTP/SAVP;unicast;client_port=5000-5001, RTP/AVP;multicast, RTP/AVP/TCP",
                Some(tcp(0, 1)),
            ),
            ("RTP/AVP;client_port=5000", Some(udp(5000, 5001))),
            (
                "RTP/AVP;unicast;destination=203.0.113.5;client_port=53-54",
                Some(udp(53, 54)),
            ),
            ("RTP/AVP;unicast", None),
            ("RTP/AVP;unicast;client_port=0-1", None),
            ("RTP/AVP;multicast", None),
            ("RTP/AVP", None),
            ("RAW/RAW/UDP;unicast;client_port=5000-5001", None),
            ("", None),
        ];
        for (offered, expected) in cases {
            assert_eq!(choose(&config, false, &[], offered), expected, "{offered}");
        }
    }

    #[test]
    fn nothing_leaves_tls_and_switches_are_heeded() {
        let udp_or_tcp = "RTP/AVP;unicast;client_port=5000-5001,RTP/AVP/TCP";
        let transport = choose(&Config::default(), true, &[], udp_or_tcp);
        assert_eq!(transport, Some(tcp(0, 1)));
        let config = Config {
            udp: false,
            multicast: true,
            ..Config::default()
        };
        assert_eq!(choose(&config, false, &[], udp_or_tcp), Some(tcp(0, 1)));
        let transport = choose(&config, false, &[], "RTP/AVP;multicast;ttl=9");
        assert_eq!(transport, Some(SelectedTransport::Multicast));
        assert_eq!(choose(&config, true, &[], "RTP/AVP;multicast"), None);
    }

    #[test]
    fn channels_are_of_one_track() {
        let config = Config::default();
        let others = [tcp(0, 1), tcp(3, 4)];
        let choose_among =
            |others: &[SelectedTransport], offered| choose(&config, false, others, offered);
        for offered in [
            "RTP/AVP/TCP",
            "RTP/AVP/TCP;interleaved=0-1",
            "RTP/AVP/TCP;interleaved=1-2",
            "RTP/AVP/TCP;interleaved=4-9",
        ] {
            assert_eq!(choose_among(&others, offered), Some(tcp(6, 7)), "{offered}");
        }
        assert_eq!(
            choose_among(&others, "RTP/AVP/TCP;interleaved=2-7"),
            Some(tcp(2, 7))
        );
        let all: Vec<_> = (0..=127).map(|pair| tcp(pair * 2, pair * 2 + 1)).collect();
        assert_eq!(choose_among(&all, "RTP/AVP/TCP"), None);
    }
}
