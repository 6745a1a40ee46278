//! The `Transport` header (RFC 2326 §12.39).

use std::fmt;
use std::net::IpAddr;

use glassline_media::Ssrc;

/// One transport of a track. A header may list several, the best first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transport {
    /// RTP profile of the transport.
    pub profile: Profile,
    /// The protocol that carries RTP.
    pub lower: Lower,
    /// Unicast or multicast; `None` where the header does not say.
    pub delivery: Option<Delivery>,
    /// Interleaved channels of RTP and RTCP in the RTSP connection.
    pub interleaved: Option<(u8, u8)>,
    /// The client's UDP ports of RTP and RTCP, for unicast.
    pub client_port: Option<(u16, u16)>,
    /// The server's UDP ports of RTP and RTCP, for unicast.
    pub server_port: Option<(u16, u16)>,
    /// UDP ports of RTP and RTCP, for multicast.
    pub port: Option<(u16, u16)>,
    /// Time to live in hops, for multicast.
    pub ttl: Option<u8>,
    /// Address that packets go to. Servers should ignore a destination that a client asks for.
    pub destination: Option<String>,
    /// Address that packets come from, if it is not the server's own.
    pub source: Option<String>,
    /// SSRC of the sender.
    pub ssrc: Option<Ssrc>,
    /// Direction of the media; `None` means `PLAY`.
    pub mode: Option<Mode>,
}

/// Profiles of RTP (RFC 3551, 4585, 3711, 5124).
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub enum Profile {
    /// Plain RTP with reports every few seconds: `RTP/AVP` (RFC 3551).
    #[display("RTP/AVP")]
    Avp,
    /// Plain RTP with feedback at any time: `RTP/AVPF` (RFC 4585).
    #[display("RTP/AVPF")]
    Avpf,
    /// SRTP with reports every few seconds: `RTP/SAVP` (RFC 3711).
    #[display("RTP/SAVP")]
    Savp,
    /// SRTP with feedback at any time: `RTP/SAVPF` (RFC 5124).
    #[display("RTP/SAVPF")]
    Savpf,
}

/// Protocol below RTP (`lower-transport` in RFC 2326).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lower {
    /// Media goes by UDP, which is the default of RTSP.
    Udp,
    /// TCP: interleaved in the RTSP connection.
    Tcp,
}

/// Whether media goes to one receiver or to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Media goes to one receiver.
    Unicast,
    /// Media goes to all receivers of a group.
    Multicast,
}

/// Direction of the media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// From server to client.
    Play,
    /// From client to server. `RECEIVE` of older clients has the same meaning.
    Record,
}

/// The multicast group that media is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Address of the group.
    pub address: IpAddr,
    /// UDP ports of RTP and RTCP.
    pub ports: (u16, u16),
    /// Time to live in hops.
    pub ttl: u8,
}

/// Most transports of a list that are read; further ones are ignored.
const TRANSPORTS_MAX: usize = 16;

impl Transport {
    /// Returns the transport that a client asks for to get an interleaved track, with RTP on the channel
    /// `media` and RTCP on the channel `control`.
    pub fn tcp(media: u8, control: u8) -> Self {
        Self {
            delivery: Some(Delivery::Unicast),
            interleaved: Some((media, control)),
            ..Self::new(Lower::Tcp)
        }
    }

    /// Returns the transport that a client asks for to get a track by UDP, with RTP at its port `media`
    /// and RTCP at its port `control`.
    pub fn udp(media: u16, control: u16) -> Self {
        Self {
            delivery: Some(Delivery::Unicast),
            client_port: Some((media, control)),
            ..Self::new(Lower::Udp)
        }
    }

    /// Returns `RTP/AVP` over `lower`, with everything else open.
    pub const fn new(lower: Lower) -> Self {
        Self {
            profile: Profile::Avp,
            lower,
            delivery: None,
            interleaved: None,
            client_port: None,
            server_port: None,
            port: None,
            ttl: None,
            destination: None,
            source: None,
            ssrc: None,
            mode: None,
        }
    }

    /// Parses a header's value: the readable transports in it, in order. Others, such as
    /// `RAW/RAW/UDP`, are left out.
    pub fn parse_list(text: &str) -> Vec<Self> {
        let transports = text.split(',').filter_map(Self::parse);
        transports.take(TRANSPORTS_MAX).collect()
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let (profile, lower) = parse_specifier(parts.next()?)?;
        let mut transport = Self {
            profile,
            ..Self::new(lower)
        };
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            transport.set(&key.trim().to_ascii_lowercase(), value.trim());
        }
        Some(transport)
    }

    /// Sets one parameter; an unreadable value counts as absent.
    fn set(&mut self, key: &str, value: &str) {
        let value = value.trim_matches('"');
        match key {
            "unicast" => self.delivery = Some(Delivery::Unicast),
            "multicast" => self.delivery = Some(Delivery::Multicast),
            "interleaved" => self.interleaved = parse_pair(value, |first: u8| first.checked_add(1)),
            "client_port" => self.client_port = parse_ports(value),
            "server_port" => self.server_port = parse_ports(value),
            "port" => self.port = parse_ports(value),
            "ttl" => self.ttl = value.parse().ok(),
            "destination" => self.destination = word(value),
            "source" => self.source = word(value),
            "ssrc" => self.ssrc = parse_ssrc(value),
            "mode" if value.eq_ignore_ascii_case("play") => self.mode = Some(Mode::Play),
            "mode"
                if ["record", "receive"]
                    .iter()
                    .any(|m| value.eq_ignore_ascii_case(m)) =>
            {
                self.mode = Some(Mode::Record);
            }
            _ => {}
        }
    }
}

fn parse_specifier(text: &str) -> Option<(Profile, Lower)> {
    let mut parts = text.split('/');
    if !parts.next()?.trim().eq_ignore_ascii_case("RTP") {
        return None;
    }
    let profile = match parts.next()?.trim().to_ascii_uppercase().as_str() {
        "AVP" => Profile::Avp,
        "AVPF" => Profile::Avpf,
        "SAVP" => Profile::Savp,
        "SAVPF" => Profile::Savpf,
        _ => return None,
    };
    let lower = match parts.next().map(str::trim) {
        None | Some("") => Lower::Udp,
        Some(lower) if lower.eq_ignore_ascii_case("UDP") => Lower::Udp,
        Some(lower) if lower.eq_ignore_ascii_case("TCP") => Lower::Tcp,
        Some(_) => return None,
    };
    parts.next().is_none().then_some((profile, lower))
}

fn parse_ports(text: &str) -> Option<(u16, u16)> {
    parse_pair(text, |first: u16| first.checked_add(1))
}

/// Parses `5000-5001`, or `5000` alone, whose second number is the next one.
fn parse_pair<T: std::str::FromStr + Copy>(
    text: &str,
    next: impl Fn(T) -> Option<T>,
) -> Option<(T, T)> {
    match text.split_once('-') {
        Some((first, second)) => Some((first.trim().parse().ok()?, second.trim().parse().ok()?)),
        None => {
            let first = text.trim().parse().ok()?;
            Some((first, next(first)?))
        }
    }
}

/// Parses eight hexadecimal digits, or fewer where a server omits leading zeros.
fn parse_ssrc(text: &str) -> Option<Ssrc> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    hex.then(|| u32::from_str_radix(digits, 16).ok().map(Ssrc))
        .flatten()
}

/// Returns an address or name; `None` if it could not be written into a header again.
fn word(text: &str) -> Option<String> {
    let harmless = |byte: u8| byte.is_ascii_graphic() && !b";,\"".contains(&byte);
    (!text.is_empty() && text.bytes().all(harmless)).then(|| text.to_owned())
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.profile)?;
        if self.lower == Lower::Tcp {
            f.write_str("/TCP")?;
        }
        match self.delivery {
            Some(Delivery::Unicast) => f.write_str(";unicast")?,
            Some(Delivery::Multicast) => f.write_str(";multicast")?,
            None => {}
        }
        if let Some((rtp, rtcp)) = self.interleaved {
            write!(f, ";interleaved={rtp}-{rtcp}")?;
        }
        let words = [("destination", &self.destination), ("source", &self.source)];
        for (key, value) in words {
            if let Some(value) = value {
                write!(f, ";{key}={value}")?;
            }
        }
        let ports = [
            ("client_port", self.client_port),
            ("server_port", self.server_port),
            ("port", self.port),
        ];
        for (key, value) in ports {
            if let Some((rtp, rtcp)) = value {
                write!(f, ";{key}={rtp}-{rtcp}")?;
            }
        }
        if let Some(ttl) = self.ttl {
            write!(f, ";ttl={ttl}")?;
        }
        if let Some(ssrc) = self.ssrc {
            write!(f, ";ssrc={:08X}", ssrc.0)?;
        }
        match self.mode {
            Some(Mode::Play) => f.write_str(";mode=\"PLAY\""),
            Some(Mode::Record) => f.write_str(";mode=\"RECORD\""),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn only(text: &str) -> Transport {
        let mut list = Transport::parse_list(text);
        assert_eq!(list.len(), 1, "{text}");
        list.remove(0)
    }

    #[test]
    fn answers_of_live555_gst_and_mediamtx_are_read() {
        let live555 = only(
            "RTP/AVP;unicast;destination=127.0.0.1;source=127.0.0.1;\
             client_port=40000-40001;server_port=6970-6971",
        );
        assert_eq!(live555.client_port, Some((40_000, 40_001)));
        assert_eq!(live555.server_port, Some((6970, 6971)));
        assert_eq!(live555.source.as_deref(), Some("127.0.0.1"));
        let gst = only("RTP/AVP/TCP;unicast;interleaved=0-1;ssrc=0AF92A51;mode=\"PLAY\"");
        assert_eq!(gst.lower, Lower::Tcp);
        assert_eq!(gst.interleaved, Some((0, 1)));
        assert_eq!(
            (gst.ssrc, gst.mode),
            (Some(Ssrc(0x0af9_2a51)), Some(Mode::Play))
        );
        let mediamtx = only("RTP/AVP/UDP;unicast;client_port=5000-5001;server_port=8000-8001");
        assert_eq!((mediamtx.lower, mediamtx.ssrc), (Lower::Udp, None));
    }

    #[test]
    fn odd_spellings_mean_what_they_must() {
        let odd = only("rtp/avp/tcp ; Unicast; INTERLEAVED=2 ;ssrc= ABC;mode=play;layers=1;x");
        assert_eq!(odd.interleaved, Some((2, 3)));
        assert_eq!(odd.delivery, Some(Delivery::Unicast));
        assert_eq!((odd.ssrc, odd.mode), (Some(Ssrc(0xabc)), Some(Mode::Play)));
        let broken = only("RTP/AVP;interleaved=255;client_port=70000-70001;ttl=999;ssrc=-1");
        assert_eq!(broken, Transport::new(Lower::Udp));
    }

    #[test]
    fn a_list_keeps_what_can_be_read() {
        let list = Transport::parse_list(
            "RAW/RAW/UDP;unicast,RTP/SAVP;multicast;port=5000-5001;ttl=15,RTP/AVP/TCP;mode=receive,,RTP/AVP/X",
        );
        assert_eq!(list.len(), 2);
        assert_eq!((list[0].profile, list[0].ttl), (Profile::Savp, Some(15)));
        assert_eq!(list[0].delivery, Some(Delivery::Multicast));
        assert_eq!(list[1].mode, Some(Mode::Record));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            tcp: bool, unicast: Option<bool>, channels: Option<(u8, u8)>,
            ports: [Option<(u16, u16)>; 3], ttl: Option<u8>, ssrc: Option<u32>,
            record: Option<bool>, source in prop::option::of("[a-z0-9.:]{1,20}"),
        ) {
            let transport = Transport {
                delivery: unicast.map(|unicast| {
                    if unicast { Delivery::Unicast } else { Delivery::Multicast }
                }),
                interleaved: channels,
                client_port: ports[0],
                server_port: ports[1],
                port: ports[2],
                ttl,
                source,
                ssrc: ssrc.map(Ssrc),
                mode: record.map(|record| if record { Mode::Record } else { Mode::Play }),
                ..Transport::new(if tcp { Lower::Tcp } else { Lower::Udp })
            };
            prop_assert_eq!(only(&transport.to_string()), transport);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,60}", tail in "[a-z_=0-9;,/-]{0,60}") {
            Transport::parse_list(&text);
            for transport in Transport::parse_list(&format!("RTP/AVP;{tail}")) {
                prop_assert_eq!(only(&transport.to_string()), transport);
            }
        }
    }
}
