//! What a peer asks of a sender, and how much of it is granted.

/// Packets that a peer may ask for at once, some two seconds of 3 Mbit/s; every
/// new media packet allows one more. A few bytes ask for a full packet, so that
/// without a bound one viewer could keep a whole shard sending, to itself.
pub const REPAIRS_MAX: u64 = 1024;

/// What the peer asks of a sender, and how much of it is still granted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requests {
    /// Packets that may be sent again: the level of a token bucket that every media
    /// packet fills by one.
    repairs: u32,
    /// Number of the last FIR command.
    last_full_intra: Option<u8>,
    /// Media packets that have been counted in.
    earned: u64,
}

impl Default for Requests {
    fn default() -> Self {
        Self {
            repairs: low_32(REPAIRS_MAX),
            last_full_intra: None,
            earned: 0,
        }
    }
}

impl Requests {
    /// Takes one repair, after `packets` were sent; false if there is none.
    pub(super) fn take_repair(&mut self, packets: u64) -> bool {
        let left = u64::from(self.repairs) + packets - self.earned;
        self.repairs = low_32(left.min(REPAIRS_MAX));
        self.earned = packets;
        let some = self.repairs > 0;
        self.repairs -= u32::from(some);
        some
    }

    /// A FIR command is new if its number is (RFC 5104 §4.3.1.2).
    pub(super) fn is_new_full_intra(&mut self, number: u8) -> bool {
        self.last_full_intra.replace(number) != Some(number)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "at most REPAIRS_MAX, which fits"
)]
const fn low_32(repairs: u64) -> u32 {
    repairs as u32
}
