/// Which variant of BBR to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Whether to model a policer: if two intervals lose a fifth or more and deliver the
    /// same, send at that rate for 48 rounds (`bbr_lt_bw_sampling`).
    pub long_term: bool,
    /// Whether to allow for acknowledgements that come in clumps, as radio links send them,
    /// by a larger window (`bbr_update_ack_aggregation`; mvfst had it in 2019).
    pub aggregation: bool,
    /// Whether to take the faster of the send rate and the acknowledgement rate as the
    /// bandwidth, and to pace at it, as mvfst did in November 2019
    /// (`BbrBandwidthSampler.cpp`, at ec7569b9). Rounds that probe for more then always
    /// seem to get it, until the window stops them: the queue becomes about as long as the
    /// path.
    pub overrates: bool,
    /// Initial window, in datagrams; RFC 9002 §7.2 and RFC 6928 have ten.
    pub initial_segments: u32,
    /// Seed that chooses where each gain cycle begins, so that flows do not probe together.
    pub seed: u64,
}

impl Default for Config {
    /// Returns the draft's BBR, with allowance for aggregation.
    fn default() -> Self {
        Self {
            long_term: false,
            aggregation: true,
            overrates: false,
            initial_segments: 10,
            seed: 0,
        }
    }
}

impl Config {
    /// Returns BBR as the study of live uploads ran it.
    pub fn study() -> Self {
        Self {
            overrates: true,
            ..Self::default()
        }
    }

    /// Returns BBR with the model of policers.
    pub fn long_term() -> Self {
        Self {
            long_term: true,
            ..Self::default()
        }
    }
}
