use std::io;
use std::time::Duration;

use glassline_demux::MotionJpegError;
use glassline_rtp::payload::UnsupportedFormat;
use glassline_rtsp::client::{Closed, RefusedKeepAlive};

use super::limits::{KEYFRAME, STEP};
use super::senders::Stranger;
use crate::lack::Lack;
use crate::oversized::{FRAME_MIB_MAX, SMALLER_FRAMES};
use crate::publishing::HubRefusal;

/// Most characters of an error that a camera's text may take.
const REASON_CHARS_MAX: usize = 200;

/// The reason why a camera is down.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The camera's address is unknown or refuses the connection.
    #[error("cannot connect to the camera: {0}")]
    Connect(io::Error),
    /// The camera's address must not be dialled, or the system forbids it.
    #[error("not allowed to connect to the camera: {0}")]
    Forbidden(io::Error),
    /// The TCP connection to the camera broke.
    #[error("the connection to the camera broke: {0}")]
    Connection(io::Error),
    /// No UDP ports are free for the camera's packets.
    #[error("no UDP ports for the camera's packets: {0}")]
    Ports(io::Error),
    /// The camera did not answer in time.
    #[error("the camera did not {what} within {} s", STEP.as_secs())]
    NoAnswer {
        /// Request that stayed without answer, as the end of a sentence.
        what: &'static str,
    },
    /// The camera refused a request or sent invalid RTSP.
    #[error("{0}")]
    Rtsp(String),
    /// The camera refused the credentials (status 401 or 403).
    #[error("the camera refuses the credentials: check user and password in its URL")]
    Refused,
    /// The camera answered a request over HTTP with 401 or 403.
    #[error("the camera answered {code}: user or password is wrong, or the user may not watch")]
    RefusedByHttp {
        /// Status of the answer.
        code: u16,
    },
    /// The camera wants credentials, and its source has none.
    #[error(
        "the camera answered 401: it wants a user and a password, as in http://USER:PASSWORD@HOST/…"
    )]
    NoCredentials,
    /// The camera wants credentials of another scheme than Basic and Digest.
    #[error("the camera answered 401 and asks neither for Basic nor for Digest credentials")]
    UnknownChallenge,
    /// The exchange over HTTP failed, or the answer has no media.
    #[error("the camera over HTTP: {0}")]
    Http(String),
    /// The answer is something else than media.
    #[error(
        "the camera answered with '{media_type}', which is neither frames (multipart/x-mixed-replace, \
         image/jpeg) nor an MPEG transport stream (video/mp2t): check the path of its URL"
    )]
    NoMedia {
        /// Media type of the answer.
        media_type: String,
    },
    /// The body has no Motion JPEG.
    #[error("the camera's frames: {0}")]
    Frames(MotionJpegError),
    /// The body brings no picture.
    #[error("the camera answered, but with no whole JPEG picture of at most 16 MiB within {} s", KEYFRAME.as_secs())]
    NoFrame,
    /// The pictures have a form that cannot be sent on.
    #[error("{0}; choose a smaller size, or baseline JPEG, in the camera")]
    Uncarried(String),
    /// The transport stream is damaged, or has nothing that is played.
    #[error(transparent)]
    Demux(#[from] glassline_demux::Error),
    /// The camera has no stream of this path (status 404).
    #[error("the camera has no stream at this path (404): check the end of its URL")]
    NoSuchPath,
    /// The camera offers only media that the server cannot carry.
    #[error("the camera offers no media that this server can carry: {offered}")]
    NothingUsable {
        /// Codecs and formats that the camera offers.
        offered: String,
    },
    /// The connection is open, but no packets arrive.
    #[error("no packet from the camera for {} s{}", timeout.as_secs_f64(), but(*.stranger))]
    Silent {
        /// Time without a packet.
        timeout: Duration,
        /// Sender of datagrams that were not taken, if there was one.
        stranger: Option<Stranger>,
    },
    /// A redirection of the camera is not followed.
    #[error("{0}")]
    Redirection(String),
    /// The URL that the camera redirected to asks for credentials, which are not for it.
    #[error(
        "it asks for a user and a password, and those of the source go neither to another host nor from \
         TLS to a URL without; give the source {target}"
    )]
    Withheld {
        /// URL that the camera redirected to.
        target: String,
    },
    /// The URL that the camera redirected to fails.
    #[error("redirected to {target}: {failure}")]
    Redirected {
        /// URL that the camera redirected to.
        target: String,
        /// Failure at that URL.
        failure: Box<Self>,
    },
    /// The camera's certificate is not trusted.
    #[error("{0}")]
    Tls(String),
    /// The TLS handshake failed for another reason than the certificate.
    #[error("no TLS with the camera: {0}; a camera without TLS is rtsp://…")]
    Handshake(String),
    /// Media stopped after the camera had refused keep-alives.
    #[error("{failure}, after the camera {refused}")]
    AfterKeepAlive {
        /// Failure after the refusal.
        failure: Box<Self>,
        /// Keep-alive that the camera refused.
        refused: RefusedKeepAlive,
    },
    /// The camera closed the connection.
    #[error("the camera closed the connection")]
    HungUp,
    /// Frames arrive, but none that a decoder can start with.
    #[error("no keyframe with parameter sets within {} s{lack}", KEYFRAME.as_secs())]
    NoKeyframe {
        /// Reason why no frame could be the first.
        lack: Lack,
    },
    /// Frames arrive, but those that a decoder could start with are too large to be received.
    #[error(
        "no keyframe of at most {FRAME_MIB_MAX} MiB within {} s, and {dropped} larger frames were \
         dropped: {SMALLER_FRAMES}",
        KEYFRAME.as_secs()
    )]
    FramesTooLarge {
        /// Number of frames that were dropped.
        dropped: u64,
    },
    /// The payload format of a track is not supported. Tracks are checked before, so this means
    /// that the check and the depacketizer disagree.
    #[error(transparent)]
    Format(#[from] UnsupportedFormat),
    /// The hub refused the stream.
    #[error(transparent)]
    Hub(#[from] HubRefusal),
}

impl Failure {
    /// The camera takes nothing of what is sent.
    pub(super) const UNREAD: Self = Self::NoAnswer {
        what: "read a request",
    };

    /// Returns the failure as that of `target`, to which the camera redirected.
    pub(super) fn at_target(self, target: String) -> Self {
        match self {
            // A redirection that is not followed has its URLs in it.
            Self::Redirection(_) | Self::Redirected { .. } => self,
            other => Self::Redirected {
                target,
                failure: Box::new(other),
            },
        }
    }

    /// Returns whether trying again soon does harm: cameras lock users out after repeated failures.
    pub fn is_lasting(&self) -> bool {
        match self {
            Self::Redirected { failure, .. } => failure.is_lasting(),
            other => matches!(
                other,
                Self::Refused
                    | Self::RefusedByHttp { .. }
                    | Self::NoCredentials
                    | Self::Forbidden(_)
                    | Self::Tls(_)
            ),
        }
    }

    /// Returns whether the camera stopped sending, by its own will or because it is gone.
    pub const fn is_silence(&self) -> bool {
        matches!(
            self,
            Self::Silent { .. } | Self::HungUp | Self::Connection(_)
        )
    }

    /// Returns the failure that an error of the HTTP connection is.
    pub(super) fn of_http(error: &hyper::Error) -> Self {
        if error.is_incomplete_message() || error.is_closed() {
            return Self::HungUp;
        }
        // The library's text names the layer, and its cause what happened there.
        let cause = std::error::Error::source(error).map(|it| format!(": {it}"));
        let text = format!("{error}{}", cause.unwrap_or_default());
        Self::Http(text.chars().take(REASON_CHARS_MAX).collect())
    }

    /// Returns the failure that the end of an RTSP session is.
    pub fn of(reason: Closed) -> Self {
        match reason {
            Closed::CredentialsMissing | Closed::CredentialsRefused { .. } => Self::Refused,
            Closed::Refused { status, .. } if matches!(status.0, 401 | 403) => Self::Refused,
            Closed::Refused { status, .. } if status.0 == 404 => Self::NoSuchPath,
            Closed::ByServer | Closed::ConnectionEnded { waiting_for: None } => Self::HungUp,
            Closed::NoResponse { after, .. } => Self::Rtsp(format!(
                "the camera did not answer within {} s",
                after.as_secs()
            )),
            other => {
                // The server of an RTSP session is the camera.
                let text = other.to_string().replace("the server", "the camera");
                Self::Rtsp(text.chars().take(REASON_CHARS_MAX).collect())
            }
        }
    }
}

/// Says who sends datagrams that are not taken.
fn but(stranger: Option<Stranger>) -> String {
    match stranger {
        None => String::new(),
        Some(Stranger::Unnamed { from, named }) => format!(
            "; datagrams of {from} were not taken, because the camera named {named} as their source"
        ),
        Some(Stranger::OtherFormat { from }) => format!(
            "; datagrams of {from} were not taken, because they have another payload type or SSRC than \
             the camera said"
        ),
        Some(Stranger::Misdirected {
            answered: (media, control),
        }) => format!(
            "; the camera answered SETUP that it sends to the ports {media} and {control}, which are not \
             those that it was asked for: use transport=tcp"
        ),
        Some(Stranger::Second { from, first }) => {
            format!("; datagrams of {from} were not taken, because the stream came from {first}")
        }
    }
}

#[cfg(test)]
mod tests {
    use glassline_rtsp::message::{Method, Status};

    use super::*;

    #[test]
    fn what_a_camera_answers_says_what_is_wrong() {
        let refused = |status| {
            Failure::of(Closed::Refused {
                method: Method::Describe,
                status: Status(status),
                reason: "no".to_owned(),
            })
        };
        for status in [401, 403] {
            let failure = refused(status);
            assert!(matches!(failure, Failure::Refused) && failure.is_lasting());
        }
        assert!(matches!(refused(404), Failure::NoSuchPath));
        assert!(!refused(404).is_lasting());
        let other = refused(453);
        assert!(
            matches!(&other, Failure::Rtsp(text) if text.contains("453")),
            "{other}"
        );
        assert!(matches!(Failure::of(Closed::ByServer), Failure::HungUp));
        let waiting_for = Some(Method::Setup);
        let ended = Failure::of(Closed::ConnectionEnded { waiting_for });
        assert_eq!(
            ended.to_string(),
            "the camera closed the connection instead of answering SETUP"
        );
        let unanswered = Failure::of(Closed::NoResponse {
            method: Method::Setup,
            after: Duration::from_secs(5),
        });
        assert_eq!(
            unanswered.to_string(),
            "the camera did not answer within 5 s"
        );
        let silent = Failure::AfterKeepAlive {
            failure: Box::new(Failure::Silent {
                timeout: Duration::from_secs(5),
                stranger: None,
            }),
            refused: RefusedKeepAlive {
                method: Method::Options,
                answer: Some((Status(454), "Session Not Found".to_owned())),
            },
        };
        assert_eq!(
            silent.to_string(),
            "no packet from the camera for 5 s, after the camera answered the keep-alive OPTIONS with \
             454 Session Not Found"
        );
        assert!(!silent.is_lasting());
    }
}
