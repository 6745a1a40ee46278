use std::time::Duration;

/// A running digest of events, to compare two runs by one number.
///
/// Events should have times since the clock's start, sizes and decisions; never instants
/// (they differ from run to run) or ciphertext (keys are random).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Digest of the events so far.
    hash: u64,
    /// Number of events so far.
    events: u64,
}

impl Default for Trace {
    fn default() -> Self {
        Self::new()
    }
}

impl Trace {
    /// Returns a digest of no events.
    pub const fn new() -> Self {
        // FNV-1a's 64-bit offset basis.
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            events: 0,
        }
    }

    /// Records an event that happened after `elapsed`; `value` is its size or outcome.
    pub fn record(&mut self, elapsed: Duration, event: &str, value: u64) {
        self.events += 1;
        let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.feed(&nanos.to_le_bytes());
        self.feed(event.as_bytes());
        // Ends the name: no UTF-8 text holds this byte.
        self.feed(&[0xff]);
        self.feed(&value.to_le_bytes());
    }

    /// Returns the number of events.
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Returns the digest of all events in order.
    pub const fn digest(&self) -> u64 {
        self.hash
    }

    /// Adds bytes to the digest.
    fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_time_name_and_value_all_count() {
        let of = |events: &[(u64, &str, u64)]| {
            let mut trace = Trace::new();
            for &(millis, event, value) in events {
                trace.record(Duration::from_millis(millis), event, value);
            }
            trace.digest()
        };
        let base = of(&[(1, "a", 2), (1, "b", 3)]);
        assert_eq!(base, of(&[(1, "a", 2), (1, "b", 3)]));
        for other in [
            of(&[(1, "b", 3), (1, "a", 2)]),
            of(&[(2, "a", 2), (1, "b", 3)]),
            of(&[(1, "ab", 2), (1, "", 3)]),
            of(&[(1, "a", 2), (1, "b", 4)]),
            of(&[(1, "a", 2)]),
        ] {
            assert_ne!(base, other);
        }
    }
}
