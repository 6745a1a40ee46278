//! The rate at which a late viewer without congestion control gets the past.
//!
//! Where keyframes are far apart, the past has megabytes. At line rate they would overrun the queue of
//! a narrow path, and most of them would be lost. So of a long past only the keyframe and a little more
//! leave at once.
//! The rest begins at some times the stream's bitrate; the rate grows until the viewer reports a
//! loss, which halves it.

use std::time::{Duration, Instant};

use glassline_media::Bitrate;

/// Bytes of a past that leaves at once: two seconds of 2 Mbit/s. Browsers take frames that come slower
/// than their timestamps say for jitter, and wait longer with those behind.
const AT_ONCE_MAX: u64 = 512 << 10;

/// Bytes behind the keyframe of a longer past that leave at once: what the queues of most paths take.
const FREE_BYTES: u64 = 64 << 10;

/// The first rate in multiples of the stream's bitrate: a past of two seconds takes half a second.
const START_FACTOR: u64 = 4;
/// The lowest first rate in bit/s, and the one of streams whose bitrate is not known.
const START_MIN: u64 = 4_000_000;

/// Time from one step of the rate to the next: a loss is reported after a round trip and the time in
/// the path's queue.
const STEP: Duration = Duration::from_millis(250);

/// Lowest rate, in quarters of the stream's bitrate: below it the viewer would never be live.
const FLOOR_QUARTERS: u64 = 5;
/// Lowest rate in bit/s.
const FLOOR_MIN: u64 = 500_000;

/// Rate from which on nothing is gained, in bit/s.
const RATE_MAX: u64 = 1_000_000_000;

/// Longest time without sending for which the rate may be used up later.
const CREDIT_MAX: Duration = Duration::from_millis(20);
/// Bytes up to which credit is kept at any rate: two packets.
const CREDIT_MIN: u64 = 3_000;

/// The rate of one viewer's past, and what may leave of it.
#[derive(Debug)]
pub(super) struct Ramp {
    /// Bytes a second.
    rate: u64,
    floor: u64,
    /// Bytes that may leave at `at`.
    credit: u64,
    at: Instant,
    /// Time of the latest step.
    stepped: Instant,
    /// Time at which the rate was halved last, because the viewer reported a loss.
    halved: Option<Instant>,
}

impl Ramp {
    /// Returns the ramp of a past of `bytes` bytes whose keyframe has `keyframe`; `None` if it may leave
    /// at once. `live`: bitrate of the stream, 0 if it is not known.
    pub(super) fn of(live: Bitrate, keyframe: u64, bytes: u64, now: Instant) -> Option<Self> {
        let free = keyframe + FREE_BYTES;
        (bytes > AT_ONCE_MAX.max(free)).then(|| Self {
            rate: bytes_of(live.bps().saturating_mul(START_FACTOR), START_MIN),
            floor: bytes_of(live.bps().saturating_mul(FLOOR_QUARTERS) / 4, FLOOR_MIN),
            credit: free,
            at: now,
            stepped: now,
            halved: None,
        })
    }

    /// Returns the bytes that may leave at `now`.
    pub(super) fn allowance(&self, now: Instant) -> u64 {
        let earned = self.earned(now.saturating_duration_since(self.at));
        let most = self.earned(CREDIT_MAX).max(CREDIT_MIN);
        self.credit
            .saturating_add(earned)
            .min(self.credit.max(most))
    }

    /// Notes that `bytes` left at `now`.
    pub(super) fn sent(&mut self, bytes: u64, now: Instant) {
        self.credit = self.allowance(now).saturating_sub(bytes);
        self.at = now;
        if now.saturating_duration_since(self.stepped) >= STEP {
            self.stepped = now;
            let more = match self.halved {
                Some(_) => self.rate / 8,
                None => self.rate / 2,
            };
            self.rate = (self.rate + more).min(RATE_MAX / 8);
        }
    }

    /// Notes that the viewer reported a loss. Losses of the same time are one.
    pub(super) fn on_loss(&mut self, now: Instant) {
        let is_same = |halved| now.saturating_duration_since(halved) < STEP;
        if self.halved.is_some_and(is_same) {
            return;
        }
        self.credit = 0;
        self.at = now;
        self.stepped = now;
        self.halved = Some(now);
        self.rate = (self.rate / 2).max(self.floor);
    }

    /// Returns when `bytes` may leave.
    pub(super) fn due(&self, bytes: u64) -> Instant {
        let missing = u128::from(bytes.saturating_sub(self.credit)) * 1_000_000_000;
        let wait = missing.div_ceil(u128::from(self.rate.max(1)));
        self.at + Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX))
    }

    fn earned(&self, time: Duration) -> u64 {
        let bytes = u128::from(self.rate) * time.as_nanos() / 1_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// Returns a rate of so many bit/s, within bounds, in bytes a second.
fn bytes_of(bps: u64, bps_min: u64) -> u64 {
    bps.clamp(bps_min, RATE_MAX) / 8
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const PACKET: u64 = 1_200;

    /// The outcome of a past on a path.
    #[derive(Debug)]
    struct Transfer {
        took: Duration,
        lost: u64,
    }

    /// Sends a past of 4 MB over a path of `mbps` whose queue holds 200 ms, with 40 ms of round trip.
    /// What is lost is sent again. Without `ramped`, all leaves as the path's first hop takes it.
    fn transfer(mbps: u64, live_mbps: u64, ramped: bool) -> Transfer {
        let start = Instant::now();
        let (path, queue_max) = (mbps * 125_000, mbps * 125_000 / 5);
        let live = Bitrate::from_bps(live_mbps * 1_000_000);
        let mut ramp = Ramp::of(live, 60_000, 4_000_000, start).expect("megabytes");
        let mut waiting = 4_000_000 / PACKET;
        // When each lost packet is asked for again.
        let mut asked: VecDeque<Instant> = VecDeque::new();
        let (mut now, mut queue, mut lost) = (start, 0, 0);
        while waiting > 0 || !asked.is_empty() {
            now += Duration::from_millis(1);
            queue = u64::saturating_sub(queue, path / 1_000);
            while asked.front().is_some_and(|at| *at <= now) {
                asked.pop_front();
                ramp.on_loss(now);
                waiting += 1;
            }
            let mut room = match ramped {
                true => ramp.allowance(now),
                false => 40 * PACKET,
            };
            let before = room;
            while waiting > 0 && room >= PACKET {
                room -= PACKET;
                waiting -= 1;
                match queue + PACKET > queue_max {
                    false => queue += PACKET,
                    true => {
                        lost += 1;
                        let behind = Duration::from_millis(queue * 1_000 / path + 40);
                        asked.push_back(now + behind);
                    }
                }
            }
            if before > room {
                ramp.sent(before - room, now);
            }
            assert!(now - start < Duration::from_secs(60), "{ramp:?}");
        }
        let took = now - start;
        Transfer {
            took,
            lost: lost * PACKET,
        }
    }

    #[test]
    fn a_narrow_path_loses_little_and_is_used() {
        let at_once = transfer(5, 1, false);
        assert!(at_once.lost > 4_000_000, "{at_once:?}");
        let ramped = transfer(5, 1, true);
        println!("at once: {at_once:?}, ramped: {ramped:?}");
        assert!(ramped.lost < 600_000, "{ramped:?}");
        // 6.4 s at the rate of the path.
        assert!(ramped.took < Duration::from_secs(9), "{ramped:?}");
    }

    #[test]
    fn a_wide_path_is_live_within_two_seconds_and_loses_nothing() {
        let ramped = transfer(100, 1, true);
        assert_eq!(ramped.lost, 0, "{ramped:?}");
        assert!(ramped.took < Duration::from_secs(2), "{ramped:?}");
    }

    #[test]
    fn two_seconds_leave_at_once_and_a_keyframe_always_does() {
        let (now, live) = (Instant::now(), Bitrate::from_bps(2_500_000));
        assert!(Ramp::of(live, 60_000, AT_ONCE_MAX, now).is_none());
        assert!(Ramp::of(live, 2_000_000, 2_000_000 + FREE_BYTES, now).is_none());
        let mut ramp = Ramp::of(live, 60_000, 600_000, now).expect("more");
        assert_eq!(ramp.allowance(now), 60_000 + FREE_BYTES);
        ramp.sent(60_000 + FREE_BYTES, now);
        assert_eq!(ramp.allowance(now), 0);
        // Four times the bitrate.
        let next = now + Duration::from_millis(1);
        assert_eq!(ramp.allowance(next), 1_250);
        assert_eq!(ramp.due(1_250), next);
        // What is not used is not kept for long.
        assert_eq!(ramp.allowance(now + STEP), 25_000);
    }

    #[test]
    fn a_packet_may_leave_when_it_is_due() {
        let start = Instant::now();
        for kbps in [0, 100, 2_000, 90_000, u64::MAX / 1_000] {
            let live = Bitrate::from_bps(kbps * 1_000);
            let mut ramp = Ramp::of(live, 60_000, 8_000_000, start).expect("much");
            let (mut now, mut sent) = (start, 0);
            while sent < 1_000_000 {
                now = ramp.due(1_500).max(now);
                assert!(ramp.allowance(now) >= 1_500, "{ramp:?}");
                ramp.sent(1_500, now);
                sent += 1_500;
                if sent % 150_000 == 0 {
                    ramp.on_loss(now);
                }
            }
            assert!(now - start < Duration::from_secs(20), "{kbps}: {ramp:?}");
        }
    }

    #[test]
    fn losses_of_one_time_halve_the_rate_once_and_not_below_the_stream() {
        let (start, live) = (Instant::now(), Bitrate::from_bps(2_000_000));
        let mut ramp = Ramp::of(live, 0, 1_000_000, start).expect("much");
        let rates: Vec<u64> = (0..6)
            .flat_map(|at| [STEP * at, STEP * at + STEP / 2])
            .map(|after| {
                ramp.on_loss(start + after);
                ramp.rate
            })
            .collect();
        assert_eq!(rates[..4], [500_000, 500_000, 312_500, 312_500]);
        assert_eq!(rates[11], 312_500);
        ramp.sent(1, start + STEP * 6);
        assert_eq!(
            ramp.rate,
            312_500 + 312_500 / 8,
            "it grows slowly from then on"
        );
    }
}
