//! A bulk flow that sends as much as it may, like a file transfer beside an upload.

use std::time::Instant;

use glassline_quic::CongestionMonitor;
use noq_proto::{Connection, Dir, Event, StreamId};

use super::message::{HEADER_BYTES, Message, zeros};
use super::node::Application;

/// Most bytes that are passed to the transport at a time; below it, two windows are.
const GIVEN_MAX: u64 = 16 << 20;

/// Writes zeros until `end`.
#[derive(Debug)]
pub(crate) struct Bulk {
    observed: CongestionMonitor,
    /// Time at which the flow stops writing.
    end: Instant,
    connected: bool,
    stream: Option<StreamId>,
}

impl Bulk {
    pub(crate) const fn new(observed: CongestionMonitor, end: Instant) -> Self {
        Self {
            observed,
            end,
            connected: false,
            stream: None,
        }
    }
}

impl Application for Bulk {
    fn on_event(&mut self, _: Instant, event: Event, _: &mut Connection) {
        match event {
            Event::Connected => self.connected = true,
            Event::ConnectionLost { .. } => self.connected = false,
            _ => {}
        }
    }

    fn turn(&mut self, now: Instant, connection: &mut Connection) {
        if !self.connected || now >= self.end {
            return;
        }
        let window = self.observed.get().window;
        connection.set_send_window((2 * window).clamp(1 << 16, GIVEN_MAX));
        let id = match self.stream {
            Some(id) => id,
            None => {
                let Some(id) = connection.streams().open(Dir::Uni) else {
                    return;
                };
                self.stream = Some(id);
                // A message without an end.
                let header = Message::media(u64::MAX).header();
                let _ = connection.send_stream(id).write(&header);
                debug_assert_eq!(header.len(), HEADER_BYTES as usize);
                id
            }
        };
        let mut stream = connection.send_stream(id);
        while stream
            .write_chunks(&mut [zeros(u64::MAX)].as_mut_slice())
            .is_ok()
        {}
    }

    fn due(&self) -> Option<Instant> {
        None
    }
}
