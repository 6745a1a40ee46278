//! Requests of the peer to a sender, and how many of them are granted.

/// Most packets that a peer may request at once, about two seconds of 3 Mbit/s; every new media
/// packet allows one more. A request of few bytes causes a full packet, so without a limit one
/// viewer could keep a whole thread busy sending to it.
pub const REPAIRS_MAX: u64 = 1024;

/// Requests of the peer to a sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requests {
    /// Number of packets that may be retransmitted: the level of a token bucket to which every
    /// media packet adds one.
    repairs: u32,
    /// Number of the last FIR command.
    last_full_intra: Option<u8>,
    /// Number of media packets that were added to the bucket.
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
    /// Takes one token, after `packets` media packets were sent. Returns false if there is
    /// none.
    pub(super) fn take_repair(&mut self, packets: u64) -> bool {
        let left = u64::from(self.repairs) + packets - self.earned;
        self.repairs = low_32(left.min(REPAIRS_MAX));
        self.earned = packets;
        let some = self.repairs > 0;
        self.repairs -= u32::from(some);
        some
    }

    /// Returns whether a FIR command is new, which it is if its number differs from the last
    /// (RFC 5104 §4.3.1.2).
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
