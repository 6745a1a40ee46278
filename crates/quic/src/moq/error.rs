//! Errors of a connection and its streams, and their codes on the wire.

use web_transport_proto::{error_from_http3, error_to_http3};

/// Returns an error code on the wire. WebTransport codes occupy a range of HTTP/3 codes
/// (draft-ietf-webtrans-http3 §4.4).
pub(super) fn wire_code(code: u32, is_web: bool) -> noq::VarInt {
    if is_web {
        noq::VarInt::from_u64(error_to_http3(code)).unwrap_or_default()
    } else {
        code.into()
    }
}

fn code_of(wire: noq::VarInt, is_web: bool) -> Option<u32> {
    if is_web {
        error_from_http3(wire.into_inner())
    } else {
        u32::try_from(wire.into_inner()).ok()
    }
}

/// The reason why a connection or a stream has ended.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Error {
    /// The QUIC connection failed.
    #[error(transparent)]
    Connection(#[from] noq::ConnectionError),
    /// The peer closed the session.
    #[error("closed by the peer: {reason} (code {code})")]
    Closed { code: u32, reason: String },
    /// The peer reset or stopped the stream.
    #[error("the peer reset or stopped the stream (code {0:?})")]
    Stream(Option<u32>),
    /// The peer does not support datagrams.
    #[error("the peer does not support datagrams")]
    NoDatagrams,
    /// A message of the peer is longer than any that means something.
    #[error("a message of the peer is too long")]
    Long,
    /// The stream was used after its end.
    #[error("the stream has ended")]
    Gone,
}

impl Error {
    pub(super) fn of(error: noq::ConnectionError, is_web: bool) -> Self {
        if let noq::ConnectionError::ApplicationClosed(close) = &error
            && let Some(code) = code_of(close.error_code, is_web)
        {
            let reason = String::from_utf8_lossy(&close.reason).into_owned();
            return Self::Closed { code, reason };
        }
        Self::Connection(error)
    }

    pub(super) fn stream(code: noq::VarInt, is_web: bool) -> Self {
        Self::Stream(code_of(code, is_web))
    }
}

impl web_transport_trait::Error for Error {
    fn session_error(&self) -> Option<(u32, String)> {
        match self {
            Self::Closed { code, reason } => Some((*code, reason.clone())),
            _ => None,
        }
    }

    fn stream_error(&self) -> Option<u32> {
        match self {
            Self::Stream(code) => *code,
            _ => None,
        }
    }
}
