//! How fast the path delivers.

use std::time::{Duration, Instant};

use crate::Ack;
use crate::filter::{Largest, Windowed};

/// Round trips over which the best rate counts (BBR §4.1.1.3: ten; the fewer, the
/// sooner a fade is followed).
const BEST_ROUNDS: u32 = 6;
/// Never less than this, so that the frames of a live source between two of its
/// bursts do not look like the path.
const BEST_WINDOW_MIN: Duration = Duration::from_millis(500);
/// Time constant of the sustained rate: an encoder hears of a fall within a second.
const SUSTAINED: Duration = Duration::from_millis(200);
/// A rate over less than this is a burst.
const SLICE_MIN: Duration = Duration::from_millis(60);
/// So many stretches tell more than a burst of frames.
const SATURATED_MIN: u32 = 3;
/// Lumps of acknowledgements are remembered for so many round trips (BBRv3, ack
/// aggregation over ten).
const LUMP_ROUNDS: u32 = 10;

/// Delivery rates, in bytes a second.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    best: Windowed<f64, Largest>,
    /// The best was measured while the path was the limit.
    proven: bool,
    round_ends_at: u64,
    slice: Option<Slice>,
    sustained: Option<f64>,
    /// Stretches in a row in which the application had more than the path took.
    saturated: u32,
    lump: Lump,
}

/// A stretch over which a rate is taken.
#[derive(Clone, Copy, Debug)]
struct Slice {
    began: Instant,
    delivered: u64,
    app_limited: bool,
}

/// How much more comes acknowledged at once than the rate explains (BBRv3
/// `extra_acked`).
#[derive(Clone, Debug)]
struct Lump {
    began: Option<Instant>,
    acked: f64,
    /// What was acknowledged at the latest moment.
    moment: Option<Moment>,
    /// Bytes acknowledged at one moment, smoothed.
    together: f64,
    largest: Windowed<f64, Largest>,
}

/// Acknowledgements that came together.
#[derive(Clone, Copy, Debug)]
struct Moment {
    at: Instant,
    bytes: f64,
}

impl Delivery {
    pub(super) const fn new() -> Self {
        Self {
            best: Windowed::new(BEST_WINDOW_MIN),
            proven: false,
            round_ends_at: 0,
            slice: None,
            sustained: None,
            saturated: 0,
            lump: Lump {
                began: None,
                acked: 0.0,
                moment: None,
                together: 0.0,
                largest: Windowed::new(BEST_WINDOW_MIN),
            },
        }
    }

    /// Whether a round trip ended with this acknowledgement.
    ///
    /// `queued`: packets wait longer than we want, so that the path is the limit,
    /// whatever the application had.
    pub(super) fn observe(
        &mut self,
        ack: &Ack<'_>,
        smoothed: Duration,
        least: Duration,
        queued: bool,
    ) -> bool {
        self.best
            .set_window((smoothed * BEST_ROUNDS).max(BEST_WINDOW_MIN));
        if let Some(rate) = ack.rate.bytes_per_second(least) {
            let known = self.best.get();
            if !ack.rate.app_limited || known.is_none_or(|known| rate > known) {
                self.best.record(rate, ack.now);
                self.proven = !ack.rate.app_limited;
            }
        }
        self.sustain(ack, smoothed, queued);
        self.lump.observe(ack, self.best.get(), smoothed);
        let round = ack.rate.delivered_before >= self.round_ends_at;
        if round {
            self.round_ends_at = ack.rate.delivered_total;
        }
        round
    }

    fn sustain(&mut self, ack: &Ack<'_>, smoothed: Duration, queued: bool) {
        let slice = self.slice.get_or_insert(Slice {
            began: ack.now,
            delivered: ack.rate.delivered_total,
            app_limited: false,
        });
        slice.app_limited |= ack.rate.app_limited;
        let elapsed = ack.now.saturating_duration_since(slice.began);
        if elapsed < SLICE_MIN.max(smoothed / 2) {
            return;
        }
        let bytes = ack.rate.delivered_total - slice.delivered;
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let rate = bytes as f64 / elapsed.as_secs_f64();
        let app_limited = slice.app_limited && !queued;
        self.saturated = if app_limited {
            0
        } else {
            self.saturated.saturating_add(1)
        };
        self.slice = None;
        self.sustained = Some(match self.sustained {
            None => rate,
            // What an application leaves unused says only that there is as much.
            Some(known) if app_limited => known.max(rate),
            Some(known) => {
                let weight = 1.0 - (-elapsed.as_secs_f64() / SUSTAINED.as_secs_f64()).exp();
                known + (rate - known) * weight
            }
        });
    }

    /// The best rate of the last round trips; `None` before the first.
    pub(super) fn best(&self) -> Option<f64> {
        self.best.get()
    }

    /// The best rate was the path's, not the application's.
    pub(super) const fn is_proven(&self) -> bool {
        self.proven
    }

    /// What the path carries for long.
    pub(super) const fn sustained(&self) -> Option<f64> {
        self.sustained
    }

    /// The same, while the application has more than the path takes.
    pub(super) fn saturated(&self) -> Option<f64> {
        self.sustained.filter(|_| self.saturated >= SATURATED_MIN)
    }

    /// Bytes that come acknowledged at once on top of what the rate explains.
    pub(super) fn lump(&self) -> f64 {
        self.lump.largest.get().unwrap_or(0.0)
    }

    /// How unevenly acknowledgements come, in seconds: `apart` bytes at a time are what
    /// a peer makes of them anyway.
    pub(super) fn unevenness(&self, apart: f64) -> f64 {
        let rate = self.best.get().unwrap_or(f64::INFINITY).max(1.0);
        (self.lump.together - apart).max(0.0) / rate
    }

    /// The path is as good as new.
    pub(super) fn forget(&mut self) {
        *self = Self {
            round_ends_at: self.round_ends_at,
            ..Self::new()
        };
    }
}

impl Lump {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn observe(&mut self, ack: &Ack<'_>, rate: Option<f64>, smoothed: Duration) {
        let bytes = ack.bytes as f64;
        let mut moment = Moment { at: ack.now, bytes };
        match self.moment {
            Some(before) if before.at == ack.now => moment.bytes = before.bytes + bytes,
            Some(before) => self.together += (before.bytes - self.together) / 8.0,
            None => {}
        }
        self.moment = Some(moment);
        let Some(rate) = rate else {
            return;
        };
        self.largest
            .set_window((smoothed * LUMP_ROUNDS).max(BEST_WINDOW_MIN));
        let began = *self.began.get_or_insert(ack.now);
        let expected = rate * ack.now.saturating_duration_since(began).as_secs_f64();
        if self.acked <= expected {
            self.began = Some(ack.now);
            self.acked = bytes;
            self.largest.record(self.acked, ack.now);
        } else {
            self.acked += bytes;
            self.largest.record(self.acked - expected, ack.now);
        }
    }
}
