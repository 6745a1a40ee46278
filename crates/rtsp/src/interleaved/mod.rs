//! Messages and binary frames in one byte stream (RFC 2326 §10.12).
//!
//! ```text
//! '$' │ channel │ length, 2 bytes │ payload        RTSP/1.0 200 OK … │ body
//! ```
//!
//! [`Demultiplexer`] examines bytes in place and says what stands at their front. [`Reader`]
//! adds the memory for a stream that is cut anywhere: part of one item, never a copy of whole
//! ones.

use std::ops::Range;

use thiserror::Error;

use crate::message::{self, Beginning, Limits, Message, Method, ParseError, Parsed};

mod reader;

pub use reader::{Item, Reader};

/// Bytes of the header of an interleaved frame.
pub const HEADER_BYTES: usize = 4;

/// First byte of an interleaved frame (RFC 2326 §10.12).
pub const MARK: u8 = b'$';

/// Returns the header of a frame with `length` bytes of payload on `channel`.
pub const fn header(channel: u8, length: u16) -> [u8; HEADER_BYTES] {
    let [high, low] = length.to_be_bytes();
    [MARK, channel, high, low]
}

/// Appends a frame to `out`. Returns false, and appends nothing, if the payload has more than
/// 65,535 bytes.
pub fn write_frame(out: &mut Vec<u8>, channel: u8, payload: &[u8]) -> bool {
    let Ok(length) = u16::try_from(payload.len()) else {
        return false;
    };
    out.extend_from_slice(&header(channel, length));
    out.extend_from_slice(payload);
    true
}

/// Bytes that are neither a frame nor a message. The peer is at fault; close the connection.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// A message that exceeds the limits or is malformed.
    #[error(transparent)]
    Message(#[from] ParseError),
    /// Other bytes, and more of them than may be skipped.
    #[error(
        "{bytes} bytes are neither an interleaved frame nor a message; the first is {first:#04x}"
    )]
    Garbage {
        /// Number of such bytes, up to where reading stopped.
        bytes: usize,
        /// The first of these bytes.
        first: u8,
    },
}

/// The item at the front of the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A complete interleaved frame.
    Frame {
        /// The channel that the frame is for.
        channel: u8,
        /// Range of the payload in the bytes; the frame ends with it.
        payload: Range<usize>,
    },
    /// A complete RTSP message.
    Message {
        /// Message that was read.
        message: Message,
        /// Number of bytes that the message takes.
        consumed: usize,
    },
    /// Bytes without a meaning: empty lines between messages, or garbage before the next
    /// readable item.
    Skipped {
        /// Number of bytes to skip.
        consumed: usize,
    },
    /// The bytes hold only part of an item.
    Incomplete {
        /// Least number of bytes that the item needs, counted from its first.
        needed: usize,
    },
}

/// Distinguishes frames from messages at the front of bytes, which stay where they are.
///
/// After garbage, reading continues at the next plausible item: a frame on a channel in use, a
/// status line, or a known method. Some servers drop what a full socket does not take, so part
/// of a frame is lost; the reader recovers within one or two packets.
#[derive(Clone, Debug)]
pub struct Demultiplexer {
    limits: Limits,
    garbage_bytes_max: usize,
    channel_max: u8,
    /// Number of bytes of an incomplete head that were searched for its end.
    searched: usize,
    /// Whether the first line was found to be that of a message.
    line_checked: bool,
    /// Bytes skipped since the last frame or message.
    skipped: usize,
    /// The first byte skipped since the last frame or message.
    first_skipped: u8,
    skipped_total: u64,
}

impl Demultiplexer {
    /// Creates a demultiplexer.
    ///
    /// `garbage_bytes_max`: most bytes to skip between two readable items before they are an
    /// error. With 0 the first such byte is an error, which suits a server.
    pub const fn new(limits: Limits, garbage_bytes_max: usize) -> Self {
        Self {
            limits,
            garbage_bytes_max,
            channel_max: u8::MAX,
            searched: 0,
            line_checked: false,
            skipped: 0,
            first_skipped: 0,
            skipped_total: 0,
        }
    }

    /// Sets the highest channel in use: after garbage, `$` and a higher channel are garbage,
    /// too.
    pub(crate) const fn set_channel_max(&mut self, channel: u8) {
        self.channel_max = channel;
    }

    /// Returns the number of bytes skipped since the start.
    pub const fn skipped(&self) -> u64 {
        self.skipped_total
    }

    /// Returns what stands at the front of `bytes`.
    ///
    /// After [`Step::Incomplete`], call this again with the same bytes and more behind them.
    /// After other steps, call it with the bytes that follow. After an error, the stream cannot
    /// be read any further.
    pub fn next(&mut self, bytes: &[u8]) -> Result<Step, Error> {
        match bytes {
            [] => Ok(Step::Incomplete { needed: 1 }),
            [MARK, channel, ..] if self.skipped > 0 && *channel > self.channel_max => {
                self.skip(bytes)
            }
            [MARK, ..] => Ok(self.frame(bytes)),
            [b'\r' | b'\n', ..] => {
                let others = bytes.iter().position(|byte| !b"\r\n".contains(byte));
                let consumed = others.unwrap_or(bytes.len());
                Ok(Step::Skipped { consumed })
            }
            _ if self.begins_message(bytes) => self.message(bytes),
            _ => self.skip(bytes),
        }
    }

    fn frame(&mut self, bytes: &[u8]) -> Step {
        let Some([_, channel, high, low]) = bytes.first_chunk() else {
            return Step::Incomplete {
                needed: HEADER_BYTES,
            };
        };
        let end = HEADER_BYTES + usize::from(u16::from_be_bytes([*high, *low]));
        if bytes.len() < end {
            return Step::Incomplete { needed: end };
        }
        self.skipped = 0;
        Step::Frame {
            channel: *channel,
            payload: HEADER_BYTES..end,
        }
    }

    fn begins_message(&mut self, bytes: &[u8]) -> bool {
        if !self.line_checked {
            // The last byte that was searched may be a carriage return, so it is examined
            // again.
            let from = self.searched.saturating_sub(1);
            match message::begins_message(bytes, from) {
                Beginning::No => return false,
                Beginning::Maybe => {}
                Beginning::Yes => self.line_checked = true,
            }
        }
        true
    }

    fn message(&mut self, bytes: &[u8]) -> Result<Step, Error> {
        let head = &bytes[..bytes.len().min(self.limits.head_bytes_max)];
        let complete = message::find_head_end(head, self.searched).is_some();
        if !complete && head.len() < self.limits.head_bytes_max {
            self.searched = head.len();
            return Ok(Step::Incomplete {
                needed: bytes.len() + 1,
            });
        }
        match message::parse(bytes, &self.limits) {
            Ok(Parsed::Message(message, consumed)) => {
                self.forget_head();
                self.skipped = 0;
                Ok(Step::Message { message, consumed })
            }
            Ok(Parsed::Incomplete { needed }) => Ok(Step::Incomplete { needed }),
            // Text within garbage may look like a message.
            Err(ParseError::StartLine(_)) if self.garbage_bytes_max > 0 => self.skip(bytes),
            Err(error) => Err(error.into()),
        }
    }

    /// Skips garbage up to the next plausible item.
    fn skip(&mut self, bytes: &[u8]) -> Result<Step, Error> {
        self.forget_head();
        if self.skipped == 0 {
            self.first_skipped = bytes.first().copied().unwrap_or(0);
        }
        let candidate = (1..bytes.len()).find(|&at| self.looks_right(&bytes[at..]));
        let consumed = candidate.unwrap_or(bytes.len());
        self.skipped += consumed;
        self.skipped_total += consumed as u64;
        if self.skipped > self.garbage_bytes_max {
            return Err(Error::Garbage {
                bytes: self.skipped,
                first: self.first_skipped,
            });
        }
        Ok(Step::Skipped { consumed })
    }

    const fn forget_head(&mut self) {
        self.searched = 0;
        self.line_checked = false;
    }

    /// Returns whether `bytes` may begin a frame or a message, as far as they go.
    fn looks_right(&self, bytes: &[u8]) -> bool {
        match bytes {
            [MARK, channel, ..] => *channel <= self.channel_max,
            [MARK] => true,
            _ => Method::names().chain(["RTSP/1."]).any(|name| {
                let name = name.as_bytes();
                let common = name.len().min(bytes.len());
                name[..common] == bytes[..common]
            }),
        }
    }
}

#[cfg(test)]
mod tests;
