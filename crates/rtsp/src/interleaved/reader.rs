use super::{Demultiplexer, Error, MARK, Step};
use crate::message::Message;

/// A whole thing out of the stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// Binary data of a channel.
    Frame {
        /// The channel.
        channel: u8,
        /// Without the four bytes ahead.
        payload: &'a [u8],
    },
    /// A request or a response.
    Message(Message),
}

/// Cuts a byte stream, however it was cut on the way, into its items.
///
/// Items that lie whole in the bytes given are handed out in place; only the part
/// of one that the next bytes complete is kept.
#[derive(Clone, Debug)]
pub struct Reader {
    demultiplexer: Demultiplexer,
    tail: Vec<u8>,
}

/// More than a packet, less than what hundreds of readers could not afford.
const TAIL_KEPT_BYTES: usize = 16 << 10;

/// How much of what may be the rest of a head is taken at a time.
const HEAD_STEP_BYTES: usize = 512;

impl Reader {
    /// Nothing read yet.
    pub const fn new(demultiplexer: Demultiplexer) -> Self {
        Self {
            demultiplexer,
            tail: Vec::new(),
        }
    }

    /// What cuts the stream.
    pub(crate) const fn demultiplexer(&mut self) -> &mut Demultiplexer {
        &mut self.demultiplexer
    }

    /// Bytes of an item that is not whole yet.
    pub const fn pending(&self) -> usize {
        self.tail.len()
    }

    /// What is not whole yet is a message, not a frame.
    pub(crate) fn is_within_message(&self) -> bool {
        self.tail.first().is_some_and(|&first| first != MARK)
    }

    /// Gives back the memory of items that were cut, if none is at the moment: for
    /// thousands of readers that rest.
    pub fn release(&mut self) {
        if self.tail.is_empty() {
            self.tail = Vec::new();
        }
    }

    /// Bytes held for items that are cut.
    #[cfg(test)]
    pub(crate) const fn capacity(&self) -> usize {
        self.tail.capacity()
    }

    /// Takes the next bytes of the stream; `sink` gets each item that they
    /// complete. After an error, the stream is lost.
    pub fn push(&mut self, data: &[u8], mut sink: impl FnMut(Item<'_>)) -> Result<(), Error> {
        let mut data = data;
        while !self.tail.is_empty() {
            match self.demultiplexer.next(&self.tail)? {
                Step::Incomplete { needed } => {
                    if data.is_empty() {
                        return Ok(());
                    }
                    let wanted = needed.saturating_sub(self.tail.len());
                    // One byte more is asked for where nobody knows how many.
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

/// Hands out what a step found; the bytes it took.
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
