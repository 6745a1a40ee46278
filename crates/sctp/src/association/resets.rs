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
