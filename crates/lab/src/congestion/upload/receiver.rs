//! The end that takes an upload in.

use std::collections::HashMap;
use std::time::Instant;

use bytes::Bytes;
use noq_proto::{Connection, Dir, Event, ReadError, StreamEvent, StreamId};

use super::message::{HEADER_BYTES, Message, Parser, zeros};
use super::node::Application;

/// Reads every stream in order, counts, and answers pings on a stream of its own.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    streams: HashMap<StreamId, Parser>,
    readable: Vec<StreamId>,
    answers: Option<StreamId>,
    /// Pings to answer.
    pings: Vec<u64>,
    received: Received,
}

/// What a receiver got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    /// Application bytes that were read in the order of their stream.
    pub(crate) bytes: u64,
    /// Streams that the sender gave up.
    pub(crate) reset_streams: u64,
}

impl Receiver {
    pub(crate) const fn received(&self) -> Received {
        self.received
    }

    fn read(&mut self, id: StreamId, connection: &mut Connection) {
        let parser = self.streams.entry(id).or_default();
        let mut stream = connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else {
            self.streams.remove(&id);
            return;
        };
        let ended = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    self.received.bytes += chunk.bytes.len() as u64;
                    parser.read(&chunk.bytes, |ping| self.pings.push(ping));
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
            // 32 bytes a second never fill a window.
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
