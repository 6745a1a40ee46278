//! Requests to reset streams (RFC 6525).

use std::time::Instant;

use super::Association;
use crate::ResetError;

impl Association {
    /// Resets the outgoing side of streams (RFC 6525). What is queued on them is sent
    /// first, nothing more is accepted, and [`Event::StreamsReset`](crate::Event::StreamsReset) comes when the peer
    /// agreed.
    ///
    /// # Errors
    /// [`ResetError`] says why; then none of the streams is reset.
    pub fn reset_streams(&mut self, streams: &[u16], _now: Instant) -> Result<(), ResetError> {
        if !self.is_open() {
            return Err(ResetError::NotConnected);
        }
        if !self.extensions.re_config {
            return Err(ResetError::Unsupported);
        }
        let known = self.outgoing_streams;
        if let Some(&stream) = streams.iter().find(|stream| **stream >= known) {
            return Err(ResetError::NoSuchStream {
                stream,
                streams: known,
            });
        }
        for stream in streams {
            self.sender.send_queue.set_resetting(*stream, true);
            self.resets.request_reset(*stream);
        }
        self.prepare_resets();
        Ok(())
    }

    /// Returns the number of streams whose reset was requested and is not answered yet.
    pub fn resets_pending(&self) -> usize {
        self.resets.pending()
    }

    /// Requires that incoming streams are opened by [`open_stream`](Self::open_stream) to have a
    /// lasting state. The peer may use any of 65,536 numbers. On a stream that is not open, messages
    /// are put in order and delivered as on others, but what is kept for it counts as part of the
    /// receive window, and a FORWARD TSN makes nothing.
    pub fn require_opened_streams(&mut self) {
        self.receiver.require_opening();
    }

    /// Opens an incoming stream, see [`require_opened_streams`](Self::require_opened_streams).
    pub fn open_stream(&mut self, stream: u16) {
        self.receiver.open_stream(stream);
    }

    /// Closes a stream that was opened, and forgets its priority and threshold.
    pub fn close_stream(&mut self, stream: u16) {
        self.receiver.close_stream(stream);
        self.sender.send_queue.close(stream);
    }

    /// Forgets what came on a stream that is not open and will not be.
    pub fn forget_stream(&mut self, stream: u16) {
        self.receiver.forget_stream(stream);
    }

    /// Returns the number of incoming and of outgoing streams that have a state.
    #[cfg(test)]
    pub(crate) fn stream_states(&mut self) -> [usize; 2] {
        let incoming = self.receiver.stream_states();
        [incoming, self.sender.send_queue.stream_states()]
    }

    /// Makes a reset request of the streams whose data is acknowledged by now.
    pub(super) fn prepare_resets(&mut self) {
        let streams = &self.sender.send_queue;
        self.resets.prepare(
            |stream| streams.is_drained(stream),
            self.sender.last_tsn(),
            self.sender.cumulative(),
        );
    }
}
