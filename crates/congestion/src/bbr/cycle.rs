use std::time::Instant;

/// One round asks for more, one gives back the queue that asked for, six cruise
/// (§4.3.4).
pub(super) const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Where the cycle does not begin: draining a queue that nobody made (§4.3.4.2).
pub(super) const DRAINING_PHASE: usize = 1;

/// Where `ProbeBw` stands in its gains.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cycle {
    pub(super) phase: usize,
    pub(super) began: Option<Instant>,
    pub(super) random: u64,
}

impl Cycle {
    /// `seed` chooses where each cycle begins.
    pub(super) const fn new(seed: u64) -> Self {
        Self {
            phase: 0,
            began: None,
            random: seed,
        }
    }

    /// How much of the bandwidth is asked for in this phase.
    pub(super) const fn gain(&self) -> f64 {
        CYCLE[self.phase]
    }

    /// The next phase.
    pub(super) fn advance(&mut self, now: Instant) {
        self.phase = (self.phase + 1) % CYCLE.len();
        self.began = Some(now);
    }

    pub(super) fn begin(&mut self, now: Instant) {
        self.random = mix(self.random);
        let choices = CYCLE.len() - 1;
        #[expect(clippy::cast_possible_truncation, reason = "below 7")]
        let drawn = (self.random % choices as u64) as usize;
        self.phase = (DRAINING_PHASE + 1 + drawn) % CYCLE.len();
        self.began = Some(now);
    }
}

/// The next of a sequence of numbers that look random (SplitMix64).
const fn mix(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}
