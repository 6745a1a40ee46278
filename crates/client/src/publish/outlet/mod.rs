//! Where a stream goes.

mod moq;

use std::fmt;
use std::time::{Duration, Instant};

use glassline_media::{Bitrate, Codec, Track};
use glassline_quic::Trust;
use glassline_quic::moq::Address;

use crate::publish::dispatch::Path;
use crate::publish::queue::Order;

/// The publisher's end of a protocol, connected.
pub(crate) trait Outlet: Send {
    /// What its path is like.
    fn path(&mut self, now: Instant) -> Path;

    /// What is to be shown of it.
    fn shown(&self) -> Shown;

    /// Bytes of media that it takes now; 0 for none. A unit may be larger.
    fn room(&mut self) -> u64;

    /// Does as the queue says.
    ///
    /// # Errors
    /// It is over.
    fn execute(&mut self, order: Order) -> Result<(), Error>;

    /// Tells the other end what the encoder is told.
    fn tell_bitrate(&mut self, rate: Bitrate);

    /// The other end asked for a keyframe since the last call.
    fn take_keyframe_request(&mut self) -> bool;

    /// Why it is over, if it is.
    fn ended(&mut self) -> Option<Error>;

    /// Says goodbye; what it was given is delivered if that takes no second.
    fn finish(self: Box<Self>) -> futures::BoxFuture<()>;
}

/// The one type of future that is needed here.
pub(crate) mod futures {
    use std::future::Future;
    use std::pin::Pin;

    pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
}

/// What a user sees of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Bytes of packets sent.
    pub sent_bytes: u64,
    /// Of these, acknowledged.
    pub delivered_bytes: u64,
    /// Of these, lost, and so sent again unless they were late.
    pub lost_bytes: u64,
    /// The smoothed round trip of packets.
    pub transport_rtt: Option<Duration>,
    /// The latest round trip of a frame, from the queue into the other application.
    pub app_rtt: Option<Duration>,
    /// The other end takes the stream.
    pub is_wanted: bool,
}

impl Shown {
    /// Of the next connection as well: sums go on, the rest is the newer one's.
    pub(crate) const fn then(self, next: Self) -> Self {
        Self {
            sent_bytes: self.sent_bytes + next.sent_bytes,
            delivered_bytes: self.delivered_bytes + next.delivered_bytes,
            lost_bytes: self.lost_bytes + next.lost_bytes,
            ..next
        }
    }
}

/// Where to publish.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Destination {
    /// A server that speaks MoQ.
    Moq {
        /// Which, and the stream's name there.
        address: Address,
        /// Whom it may be.
        trust: Trust,
    },
}

impl Destination {
    /// Reads `moq://HOST[:PORT]/NAME[?token=…][#sha256=…]` or the same as `https://`.
    ///
    /// # Errors
    /// [`DestinationError`] says what is wrong; it never repeats a password.
    pub fn parse(text: &str, trust: Trust) -> Result<Self, DestinationError> {
        let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
        let path = text.split(['?', '#']).next().unwrap_or_default();
        match scheme {
            "http" | "https" if path.trim_end_matches('/').ends_with("/whip") => {
                Err(DestinationError::Whip)
            }
            "moq" | "moql" | "https" => Ok(Self::Moq {
                address: Address::parse(text)?,
                trust,
            }),
            "" => Err(DestinationError::NoScheme),
            other => Err(DestinationError::Scheme(other.to_owned())),
        }
    }

    /// Whether streams of `codec` can go there.
    pub const fn carries(&self) -> fn(Codec) -> bool {
        match self {
            Self::Moq { .. } => glassline_quic::moq::is_carried,
        }
    }

    /// Connects and offers `tracks`.
    pub(crate) async fn connect(
        &self,
        tracks: &[Track],
        settings: &Settings,
    ) -> Result<Box<dyn Outlet>, Error> {
        match self {
            Self::Moq { address, trust } => {
                let outlet = moq::connect(address, trust, tracks, settings).await?;
                Ok(Box::new(outlet))
            }
        }
    }
}

impl fmt::Display for Destination {
    /// Without what may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Moq { address, .. } => address.fmt(f),
        }
    }
}

/// What a connection is set up with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) algorithm: glassline_congestion::Algorithm,
    /// What is older is worth nothing.
    pub(crate) deadline: Duration,
    /// Media time zero.
    pub(crate) zero: Instant,
    /// The most that the frames take.
    pub(crate) bitrate_max: Bitrate,
}

/// A text is no [`Destination`]. The user's to mend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DestinationError {
    /// Not a URL.
    #[error("the destination is no URL: give one such as moq://host:4443/name?token=…")]
    NoScheme,
    /// Another protocol.
    #[error("`{0}://` is no destination: use moq:// (QUIC) or https:// (WebTransport)")]
    Scheme(String),
    /// WHIP has no publishing end here.
    #[error(
        "WHIP is not spoken by `publish`: use moq://host:4443/name, or a WHIP client such as \
         GStreamer's whipclientsink"
    )]
    Whip,
    /// MoQ.
    #[error(transparent)]
    Moq(#[from] glassline_quic::moq::AddressError),
}

/// A connection cannot be made, or is over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be made.
    #[error(transparent)]
    Connect(#[from] Box<glassline_quic::moq::ConnectError>),
    /// It is over.
    #[error(transparent)]
    Ended(#[from] glassline_quic::moq::Ended),
    /// A unit that cannot be sent.
    #[error("a unit that cannot be sent: {0}")]
    Unit(String),
    /// No socket.
    #[error("cannot open a UDP socket: {0}")]
    Socket(std::io::Error),
}

impl Error {
    /// Another try may succeed: the network, or a server that was started anew.
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
            Self::Unit(_) | Self::Socket(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_moq_and_others_are_told_so() {
        let parse = |text: &str| Destination::parse(text, Trust::System);
        let cam = parse("moq://media.example/cam?token=secret").expect("a destination");
        assert_eq!(cam.to_string(), "moq://media.example:4443/cam");
        assert!(cam.carries()(Codec::Opus) && !cam.carries()(Codec::Jpeg));
        assert!(parse("https://media.example/cam").is_ok());
        let refused = |text: &str| parse(text).expect_err(text);
        assert_eq!(refused("http://host:8889/cam/whip"), DestinationError::Whip);
        assert_eq!(refused("https://host/cam/whip?x"), DestinationError::Whip);
        assert_eq!(refused("cam"), DestinationError::NoScheme);
        assert!(refused("srt://host/cam").to_string().contains("moq://"));
    }
}
