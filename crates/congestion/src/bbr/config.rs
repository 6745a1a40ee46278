/// Which BBR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Model a policer: if two stretches lose a fifth and more and deliver the same,
    /// send at that rate for 48 rounds (`bbr_lt_bw_sampling`).
    pub long_term: bool,
    /// Allow for acknowledgements that come in clumps, as radio links send them, by a
    /// larger window (`bbr_update_ack_aggregation`; mvfst had it in 2019).
    pub aggregation: bool,
    /// Take for the bandwidth the faster of sending and being acknowledged, and pace at
    /// it, as mvfst did in November 2019 (`BbrBandwidthSampler.cpp`, at ec7569b9). The
    /// rounds that ask for more then always seem to get it, until the window stops
    /// them: the queue is about as long as the path.
    pub overrates: bool,
    /// Chooses where each cycle of gains begins, so that flows do not probe together.
    pub seed: u64,
}

impl Default for Config {
    /// The draft's, with allowance for aggregation.
    fn default() -> Self {
        Self {
            long_term: false,
            aggregation: true,
            overrates: false,
            seed: 0,
        }
    }
}

impl Config {
    /// As the study of live uploads ran it.
    pub fn study() -> Self {
        Self {
            overrates: true,
            ..Self::default()
        }
    }

    /// With the model of policers.
    pub fn long_term() -> Self {
        Self {
            long_term: true,
            ..Self::default()
        }
    }
}
