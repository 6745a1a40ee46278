use std::time::Instant;

/// Pacing gains of the ProbeBW cycle: one round probes for more, one drains the queue that
/// it made, six cruise (§4.3.4).
pub(super) const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Phase in which the cycle does not begin, because there is no queue to drain yet
/// (§4.3.4.2).
pub(super) const DRAINING_PHASE: usize = 1;

/// Position of `ProbeBw` in its gain cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cycle {
    /// Index of the present phase in [`CYCLE`].
    pub(super) phase: usize,
    /// When the present phase began.
    pub(super) began: Option<Instant>,
    /// State of the generator that chooses where a cycle begins.
    pub(super) random: u64,
}

impl Cycle {
    /// Returns a cycle in its first phase. `seed` chooses where later cycles begin.
    pub(super) const fn new(seed: u64) -> Self {
        Self {
            phase: 0,
            began: None,
            random: seed,
        }
    }

    /// Returns the pacing gain of the present phase.
    pub(super) const fn gain(&self) -> f64 {
        CYCLE[self.phase]
    }

    /// Enters the next phase.
    pub(super) fn advance(&mut self, now: Instant) {
        self.phase = (self.phase + 1) % CYCLE.len();
        self.began = Some(now);
    }

    /// Begins a cycle in a random phase other than the draining one.
    pub(super) fn begin(&mut self, now: Instant) {
        self.random = mix(self.random);
        let choices = CYCLE.len() - 1;
        #[expect(clippy::cast_possible_truncation, reason = "below 7")]
        let drawn = (self.random % choices as u64) as usize;
        self.phase = (DRAINING_PHASE + 1 + drawn) % CYCLE.len();
        self.began = Some(now);
    }
}

/// Returns the next number of a pseudo-random sequence (SplitMix64).
const fn mix(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}
