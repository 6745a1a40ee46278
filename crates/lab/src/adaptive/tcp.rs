//! A TCP flow on the path: one without end, or one transfer after the other.

use std::time::{Duration, Instant};

use glassline_sim::Rng;

use super::bulk::Bulk;
use super::path::{Body, Path, Way};

/// Sizes of transfers in bytes (RFC 8867 §5.7).
const TRANSFER_MIN: f64 = 100_000.0;
const TRANSFER_MAX: f64 = 1_000_000.0;

/// A TCP flow.
#[derive(Debug)]
pub(super) struct Tcp {
    /// Position among the case's flows.
    place: usize,
    sender: Bulk,
    /// Transfers that follow one another; `None` for a flow without end.
    web: Option<Web>,
}

/// The pauses between transfers.
#[derive(Debug)]
struct Web {
    pause: Duration,
    rng: Rng,
    /// When the next transfer begins; `None` during one.
    next: Option<Instant>,
}

impl Tcp {
    /// Returns a flow without end.
    pub(super) fn bulk(place: usize) -> Self {
        Self {
            place,
            sender: Bulk::new(None),
            web: None,
        }
    }

    /// Returns transfers with a mean pause between them.
    pub(super) fn web(place: usize, pause: Duration, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        Self {
            place,
            sender: Bulk::new(Some(transfer(&mut rng))),
            web: Some(Web {
                pause,
                rng,
                next: None,
            }),
        }
    }

    /// Takes the acknowledgement of a segment.
    pub(super) fn acknowledge(&mut self, number: u64, now: Instant) {
        self.sender.acknowledge(number, now);
    }

    /// Sends what may leave; returns when the flow acts next.
    pub(super) fn turn(&mut self, path: &mut Path, now: Instant) -> Option<Instant> {
        if let Some(web) = &mut self.web
            && self.sender.is_done()
        {
            let pause = web.pause.mul_f64(-web.rng.unit().max(1e-6).ln());
            let next = *web.next.get_or_insert(now + pause);
            if next > now {
                return Some(next);
            }
            web.next = None;
            self.sender.continue_with(transfer(&mut web.rng));
        }
        self.sender.handle_timeout(now);
        while let Some(number) = self.sender.poll(now) {
            path.send(now, Way::Forward, self.place, Body::Segment(number));
        }
        self.sender.due()
    }
}

/// Draws the size of a transfer.
fn transfer(rng: &mut Rng) -> u64 {
    (TRANSFER_MIN + (TRANSFER_MAX - TRANSFER_MIN) * rng.unit()) as u64
}
