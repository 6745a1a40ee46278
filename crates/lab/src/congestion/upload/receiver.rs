//! The receiving end of an upload.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use bytes::Bytes;
use noq_proto::{Connection, Dir, Event, ReadError, StreamEvent, StreamId};

use super::message::{HEADER_BYTES, Message, Parser, zeros};
use super::node::Application;

/// Most bytes that are kept of one stream with gaps; more stay with the transport.
const KEPT_BYTES: usize = 16 << 20;

/// Application that reads every stream in order, counts bytes, and answers pings on a stream of
/// its own.
///
/// The receiver orders the pieces of a stream itself, because noq's own buffer closes the
/// connection at 1024 gaps. A controller that ignores losses reaches that number where nine of
/// ten packets are lost. The study's transport had no such limit.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    streams: HashMap<StreamId, Incoming>,
    readable: Vec<StreamId>,
    answers: Option<StreamId>,
    /// Numbers of the pings that wait for their answer.
    pings: Vec<u64>,
    received: Received,
}

/// A stream that is being read.
#[derive(Debug, Default)]
struct Incoming {
    /// Offset of the application's next byte.
    next: u64,
    /// Pieces behind gaps, by offset.
    pieces: BTreeMap<u64, Bytes>,
    pieces_bytes: usize,
    parser: Parser,
}

impl Incoming {
    /// Takes a new piece; returns the number of bytes that are in order now and were not before.
    fn take(&mut self, offset: u64, bytes: Bytes, mut ping: impl FnMut(u64)) -> u64 {
        if offset != self.next {
            self.pieces_bytes += bytes.len();
            self.pieces.insert(offset, bytes);
            return 0;
        }
        let before = self.next;
        self.next += bytes.len() as u64;
        self.parser.read(&bytes, &mut ping);
        while let Some(bytes) = self.pieces.remove(&self.next) {
            self.pieces_bytes -= bytes.len();
            self.next += bytes.len() as u64;
            self.parser.read(&bytes, &mut ping);
        }
        self.next - before
    }
}

/// Counts of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    /// Application bytes that were read in the order of their stream.
    pub(crate) bytes: u64,
    /// Number of streams that the sender reset.
    pub(crate) reset_streams: u64,
}

impl Receiver {
    pub(crate) const fn received(&self) -> Received {
        self.received
    }

    fn read(&mut self, id: StreamId, connection: &mut Connection) {
        let incoming = self.streams.entry(id).or_default();
        let mut stream = connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(false) else {
            self.streams.remove(&id);
            return;
        };
        let ended = loop {
            if incoming.pieces_bytes > KEPT_BYTES {
                break false;
            }
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    let ping = |number| self.pings.push(number);
                    self.received.bytes += incoming.take(chunk.offset, chunk.bytes, ping);
                }
                Ok(None) => break true,
                Err(ReadError::Blocked) => break false,
                Err(ReadError::Reset(_)) => {
                    self.received.reset_streams += 1;
                    break true;
                }
            }
        };
        let _ = chunks.finalize();
        if ended {
            self.streams.remove(&id);
        }
    }

    fn answer(&mut self, connection: &mut Connection) {
        if self.answers.is_none() {
            self.answers = connection.streams().open(Dir::Uni);
        }
        let Some(id) = self.answers else {
            return;
        };
        for number in self.pings.drain(..) {
            let message = Message::ping(number);
            let header = Bytes::copy_from_slice(&message.header());
            let mut chunks = [header, zeros(u64::from(message.bytes - HEADER_BYTES))];
            // Answers have 32 bytes a second, which never fill a window.
            let _ = connection
                .send_stream(id)
                .write_chunks(&mut chunks.as_mut_slice());
        }
    }
}

impl Application for Receiver {
    fn on_event(&mut self, _: Instant, event: Event, connection: &mut Connection) {
        match event {
            Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                while let Some(id) = connection.streams().accept(Dir::Uni) {
                    self.readable.push(id);
                }
            }
            Event::Stream(StreamEvent::Readable { id }) => self.readable.push(id),
            _ => {}
        }
    }

    fn turn(&mut self, _: Instant, connection: &mut Connection) {
        while let Some(id) = self.readable.pop() {
            self.read(id, connection);
        }
        if !self.pings.is_empty() {
            self.answer(connection);
        }
    }

    fn due(&self) -> Option<Instant> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_count_when_what_is_before_them_has_come() {
        let mut incoming = Incoming::default();
        let mut pings = Vec::new();
        let mut bytes = Vec::from(Message::media(40).header());
        bytes.resize(40, 0);
        bytes.extend(Message::ping(7).header());
        bytes.resize(72, 0);
        let bytes = Bytes::from(bytes);
        let mut take = |from: usize, to: usize| {
            incoming.take(from as u64, bytes.slice(from..to), |ping| pings.push(ping))
        };
        assert_eq!(take(20, 50), 0);
        assert_eq!(take(60, 72), 0);
        assert_eq!(take(0, 20), 50);
        assert_eq!(take(50, 60), 22);
        assert_eq!(pings, [7]);
        assert!(incoming.pieces.is_empty() && incoming.pieces_bytes == 0);
    }
}
