//! Messages and binary frames in one byte stream (RFC 2326 §10.12).
//!
//! ```text
//! '$' │ channel │ length, 2 bytes │ payload        RTSP/1.0 200 OK … │ body
//! ```
//!
//! [`Demultiplexer`] looks at bytes in place and says what is at their front;
//! [`Reader`] adds the little memory that a stream cut anywhere needs: the part
//! of one item, never a copy of whole ones.

use std::ops::Range;

use thiserror::Error;

use crate::message::{self, Beginning, Limits, Message, Method, ParseError, Parsed};

mod reader;

pub use reader::{Item, Reader};

/// Bytes ahead of a frame's payload.
pub const HEADER_BYTES: usize = 4;

/// What marks a frame.
pub const MARK: u8 = b'$';

/// The four bytes ahead of a payload of `length` bytes on `channel`.
pub const fn header(channel: u8, length: u16) -> [u8; HEADER_BYTES] {
    let [high, low] = length.to_be_bytes();
    [MARK, channel, high, low]
}

/// Appends a frame to `out`; false, and nothing, if the payload is over 65,535 bytes.
pub fn write_frame(out: &mut Vec<u8>, channel: u8, payload: &[u8]) -> bool {
    let Ok(length) = u16::try_from(payload.len()) else {
        return false;
    };
    out.extend_from_slice(&header(channel, length));
    out.extend_from_slice(payload);
    true
}

/// Bytes that are neither a frame nor a message. The peer's fault: close.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// A message that is out of bounds or malformed.
    #[error(transparent)]
    Message(#[from] ParseError),
    /// Something else, and more of it than is skipped.
    #[error("{bytes} bytes that are neither frame nor message, the first is {first:#04x}")]
    Garbage {
        /// How many, up to where it was given up.
        bytes: usize,
        /// The first of them.
        first: u8,
    },
}

/// What is at the front of the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A whole frame.
    Frame {
        /// The channel it is for.
        channel: u8,
        /// Where its payload is in the bytes; the frame ends there.
        payload: Range<usize>,
    },
    /// A whole message.
    Message {
        /// The message.
        message: Message,
        /// Bytes it took.
        consumed: usize,
    },
    /// Bytes that mean nothing: empty lines between messages, or garbage on the
    /// way back into step.
    Skipped {
        /// How many.
        consumed: usize,
    },
    /// Not enough of them.
    Incomplete {
        /// Bytes that are needed at least, counted from the first.
        needed: usize,
    },
}

/// Tells frames from messages at the front of bytes that stay where they are.
///
/// After garbage it goes on at the next thing that looks right: a frame on a
/// channel in use, a status line, or a known method. A peer that lost part of a
/// frame (servers that drop what a full socket does not take do) is back in step
/// within a packet or two.
#[derive(Clone, Debug)]
pub struct Demultiplexer {
    limits: Limits,
    garbage_bytes_max: usize,
    channel_max: u8,
    /// How much of an incomplete message's head was searched for its end.
    searched: usize,
    /// Its first line is a message's.
    line_checked: bool,
    /// Bytes skipped since the last frame or message.
    skipped: usize,
    /// The first of them.
    first_skipped: u8,
    skipped_total: u64,
}

impl Demultiplexer {
    /// `garbage_bytes_max`: how much to skip from one good item to the next before
    /// it is an error; 0 makes the first such byte one, as a server wants it.
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

    /// No frame is expected beyond `channel`: after garbage, `$` and a higher one
    /// are garbage too.
    pub(crate) const fn set_channel_max(&mut self, channel: u8) {
        self.channel_max = channel;
    }

    /// Bytes of garbage skipped since the start.
    pub const fn skipped(&self) -> u64 {
        self.skipped_total
    }

    /// What is at the front of `bytes`.
    ///
    /// After [`Step::Incomplete`], call again with the same bytes and more behind
    /// them; after the others, with what follows. After an error, not again.
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
            // A carriage return at the end of what was searched is looked at again.
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
            // It only looked like one, as text within garbage may.
            Err(ParseError::StartLine(_)) if self.garbage_bytes_max > 0 => self.skip(bytes),
            Err(error) => Err(error.into()),
        }
    }

    /// Passes over garbage to the next thing that looks right.
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

    /// `bytes` may begin a frame or a message, as far as they go.
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
