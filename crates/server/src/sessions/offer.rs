//! An SDP offer with its connection's addresses, and the reasons to refuse it.

use std::net::SocketAddr;

use glassline_egress::webrtc::LayerRequest;
use glassline_hub::{LayerWish, NoSuchLayer, State, Status, Stream, StreamName};
use glassline_media::Kind;
use glassline_transcoding::Hindered;
use glassline_webrtc::AcceptError;
use glassline_webrtc::sdp::{Error, NegotiationError, SessionDescription};

use super::admission::Full;

/// Both ends of the HTTP connection over which a session is negotiated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionAddresses {
    /// Address that the client sends its requests from.
    pub(crate) peer: SocketAddr,
    /// The server's address that the client reached. The client can reach it for media, too.
    pub(crate) local: SocketAddr,
}

/// An SDP offer, and the addresses of the connection that it came over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer<'a> {
    pub(crate) sdp: &'a str,
    pub(crate) connection: ConnectionAddresses,
    /// Whether the viewer asks for video to be transcoded that browsers cannot show.
    pub(crate) transcodes_video: bool,
    /// Layer that the viewer names; `None` to choose by the path.
    pub(crate) layer: Option<&'a LayerWish>,
}

impl<'a> Offer<'a> {
    /// Returns the address of the client that sends the offer.
    pub(crate) const fn client(&self) -> std::net::IpAddr {
        self.connection.peer.ip()
    }

    /// Returns whether the offer is Firefox's, by the user name of its origin line. Firefox sends
    /// nothing to addresses of the loopback interface.
    pub(super) fn is_firefoxs(&self) -> bool {
        self.sdp.lines().any(|line| line.starts_with("o=mozilla"))
    }

    /// Returns an offer that asks for no transcoding of video, and names no layer.
    pub(crate) const fn new(sdp: &'a str, connection: ConnectionAddresses) -> Self {
        Self {
            sdp,
            connection,
            transcodes_video: false,
            layer: None,
        }
    }
}

impl Offer<'_> {
    /// Returns the request for a layer of `stream` with which the viewer begins.
    ///
    /// # Errors
    /// Returns [`NoSuchLayer`] if the stream has none that is meant.
    pub(super) fn layer_request(&self, stream: &Stream) -> Result<LayerRequest, NoSuchLayer> {
        let named = self.layer.map(|wish| stream.named_layer_of_codec(wish));
        Ok(LayerRequest {
            pin: named.transpose()?.map(|it| it.layer),
            height: None,
        })
    }

    /// Returns the kind of the first `m=` section that is not for data channels, such as `video`;
    /// `None` if there is no such section.
    ///
    /// # Errors
    /// Returns an error if the offer is not valid SDP.
    pub(crate) fn media(&self) -> Result<Option<String>, Error> {
        let offer = SessionDescription::parse(self.sdp)?;
        let mut sections = offer.media.into_iter().filter(|media| !media.is_rejected());
        let media = sections.find(|media| media.kind != "application");
        Ok(media.map(|media| media.kind))
    }
}

/// The reason why an offer makes no session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OfferError {
    /// No stream or file has this name.
    #[error("there is no stream called '{0}'")]
    NoStream(String),
    /// A file of the media folder cannot be played.
    #[error("the file '{name}' cannot be played: {why}")]
    BrokenFile {
        /// Name of the file.
        name: String,
        /// The reason, without paths of this machine.
        why: String,
    },
    /// The stream exists but has no tracks at present.
    #[error("stream '{stream}' is {}", status.as_str())]
    NotLive {
        /// Name of the stream.
        stream: StreamName,
        /// Present state of the stream.
        state: State,
        /// The status of the stream as viewers see it.
        status: Status,
    },
    /// No media would reach the peer; holds the reason.
    #[error("{0}")]
    NoMedia(String),
    /// The viewer asks for video to be transcoded, and it cannot be; holds the reason
    /// and the remedy.
    #[error("the video is not transcoded: {0}")]
    NotTranscoded(String),
    /// The stream has no layer that the viewer can mean.
    #[error(transparent)]
    NoLayer(#[from] NoSuchLayer),
    /// The viewer cannot show the video, and would get it transcoded if it asked.
    #[error(transparent)]
    OnRequest(Box<OnRequest>),
    /// The server has as many sessions or handshakes as configured.
    #[error(transparent)]
    Full(#[from] Full),
    /// The offer is malformed, or asks for nothing that the stream can send.
    #[error(transparent)]
    Refused(#[from] AcceptError),
}

/// A refusal that ends once the viewer asks for the video to be transcoded.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub(crate) struct OnRequest {
    pub(crate) why: AcceptError,
    /// The video that the viewer cannot show.
    pub(crate) video: Hindered,
}

impl OfferError {
    /// Returns the error as one that ends once the viewer asks for `video` to be transcoded, if the
    /// error is for want of video that the viewer can show.
    pub(super) fn with_transcoding(self, video: Option<Hindered>) -> Self {
        match (self, video) {
            (
                Self::Refused(
                    why @ AcceptError::Negotiation(
                        NegotiationError::Reordered { .. }
                        | NegotiationError::NothingPlayable { .. }
                        | NegotiationError::NoCodec {
                            kind: Kind::Video, ..
                        },
                    ),
                ),
                Some(video),
            ) => Self::OnRequest(Box::new(OnRequest { why, video })),
            (error, _) => error,
        }
    }
}

impl From<NegotiationError> for OfferError {
    fn from(error: NegotiationError) -> Self {
        Self::Refused(AcceptError::Negotiation(error))
    }
}

impl From<Error> for OfferError {
    fn from(error: Error) -> Self {
        Self::Refused(error.into())
    }
}
