//! What an input may cost: memory and processor time in proportion to its bytes.
//!
//! A peer pays for its bytes. A number in them that claims thousands of packets, streams or fragments
//! must not make work or hold memory for what it claims.

use std::fs;
use std::time::{Duration, Instant};

/// The most that an input may cost: a part for whatever the target sets up, and a part for each byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) memory: u64,
    pub(crate) memory_per_byte: u64,
    pub(crate) time: Duration,
    pub(crate) time_per_byte: Duration,
}

/// A build without optimization is slower by about this factor.
const SLOWER: u32 = if cfg!(any(fuzzing, not(debug_assertions))) {
    1
} else {
    20
};

impl Cost {
    /// Returns the most that an input of the target `name` may cost.
    pub(crate) fn of(name: &str) -> Self {
        match name {
            // They parse one input, or a few packets, and keep what the input holds.
            "rtcp"
            | "rtp"
            | "sctp_packet"
            | "stun"
            | "sdp"
            | "framing"
            | "dtls_record"
            | "flexfec"
            | "dependency_descriptor" => Self {
                memory: 256 << 10,
                memory_per_byte: 256,
                time: Duration::from_millis(2),
                time_per_byte: Duration::from_micros(2),
            },
            // Two ends with their windows and queues, in up to 500 steps of two bytes and more.
            "sctp_operations" => Self {
                memory: 4 << 20,
                memory_per_byte: 64,
                time: Duration::from_secs(2),
                time_per_byte: Duration::from_micros(500),
            },
            _ => Self {
                memory: 512 << 20,
                memory_per_byte: 16 << 10,
                time: Duration::from_secs(8),
                time_per_byte: Duration::from_micros(500),
            },
        }
    }

    /// Runs a target on an input.
    ///
    /// # Panics
    /// If the input costs more, or `run` panics.
    pub(crate) fn check(&self, bytes: &[u8], run: fn(&[u8])) {
        // What a target makes once, such as a certificate, is no cost of an input.
        run(&[]);
        let len = bytes.len() as u64;
        let began = cpu_time();
        let started = Instant::now();
        let held = allocation_counter::measure(|| run(bytes)).bytes_max;
        let memory = self.memory + self.memory_per_byte * len;
        assert!(
            held <= memory,
            "{len} bytes held {held} bytes of memory, of {memory} allowed"
        );
        let part = u32::try_from(len).unwrap_or(u32::MAX);
        let time = (self.time + self.time_per_byte.saturating_mul(part)) * SLOWER;
        if started.elapsed() <= time {
            return;
        }
        // Other threads may have had the processor.
        let took = cpu_time().zip(began).map(|(now, began)| now - began);
        assert!(
            took.is_none_or(|took| took <= time),
            "{len} bytes took {took:?} of processor time, of {time:?} allowed"
        );
    }
}

/// Returns the processor time of this thread; `None` where the system does not tell.
fn cpu_time() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = text.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Cost = Cost {
        memory: 1_000,
        memory_per_byte: 10,
        time: Duration::from_millis(1),
        time_per_byte: Duration::from_micros(10),
    };

    fn claimed(bytes: &[u8]) -> usize {
        let claim = bytes.first_chunk().copied().unwrap_or_default();
        usize::from(u16::from_be_bytes(claim))
    }

    #[test]
    fn an_input_may_cost_what_its_bytes_say() {
        SMALL.check(&[0; 500], |bytes| {
            drop(std::hint::black_box(bytes.to_vec()));
        });
    }

    #[test]
    #[should_panic(expected = "bytes of memory")]
    fn memory_for_what_is_claimed_is_a_finding() {
        SMALL.check(&[0xff, 0xff], |bytes| {
            drop(std::hint::black_box(Vec::<u8>::with_capacity(claimed(
                bytes,
            ))));
        });
    }

    #[cfg(target_os = "linux")]
    #[test]
    #[should_panic(expected = "of processor time")]
    fn time_for_what_is_claimed_is_a_finding() {
        SMALL.check(&[0xff, 0xff], |bytes| {
            let began = cpu_time().expect("of this thread");
            let long = Duration::from_micros(claimed(bytes) as u64);
            while cpu_time().expect("of this thread") - began < long {}
        });
    }
}
