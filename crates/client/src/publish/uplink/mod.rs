//! Uplinks: the publisher's connections to servers.
//!
//! ```text
//!                      ┌► moq:  QUIC streams ────────────── acknowledgements of QUIC
//! Dispatch ─ units ─► Uplink
//!    ▲                 └► PacketizedTracks ─► Outgoing ─► PacketCarrier
//!    └─ Path: backlog,                          ├ whip: ── transport-wide feedback (TWCC)
//!       deliverable rate                        ├ rtsp by TCP: bytes not acknowledged
//!                                               └ rtsp by UDP, whip without TWCC: receiver reports
//! ```
//!
//! Every uplink keeps little in hand, so that what the path does not carry waits in the send queue,
//! and says what the path carries. The rule for the encoder's bitrate is the same for all.

#[cfg(test)]
mod film;
mod layers;
mod moq;
mod outgoing;
mod packetized;
mod rtsp;
mod whip;

use std::fmt;
use std::time::{Duration, Instant};

use glassline_media::{Bitrate, Track};
use glassline_quic::moq::Address;
use glassline_trust::{FingerprintError, Trust};
use glassline_url::WrittenWrong;
use url::Url;

use crate::publish::dispatch::Path;
use crate::publish::queue::SendAction;

pub use rtsp::{Endpoint as RtspEndpoint, RtspError};
pub use whip::{Endpoint, WhipError};

/// Bytes that may wait in front of a session that sends RTP. The rest waits in the send queue, where
/// it can be dropped by the group.
const ROOM_BYTES: u64 = 16 << 10;

/// A publisher's connection to a server, by any protocol.
pub(crate) trait Uplink: Send {
    /// Measurements of the path.
    fn path(&mut self, now: Instant) -> Path;

    /// Figures of the connection for the user.
    fn figures(&self) -> UplinkFigures;

    /// Bytes of media that the connection takes now; 0 if none. A unit may be larger.
    fn room(&mut self) -> u64;

    /// Carries out an action of the send queue.
    ///
    /// # Errors
    /// If the connection has ended.
    fn execute(&mut self, action: SendAction) -> Result<(), Error>;

    /// Tells the server the encoder's bitrate.
    fn tell_bitrate(&mut self, rate: Bitrate);

    /// Whether the server asked for a keyframe since the last call.
    fn take_keyframe_request(&mut self) -> bool;

    /// The reason why the connection ended; `None` while it lasts.
    fn ended(&mut self) -> Option<Error>;

    /// Returns the same stream at other servers, which the server named for the case that it is lost.
    fn alternates(&self) -> Vec<Destination> {
        Vec::new()
    }

    /// Closes the connection; data written before is delivered if that takes less than a
    /// second.
    fn finish(self: Box<Self>) -> futures::BoxFuture<()>;
}

/// The one type of future that is needed here.
pub(crate) mod futures {
    use std::future::Future;
    use std::pin::Pin;

    pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
}

/// Figures of a connection for the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UplinkFigures {
    /// Bytes of packets sent.
    pub sent_bytes: u64,
    /// Bytes of packets acknowledged.
    pub delivered_bytes: u64,
    /// Bytes of packets lost; they were sent again unless they were late.
    pub lost_bytes: u64,
    /// Smoothed round trip time of packets.
    pub transport_rtt: Option<Duration>,
    /// Latest round trip time of a frame, from the queue into the receiving application.
    pub app_rtt: Option<Duration>,
    /// Whether the server takes the stream.
    pub is_wanted: bool,
    /// The feedback that tells the sender about the path; `None` without a connection.
    pub feedback: Option<Feedback>,
}

/// The feedback that tells a sender about its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
#[non_exhaustive]
pub enum Feedback {
    /// Acknowledgements of QUIC.
    #[display("acknowledgements of QUIC")]
    Quic,
    /// Transport-wide feedback of WebRTC (draft-holmer-rmcat-transport-wide-cc-extensions-01).
    #[display("transport-wide feedback (TWCC)")]
    TransportWide,
    /// The count of bytes that TCP has not acknowledged.
    #[display("acknowledgements of TCP")]
    Stream,
    /// Receiver reports (RFC 3550 §6.4).
    #[display("receiver reports")]
    ReceiverReports,
}

impl Feedback {
    /// Returns the name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quic => "quic",
            Self::TransportWide => "transport-wide",
            Self::Stream => "tcp",
            Self::ReceiverReports => "receiver-reports",
        }
    }
}

impl UplinkFigures {
    /// Figures of this connection and the `next` one: sums are added, other values are the
    /// next one's.
    pub(crate) const fn then(self, next: Self) -> Self {
        Self {
            sent_bytes: self.sent_bytes + next.sent_bytes,
            delivered_bytes: self.delivered_bytes + next.delivered_bytes,
            lost_bytes: self.lost_bytes + next.lost_bytes,
            ..next
        }
    }
}

/// Where a stream is published.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Destination {
    /// A server that takes streams by MoQ over QUIC.
    Moq {
        /// Address of the server, and name of the stream.
        address: Address,
        /// Which certificates are accepted.
        trust: Trust,
    },
    /// A server that takes streams by WHIP.
    Whip(Endpoint),
    /// A server that takes streams by RTSP.
    Rtsp(RtspEndpoint),
}

/// Returns whether a path is that of an endpoint that takes offers to send media.
fn is_endpoint(path: &str) -> bool {
    let path = path.trim_end_matches('/');
    path.ends_with("/whip") || path.ends_with("/talk")
}

impl Destination {
    /// Parses `moq://HOST[:PORT]/NAME[?token=…][#sha256=…]`, or the same with `https://`. A URL with
    /// `http://` or `https://` whose path ends in `/whip` is a WHIP endpoint, and one that ends in
    /// `/talk` is a camera that is spoken at; `whip://` and `whips://` are endpoints whatever the path.
    /// `rtsp://[NAME:PASSWORD@]HOST[:PORT]/NAME[?token=…]` is a stream of an RTSP server, `rtsps://` the
    /// same within TLS.
    ///
    /// # Errors
    /// [`DestinationError`] says what is wrong; it never repeats a password.
    pub fn parse(text: &str, trust: Trust) -> Result<Self, DestinationError> {
        let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
        let path = text.split(['?', '#']).next().unwrap_or_default();
        match scheme {
            "http" | "https" if is_endpoint(path) => whip(text, trust),
            "whip" | "whips" => whip(&text.replacen("whip", "http", 1), trust),
            "rtsp" | "rtsps" => rtsp(text, trust),
            "moq" | "moql" | "https" => Ok(Self::Moq {
                address: Address::parse(text)?,
                trust,
            }),
            "" => Err(DestinationError::NoScheme),
            other => Err(DestinationError::Scheme(other.to_owned())),
        }
    }

    /// Returns the same destination with media by UDP instead of TCP.
    ///
    /// # Errors
    /// [`DestinationError::NoChoice`] for anything but `rtsp://`.
    pub fn over_udp(self) -> Result<Self, DestinationError> {
        match self {
            Self::Rtsp(endpoint) => endpoint.over_udp().map(Self::Rtsp),
            _ => None,
        }
        .ok_or(DestinationError::NoChoice)
    }

    /// Returns whether the destination is reached by RTSP.
    pub const fn is_rtsp(&self) -> bool {
        matches!(self, Self::Rtsp(_))
    }

    /// Returns whether the destination takes several encodings of a video.
    pub const fn takes_layers(&self) -> bool {
        matches!(self, Self::Moq { .. } | Self::Whip(_))
    }

    /// Function that says whether the destination carries a track.
    pub const fn carries(&self) -> fn(&Track) -> bool {
        match self {
            Self::Moq { .. } => |track| glassline_quic::moq::is_carried(track.codec),
            Self::Whip(_) => Endpoint::carries,
            Self::Rtsp(_) => RtspEndpoint::carries,
        }
    }

    /// Connects to the destination and announces `tracks`.
    pub(crate) async fn connect(
        &self,
        tracks: &[Track],
        settings: &Settings,
    ) -> Result<Box<dyn Uplink>, Error> {
        match self {
            Self::Moq { address, trust } => {
                let uplink = moq::connect(address, *trust, tracks, settings).await?;
                Ok(Box::new(uplink))
            }
            Self::Whip(endpoint) => {
                let uplink = whip::connect(endpoint, tracks, settings).await?;
                Ok(Box::new(uplink))
            }
            Self::Rtsp(endpoint) => {
                let uplink = rtsp::connect(endpoint, tracks, settings).await?;
                Ok(Box::new(uplink))
            }
        }
    }
}

/// Reads a URL; one that can be read in two ways says how its password is written.
fn understood(text: &str) -> Result<Url, DestinationError> {
    glassline_url::parse(text).map_err(|error| match error.wrong {
        WrittenWrong::Ambiguous { .. } => DestinationError::Ambiguous(error),
        _ => DestinationError::NoScheme,
    })
}

/// Parses the URL of a WHIP endpoint.
fn whip(text: &str, trust: Trust) -> Result<Destination, DestinationError> {
    let mut url = understood(text)?;
    let trust = pinned(&mut url, trust)?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(DestinationError::WhipPassword);
    }
    Ok(Destination::Whip(Endpoint::new(url, trust)))
}

/// Parses the URL of a stream at an RTSP server.
fn rtsp(text: &str, trust: Trust) -> Result<Destination, DestinationError> {
    let mut url = understood(text)?;
    let trust = pinned(&mut url, trust)?;
    if url.path().trim_matches('/').is_empty() {
        return Err(DestinationError::NoName);
    }
    Ok(Destination::Rtsp(RtspEndpoint::new(url, trust)))
}

/// Takes the pin out of a URL (`#sha256=…`). Returns the trust in its place, or `trust` without one.
fn pinned(url: &mut Url, trust: Trust) -> Result<Trust, DestinationError> {
    let fragment = url.fragment().unwrap_or_default();
    let trust = match fragment.strip_prefix("sha256=") {
        Some(pin) => Trust::Pinned(pin.parse().map_err(DestinationError::Pin)?),
        None => trust,
    };
    url.set_fragment(None);
    Ok(trust)
}

impl fmt::Display for Destination {
    /// Shows the destination without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Moq { address, .. } => address.fmt(f),
            Self::Whip(endpoint) => endpoint.fmt(f),
            Self::Rtsp(endpoint) => endpoint.fmt(f),
        }
    }
}

/// Settings of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) algorithm: glassline_congestion::Algorithm,
    /// Age at which media is worthless.
    pub(crate) deadline: Duration,
    /// When media time zero was.
    pub(crate) zero: Instant,
    /// Highest bitrate of the video.
    pub(crate) bitrate_max: Bitrate,
    /// Bitrate of the video at the beginning.
    pub(crate) bitrate_start: Bitrate,
}

/// The text is no [`Destination`]; the user can correct it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DestinationError {
    /// The text is no URL.
    #[error("the destination is not a URL: give one such as moq://host:4443/name?token=…")]
    NoScheme,
    /// The URL can be read in two ways.
    #[error(transparent)]
    Ambiguous(glassline_url::UrlError),
    /// The URL has an unsupported scheme.
    #[error(
        "`{0}://` is not supported as a destination: use moq:// (QUIC), https:// (WebTransport), the \
         URL of a WHIP endpoint, such as http://host:8889/name/whip, or rtsp://host:8554/name"
    )]
    Scheme(String),
    /// The pin behind the URL is none.
    #[error("`#sha256=` behind the URL pins a certificate: {0}")]
    Pin(FingerprintError),
    /// The URL of an RTSP server names no stream.
    #[error("the URL names no stream: give one such as rtsp://host:8554/name")]
    NoName,
    /// UDP was asked for where there is no choice.
    #[error("only rtsp:// has a choice of TCP and UDP: leave --transport out")]
    NoChoice,
    /// The URL has a user name or a password.
    #[error("WHIP has bearer tokens in place of passwords: append ?token=… to the URL")]
    WhipPassword,
    /// The MoQ address is invalid.
    #[error(transparent)]
    Moq(#[from] glassline_quic::moq::AddressError),
}

/// The connection cannot be made, or has ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The connection cannot be made.
    #[error(transparent)]
    Connect(#[from] Box<glassline_quic::moq::ConnectError>),
    /// The connection has ended.
    #[error(transparent)]
    Ended(#[from] glassline_quic::moq::Ended),
    /// The WHIP session cannot be made, or has ended.
    #[error(transparent)]
    Whip(#[from] WhipError),
    /// The RTSP session cannot be made, or has ended.
    #[error(transparent)]
    Rtsp(#[from] RtspError),
    /// A unit cannot be sent.
    #[error("a frame cannot be sent: {0}")]
    Unit(String),
    /// A socket cannot be opened.
    #[error("cannot open a UDP socket: {0}")]
    Socket(std::io::Error),
}

impl Error {
    /// Whether trying again may help: the network failed, or the server restarted.
    pub(crate) fn is_transient(&self) -> bool {
        use glassline_quic::moq::{ConnectError, Ended};
        let network = |ended: &Ended| matches!(ended, Ended::Closed(_) | Ended::Network(_));
        match self {
            Self::Connect(error) => match error.as_ref() {
                ConnectError::Ended(ended) => network(ended),
                ConnectError::Address(_) | ConnectError::NoVersion => false,
                _ => true,
            },
            Self::Ended(ended) => network(ended),
            Self::Whip(error) => error.is_transient(),
            Self::Rtsp(error) => error.is_transient(),
            Self::Unit(_) | Self::Socket(_) => false,
        }
    }

    /// Whether the server, and not this end, ended what worked: it sends nothing any more.
    pub(crate) const fn is_loss(&self) -> bool {
        matches!(self, Self::Whip(WhipError::ServerLost(_)))
    }

    /// Whether another publisher has the stream, which may be this one's former session.
    pub(crate) const fn is_taken(&self) -> bool {
        let refused = whep_status(self);
        matches!(refused, Some(409))
    }
}

/// The status with which a server refused an offer.
const fn whep_status(error: &Error) -> Option<u16> {
    match error {
        Error::Whip(WhipError::Signalling(crate::whep::Error::Refused { status, .. })) => {
            Some(*status)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use glassline_media::Codec;

    use super::*;

    #[test]
    fn destinations_are_moq_or_whip_and_others_are_told_so() {
        let parse = |text: &str| Destination::parse(text, Trust::System);
        let cam = parse("moq://media.example/cam?token=secret").expect("a destination");
        assert_eq!(cam.to_string(), "moq://media.example:4443/cam");
        let carries = |to: &Destination, codec| to.carries()(&Track::new(codec));
        assert!(carries(&cam, Codec::Opus) && !carries(&cam, Codec::Jpeg));
        assert!(parse("https://media.example/cam").is_ok());
        for (text, shown) in [
            ("http://host:8889/cam/whip", "http://host:8889/cam/whip"),
            ("http://host:8889/cam/talk", "http://host:8889/cam/talk"),
            ("https://host/cam/whip/?x", "https://host/cam/whip/"),
            ("whips://host/webRTC/publish", "https://host/webRTC/publish"),
        ] {
            let whip = parse(text).expect(text);
            assert!(matches!(whip, Destination::Whip(_)), "{text}");
            assert_eq!(whip.to_string(), shown);
            assert!(carries(&whip, Codec::Pcma) && !carries(&whip, Codec::Aac));
            let wide = Track::new(Codec::Pcma).with_clock_rate(16_000);
            assert!(!whip.carries()(&wide));
        }
        let refused = |text: &str| parse(text).expect_err(text);
        let password = refused("http://ann:secret@host/cam/whip");
        assert_eq!(password, DestinationError::WhipPassword);
        for text in ["https://host/cam/whip", "rtsps://host/cam"] {
            let pin = "ab".repeat(32);
            let pinned = parse(&format!("{text}#sha256={pin}")).expect(text);
            assert_eq!(pinned.to_string(), text, "without the pin");
            let wrong = parse(&format!("{text}#sha256=ab"));
            let wrong = wrong.expect_err("no fingerprint").to_string();
            assert!(wrong.starts_with("`#sha256=` behind the URL"), "{wrong}");
        }
        let rtsp = parse("rtsp://ann:secret@host/live/cam?token=secret").expect("a destination");
        assert_eq!(rtsp.to_string(), "rtsp://host/live/cam");
        assert!(cam.takes_layers() && !rtsp.takes_layers());
        assert!(!format!("{rtsp:?}").contains("secret"));
        assert!(carries(&rtsp, Codec::Aac) && !carries(&rtsp, Codec::T140));
        let by_udp = rtsp.over_udp().expect("plain RTSP");
        assert!(format!("{by_udp:?}").contains("by UDP"));
        for tcp_only in ["rtsps://host/cam", "moq://host/cam"] {
            let refused = parse(tcp_only).expect(tcp_only).over_udp();
            assert_eq!(refused.expect_err("no UDP"), DestinationError::NoChoice);
        }
        for (text, error) in [
            ("rtsp://host", DestinationError::NoName),
            ("rtsp:///cam", DestinationError::NoScheme),
        ] {
            assert_eq!(refused(text), error);
        }
        assert_eq!(refused("cam"), DestinationError::NoScheme);
        assert!(refused("srt://host/cam").to_string().contains("moq://"));
    }
}
