//! What the receiver's socket buffer holds, learned from the losses of a short path.
//!
//! On a round trip of two milliseconds or less, most of BBR's window is its allowance for
//! bursts: three send quanta, up to 192 KiB. A receiver that sometimes reads late, as a
//! browser does, has its default socket buffer (on Linux 212,992 bytes, of which a datagram
//! of 1,200 bytes takes 2,304), and drops the rest of each burst. The bound follows from what
//! was in flight when packets were lost.

use std::time::{Duration, Instant};

use crate::Loss;
use crate::cubic::{BETA, Curve};

/// Largest round-trip propagation delay of a path on which receivers' socket buffers, not
/// queues of routers, are what a burst overflows.
const SHORT: Duration = Duration::from_millis(2);
/// Datagrams beyond the bandwidth-delay product that every socket buffer holds.
const LEAST_SEGMENTS: f64 = 8.0;
/// Time without a bound after losses that no socket buffer explains, because so little was
/// in flight: a radio link loses bursts whatever is in flight.
const REFUTED_TIME: Duration = Duration::from_secs(10);

/// Fewest datagrams that are lost together by a full buffer.
const BURST_SEGMENTS: f64 = 6.0;
/// Smallest share of what is in flight that is lost together by a full buffer.
const BURST_SHARE: f64 = 0.125;

/// Bound of what is in flight, in bytes, so that the receiver's socket buffer holds it.
///
/// The bound shrinks to 0.7 of what was in flight when packets were lost, and grows along
/// CUBIC's curve (RFC 9438 §4.2). It does not grow as Reno's window does, by a datagram a
/// round trip: on such a path, that would be thousands of datagrams a second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReceiveBuffer {
    /// Most bytes in flight since the latest loss that lowered the bound, or the beginning.
    /// An integer, because every packet is compared with it.
    peak: u64,
    /// The bound; `None` while nothing was lost.
    bound: Option<Bound>,
    /// When losses were seen last that no socket buffer explains.
    refuted: Option<Instant>,
}

/// The bound, and how it grows.
#[derive(Clone, Copy, Debug)]
struct Bound {
    /// The bound, in bytes.
    bytes: f64,
    /// Curve towards what was in flight at the latest loss, and beyond.
    curve: Curve,
    /// When the latest loss was detected.
    shrank: Instant,
}

/// Whether as much was lost at once as a full buffer drops: the end of a burst, and not
/// single packets of what is in flight.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52 bytes")]
fn is_burst(loss: &Loss, mtu: f64) -> bool {
    let (lost, left) = (loss.bytes as f64, loss.in_flight as f64);
    lost >= BURST_SEGMENTS * mtu && lost >= BURST_SHARE * (lost + left)
}

impl ReceiveBuffer {
    /// Whether the bound applies to a path of this smallest round trip.
    pub(crate) fn is_short(least: Duration) -> bool {
        least <= SHORT
    }

    /// Records the bytes that were in flight after a packet was sent.
    pub(crate) fn on_sent(&mut self, in_flight: u64) {
        self.peak = self.peak.max(in_flight);
    }

    /// Lowers the bound where many packets were lost together. A loss of packets that were
    /// sent under an older bound says nothing new. `bdp`: bandwidth-delay product of the
    /// path, in bytes; `mtu`: size of datagrams, in bytes.
    pub(crate) fn on_loss(&mut self, loss: &Loss, bdp: f64, mtu: f64) {
        let known = |bound: Bound| loss.newest_sent <= bound.shrank;
        let is_refuted = |at: Instant| loss.now.saturating_duration_since(at) < REFUTED_TIME;
        if !is_burst(loss, mtu)
            || self.bound.is_some_and(known)
            || self.refuted.is_some_and(is_refuted)
        {
            return;
        }
        let peak = std::mem::take(&mut self.peak) as f64;
        let top = self.bound.map_or(peak, |bound| bound.bytes.min(peak));
        if top * BETA < bdp + LEAST_SEGMENTS * mtu {
            self.bound = None;
            self.refuted = Some(loss.now);
            return;
        }
        self.bound = Some(Bound {
            bytes: top * BETA,
            curve: Curve::new(top, top * (1.0 - BETA), mtu),
            shrank: loss.now,
        });
    }

    /// Moves the bound along its curve to `now`. `mtu`: size of datagrams, in bytes.
    pub(crate) fn grow(&mut self, now: Instant, mtu: f64) {
        if let Some(bound) = &mut self.bound {
            let since = now.saturating_duration_since(bound.shrank).as_secs_f64();
            bound.bytes = bound.curve.at(since, mtu);
        }
    }

    /// Returns the most bytes that may be in flight; `None` while nothing was lost.
    pub(crate) fn bytes(&self) -> Option<f64> {
        self.bound.map(|bound| bound.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: f64 = 1_000.0;
    const MS: Duration = Duration::from_millis(1);

    /// Returns a loss of `lost` datagrams that were sent at `sent`, detected a millisecond
    /// later, when `left` others are in flight.
    fn loss(sent: Instant, lost: u64, left: u64) -> Loss {
        Loss {
            now: sent + MS,
            newest_sent: sent,
            bytes: lost * 1_000,
            in_flight: left * 1_000,
            persistent: false,
            delivered_total: 0,
            lost_total: lost * 1_000,
        }
    }

    fn bytes(buffer: &ReceiveBuffer) -> f64 {
        buffer.bytes().expect("something was lost")
    }

    #[test]
    fn a_burst_lowers_the_bound_and_single_packets_do_not() {
        let start = Instant::now();
        let mut buffer = ReceiveBuffer::default();
        buffer.on_sent(150_000);
        buffer.on_loss(&loss(start, 5, 0), 5.0 * MTU, MTU);
        buffer.on_loss(&loss(start, 9, 91), 5.0 * MTU, MTU);
        assert!(buffer.bytes().is_none(), "{buffer:?}");
        buffer.on_loss(&loss(start, 40, 60), 5.0 * MTU, MTU);
        assert!((bytes(&buffer) - 105.0 * MTU).abs() < 1.0, "{buffer:?}");
        // These were sent before the bound was known.
        buffer.on_loss(&loss(start, 40, 0), 5.0 * MTU, MTU);
        assert!((bytes(&buffer) - 105.0 * MTU).abs() < 1.0, "{buffer:?}");
    }

    #[test]
    fn little_in_flight_when_losses_are_found_does_not_lower_the_bound_further() {
        let start = Instant::now();
        let mut buffer = ReceiveBuffer::default();
        buffer.on_sent(150_000);
        buffer.on_loss(&loss(start, 40, 60), 0.0, MTU);
        buffer.on_sent(105_000);
        buffer.on_loss(&loss(start + 10 * MS, 7, 0), 0.0, MTU);
        assert!((bytes(&buffer) - 73.5 * MTU).abs() < 1.0, "{buffer:?}");
    }

    #[test]
    fn the_bound_is_back_at_what_was_lost_after_seconds_and_not_before() {
        let start = Instant::now();
        let mut buffer = ReceiveBuffer::default();
        buffer.on_sent(90_000);
        buffer.on_loss(&loss(start, 20, 0), 0.0, MTU);
        buffer.grow(start + 1_000 * MS, MTU);
        assert!(bytes(&buffer) < 82.0 * MTU, "{buffer:?}");
        buffer.grow(start + 4_100 * MS, MTU);
        assert!((bytes(&buffer) - 90.0 * MTU).abs() < MTU, "{buffer:?}");
        buffer.grow(start + 10_000 * MS, MTU);
        assert!(bytes(&buffer) > 150.0 * MTU, "{buffer:?}");
    }

    #[test]
    fn bursts_that_are_lost_whatever_is_in_flight_end_the_bound_for_ten_seconds() {
        let start = Instant::now();
        let mut buffer = ReceiveBuffer::default();
        let bdp = 40.0 * MTU;
        let mut at = start;
        buffer.on_sent(150_000);
        let mut lowered = 0;
        while buffer.refuted.is_none() {
            buffer.on_loss(&loss(at, 30, 0), bdp, MTU);
            buffer.on_sent(buffer.bytes().unwrap_or(150.0 * MTU) as u64);
            at += 20 * MS;
            lowered += 1;
            assert!(lowered < 10, "{buffer:?}");
        }
        assert!(buffer.bytes().is_none(), "{buffer:?}");
        buffer.on_loss(&loss(at + 9_000 * MS, 30, 0), bdp, MTU);
        assert!(buffer.bytes().is_none(), "{buffer:?}");
        buffer.on_loss(&loss(at + 11_000 * MS, 30, 0), bdp, MTU);
        assert!(buffer.bytes().is_some(), "{buffer:?}");
    }
}
