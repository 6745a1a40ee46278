//! Congestion control of media that shares a TCP connection.
//!
//! TCP delivers everything and says nothing about it, except how many of the bytes that were written
//! its peer has not acknowledged. Each piece that is written is therefore a packet of a [`Flow`],
//! which is acknowledged when the count of unacknowledged bytes has fallen below its end. The window
//! of the [`Flow`]'s controller limits what TCP has in hand: the queue of a narrow path then waits
//! here, where it can be dropped, and not in the kernel and the bottleneck.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use glassline_congestion::{Algorithm, Flow, Pacer};

/// Largest packet in bytes.
const DATAGRAM: u64 = 1200;

/// Time without a newly acknowledged byte, with bytes in flight, after which the connection counts as
/// dead: TCP itself would try for a quarter of an hour.
const STALL: Duration = Duration::from_secs(15);

/// The media of one TCP connection, as its congestion controller sees it.
#[derive(Debug)]
pub(super) struct StreamFlow {
    flow: Flow,
    pacer: Pacer,
    /// Bytes written so far.
    written: u64,
    /// Pieces in flight: number, and bytes written up to the end of the piece.
    pieces: VecDeque<(u64, u64)>,
    next: u64,
    /// When a byte was acknowledged last, or the first one of those in flight was written.
    progress: Option<Instant>,
}

impl StreamFlow {
    pub(super) fn new(algorithm: Algorithm) -> Self {
        Self {
            flow: Flow::new(algorithm.start(DATAGRAM)),
            pacer: Pacer::new(DATAGRAM),
            written: 0,
            pieces: VecDeque::new(),
            next: 0,
            progress: None,
        }
    }

    /// Records that a piece of `bytes` was written.
    pub(super) fn on_written(&mut self, now: Instant, bytes: u64) {
        if self.pieces.is_empty() {
            self.progress = Some(now);
        }
        self.written += bytes;
        self.pieces.push_back((self.next, self.written));
        self.flow.on_sent(now, self.next, bytes);
        self.pacer.sent(bytes);
        self.next += 1;
    }

    /// Takes the number of bytes that were written, to the connection or to a buffer in front of it,
    /// and that the peer has not acknowledged. Messages of RTSP among them make the number larger.
    pub(super) fn on_unacknowledged(&mut self, now: Instant, bytes: u64) {
        let acknowledged = self.written.saturating_sub(bytes);
        let is_acknowledged = |piece: &&(u64, u64)| piece.1 <= acknowledged;
        let count = self.pieces.iter().take_while(is_acknowledged).count();
        if count > 0 {
            self.progress = Some(now);
            let numbers = self.pieces.drain(..count).map(|(number, _)| number);
            self.flow.on_acked(now, numbers, Duration::ZERO);
        }
    }

    /// Returns the bytes that may be written at `now`.
    pub(super) fn budget(&mut self, now: Instant) -> u64 {
        let paced = self.pacer.allowance(now, self.flow.pacing_rate());
        self.flow.allowance().min(paced)
    }

    /// Returns when `bytes` may be written; `None` if that depends on acknowledgements.
    pub(super) fn budget_at(&mut self, now: Instant, bytes: u64) -> Option<Instant> {
        if self.flow.allowance() < bytes {
            return None;
        }
        let rate = self.flow.pacing_rate();
        Some(self.pacer.deadline(now, rate, bytes).unwrap_or(now))
    }

    /// States that nothing waits to be written.
    pub(super) fn on_app_limited(&mut self) {
        self.flow.on_app_limited();
    }

    /// Returns whether the peer has acknowledged nothing for long, although bytes are in flight.
    pub(super) fn is_stalled(&self, now: Instant) -> bool {
        let since = self.progress.filter(|_| !self.pieces.is_empty());
        since.is_some_and(|since| now.saturating_duration_since(since) >= STALL)
    }

    /// Returns what the controller knows of the path.
    pub(super) const fn flow(&self) -> &Flow {
        &self.flow
    }
}
