//! NetEq's statistics of delays, and the delay that it aims for.

const BUCKETS: usize = 100;
const BUCKET_MS: f64 = 20.0;

/// A histogram in which older values count less.
struct Histogram {
    shares: [f64; BUCKETS],
    forget: f64,
    /// Forget factor of the start, which is faster.
    forget_first: Option<f64>,
    added: u64,
}

impl Histogram {
    fn new(forget: f64, forget_first: Option<f64>) -> Self {
        // The initial shares fall by half from bucket to bucket.
        let mut share = 1.0;
        let shares = std::array::from_fn(|_| {
            share /= 2.0;
            share
        });
        Self {
            shares,
            forget,
            forget_first,
            added: 0,
        }
    }

    fn add(&mut self, delay_ms: f64) {
        self.added += 1;
        let bucket = ((delay_ms / BUCKET_MS) as usize).min(BUCKETS - 1);
        let forget = match self.forget_first {
            Some(weight) => {
                let so_far = 1.0 - weight / (self.added as f64 + 1.0);
                self.forget.min(so_far.max(0.0))
            }
            None => self.forget,
        };
        for share in &mut self.shares {
            *share *= forget;
        }
        self.shares[bucket] += 1.0 - forget;
    }

    /// Index of the first bucket up to which the shares add up to `share`.
    fn quantile(&self, share: f64) -> usize {
        let mut sum = 0.0;
        let reached = self.shares.iter().position(|it| {
            sum += it;
            sum >= share
        });
        reached.unwrap_or(BUCKETS - 1)
    }
}

/// Finds the delay at which the buffer seldom runs empty: a quantile of the largest delays of
/// half-seconds.
pub(super) struct Underruns {
    histogram: Histogram,
    quantile: f64,
    worst_ms: f64,
    begun: Option<f64>,
    optimal_ms: f64,
}

impl Underruns {
    const RESAMPLE_MS: f64 = 500.0;

    pub(super) fn new(quantile: f64) -> Self {
        Self {
            histogram: Histogram::new(0.983, Some(2.0)),
            quantile,
            worst_ms: 0.0,
            begun: None,
            optimal_ms: 80.0,
        }
    }

    pub(super) fn add(&mut self, delay_ms: f64, now: f64) {
        let begun = *self.begun.get_or_insert(now);
        if now - begun > Self::RESAMPLE_MS {
            self.histogram.add(self.worst_ms);
            self.worst_ms = 0.0;
            self.begun = Some(now);
            self.optimal_ms = (self.histogram.quantile(self.quantile) + 1) as f64 * BUCKET_MS;
        }
        self.worst_ms = self.worst_ms.max(delay_ms);
    }

    pub(super) fn optimal_ms(&self) -> f64 {
        self.optimal_ms
    }
}

/// Finds the delay to wait for reordered packets, by weighing the wait against the losses that it
/// avoids; one percent of loss is worth 20 ms.
pub(super) struct Reordering {
    histogram: Histogram,
}

impl Reordering {
    const MS_PER_LOSS_PERCENT: f64 = 20.0;

    pub(super) fn new() -> Self {
        Self {
            histogram: Histogram::new(0.9993, Some(2.0)),
        }
    }

    /// Adds a packet that arrived `delay_ms` behind a later one, or in order; `base_ms` is the
    /// delay that is waited anyway.
    pub(super) fn add(&mut self, delay_ms: f64, base_ms: f64) -> f64 {
        self.histogram.add(delay_ms);
        let mut missed = 1.0;
        let mut best = (f64::INFINITY, 0);
        for (bucket, share) in self.histogram.shares.iter().enumerate() {
            missed -= share;
            let wait = (bucket as f64 * BUCKET_MS - base_ms).max(0.0);
            let cost = wait + Self::MS_PER_LOSS_PERCENT * 100.0 * missed.max(0.0);
            if cost < best.0 - 1e-9 {
                best = (cost, bucket);
            }
        }
        match best.1 {
            0 => 0.0,
            bucket => (bucket + 1) as f64 * BUCKET_MS,
        }
    }
}
