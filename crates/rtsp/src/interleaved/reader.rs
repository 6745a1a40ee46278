use super::{Demultiplexer, Error, MARK, Step};
use crate::message::Message;

/// A whole item of the stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// An interleaved frame (RFC 2326 §10.12).
    Frame {
        /// Channel of the interleaved frame.
        channel: u8,
        /// The payload, without the four bytes of header.
        payload: &'a [u8],
    },
    /// A request or a response.
    Message(Message),
}

/// Cuts a byte stream into its items, wherever the network cut it.
///
/// Items that lie wholly in the given bytes are handed out in place. Only an incomplete item is
/// stored until the next bytes complete it.
#[derive(Clone, Debug)]
pub struct Reader {
    demultiplexer: Demultiplexer,
    tail: Vec<u8>,
}

/// Most memory that a reader keeps between items, in bytes: more than a packet, and little
/// enough for hundreds of readers.
const TAIL_KEPT_BYTES: usize = 16 << 10;

/// Bytes to take at a time while the length of a message's head is unknown.
const HEAD_STEP_BYTES: usize = 512;

impl Reader {
    /// Creates a reader of an empty stream.
    pub const fn new(demultiplexer: Demultiplexer) -> Self {
        Self {
            demultiplexer,
            tail: Vec::new(),
        }
    }

    /// Returns the demultiplexer that cuts the stream.
    pub(crate) const fn demultiplexer(&mut self) -> &mut Demultiplexer {
        &mut self.demultiplexer
    }

    /// Returns the number of bytes of an incomplete item.
    pub const fn pending(&self) -> usize {
        self.tail.len()
    }

    /// Returns whether the incomplete item is a message and not a frame.
    pub(crate) fn is_within_message(&self) -> bool {
        self.tail.first().is_some_and(|&first| first != MARK)
    }

    /// Frees the memory for incomplete items if there is none at the moment. This matters with
    /// thousands of idle readers.
    pub fn release(&mut self) {
        if self.tail.is_empty() {
            self.tail = Vec::new();
        }
    }

    /// Returns the bytes allocated for incomplete items.
    #[cfg(test)]
    pub(crate) const fn capacity(&self) -> usize {
        self.tail.capacity()
    }

    /// Reads the next bytes of the stream; `sink` gets each item that they complete. After an
    /// error, the stream cannot be read any further.
    pub fn push(&mut self, data: &[u8], mut sink: impl FnMut(Item<'_>)) -> Result<(), Error> {
        let mut data = data;
        while !self.tail.is_empty() {
            match self.demultiplexer.next(&self.tail)? {
                Step::Incomplete { needed } => {
                    if data.is_empty() {
                        return Ok(());
                    }
                    let wanted = needed.saturating_sub(self.tail.len());
                    // A need of one more byte means that the length is unknown.
                    let wanted = if wanted <= 1 { HEAD_STEP_BYTES } else { wanted };
                    let (taken, rest) = data.split_at(wanted.min(data.len()));
                    self.tail.extend_from_slice(taken);
                    data = rest;
                }
                step => {
                    let consumed = emit(step, &self.tail, &mut sink);
                    self.tail.drain(..consumed);
                }
            }
        }
        if self.tail.capacity() > TAIL_KEPT_BYTES {
            self.tail = Vec::new();
        }
        loop {
            match self.demultiplexer.next(data)? {
                Step::Incomplete { .. } => {
                    self.tail.extend_from_slice(data);
                    return Ok(());
                }
                step => data = &data[emit(step, data, &mut sink)..],
            }
        }
    }
}

/// Hands out the item of a step, and returns the number of bytes that it takes.
fn emit(step: Step, bytes: &[u8], sink: &mut impl FnMut(Item<'_>)) -> usize {
    match step {
        Step::Frame { channel, payload } => {
            let end = payload.end;
            let payload = &bytes[payload];
            sink(Item::Frame { channel, payload });
            end
        }
        Step::Message { message, consumed } => {
            sink(Item::Message(message));
            consumed
        }
        Step::Skipped { consumed } => consumed,
        Step::Incomplete { .. } => 0,
    }
}
