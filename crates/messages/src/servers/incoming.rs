//! Receives records of another server.

use std::time::Instant;

use bytes::{Bytes, BytesMut};
use glassline_quic::moq::{MessageReceiver, MessageStreamError};

use super::record::{self, HEADER_BYTES, Header, PARAMETERS_BYTES_MAX, RecordError};
use crate::{FirstNumber, PostedContent};

/// Most bytes that are taken from QUIC at once.
const CHUNK_BYTES: usize = 64 << 10;

/// A message of another server.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) first: FirstNumber,
    pub(super) content: IncomingContent,
    /// When the message was posted first, as far as the time of its ways is not counted.
    pub(super) at: Instant,
}

/// The content of an [`Incoming`].
#[derive(Debug)]
pub(super) enum IncomingContent {
    /// The content as it was posted.
    Posted(PostedContent),
    /// The other server left a message out.
    LeftOut,
    /// A message that is larger than this server takes.
    TooLarge,
}

/// The reason why nothing more is received.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum IncomingError {
    #[error(transparent)]
    Stream(#[from] MessageStreamError),
    /// The other server is at fault.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Waits for the next record, with a message of at most `message_bytes`; a larger one is skipped as it
/// comes. Must not be dropped before it is done, unless nothing more is to be received.
pub(super) async fn receive(
    from: &mut MessageReceiver,
    message_bytes: usize,
) -> Result<Incoming, IncomingError> {
    let mut header = [0; HEADER_BYTES];
    if !from.fill(&mut header).await? {
        return Err(MessageStreamError::Ended.into());
    }
    let header = Header::parse(&header)?;
    let takes = header.length <= message_bytes + PARAMETERS_BYTES_MAX;
    let body = body(from, header.length, takes).await?;
    let content = match record::content(header.kind, body) {
        _ if !takes => IncomingContent::TooLarge,
        Ok(Some(PostedContent::Message { message, .. })) if message.data.len() > message_bytes => {
            IncomingContent::TooLarge
        }
        Ok(Some(content)) => IncomingContent::Posted(content),
        Ok(None) => IncomingContent::LeftOut,
        Err(error) => return Err(error.into()),
    };
    let now = Instant::now();
    Ok(Incoming {
        first: header.first,
        content,
        at: now.checked_sub(header.waited).unwrap_or(now),
    })
}

/// Reads `length` bytes, and keeps them if this server `takes` them. Memory is taken for what has come.
async fn body(
    from: &mut MessageReceiver,
    length: usize,
    takes: bool,
) -> Result<Bytes, MessageStreamError> {
    let (mut left, mut body) = (length, BytesMut::new());
    while left > 0 {
        let chunk = from.chunk(left.min(CHUNK_BYTES)).await?;
        left -= chunk.len();
        if takes {
            body.extend_from_slice(&chunk);
        }
    }
    Ok(body.freeze())
}
