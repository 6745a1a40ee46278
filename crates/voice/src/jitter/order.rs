use glassline_rtp::{SequenceExtender, TimestampExtender};

/// Number of sequence numbers below the highest for which arrival is remembered.
const SEEN: u64 = 1_024;

/// Largest distance of a sequence number from the highest within one stream (RFC 3550
/// appendix A.1 allows 3,000 ahead).
const JUMP_MAX: u64 = 3_000;

/// Classifies packets by sequence number and timestamp, which are extended so that they do
/// not wrap.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    sequences: SequenceExtender,
    timestamps: TimestampExtender,
    /// One bit for each of the last [`SEEN`] numbers: the packet arrived.
    seen: [u64; (SEEN / 64) as usize],
    /// One bit for each of the last [`SEEN`] numbers: the packet had no audio.
    empty: [u64; (SEEN / 64) as usize],
    /// The previous packet, if it seemed to belong to another stream.
    stray: Option<Stray>,
}

/// A packet that seemed to belong to another stream.
#[derive(Clone, Copy, Debug)]
struct Stray {
    sequence: u16,
    timestamp: u32,
}

/// The class of a packet by its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketClass {
    /// The packet is new and belongs to the stream: its extended sequence number and
    /// timestamp.
    New(u64, i64),
    /// The packet arrived before, or is too old to know.
    Seen,
    /// The packet belongs to another stream, or is the first after this stream restarted.
    Stray,
    /// The packet is the second of a new stream.
    Restart,
}

impl Order {
    /// Classifies a packet. `distance_max` is the largest distance of a timestamp from the highest,
    /// in ticks.
    pub(super) fn classify(
        &mut self,
        sequence: u16,
        timestamp: u32,
        distance_max: i64,
    ) -> PacketClass {
        let wide = self.sequences.peek(sequence);
        if let (Some(highest), Some(latest)) = (self.sequences.highest(), self.timestamps.highest())
        {
            let ticks = TimestampExtender::near(latest, timestamp) - latest;
            if wide.abs_diff(highest) > JUMP_MAX || ticks.abs() > distance_max {
                return self.classify_stray(sequence, timestamp, distance_max);
            }
            if highest >= wide && highest - wide >= SEEN {
                return PacketClass::Seen;
            }
            self.forget_between(highest, wide);
        }
        let (word, bit) = slot(wide);
        if self.seen[word] & bit != 0 {
            return PacketClass::Seen;
        }
        self.seen[word] |= bit;
        self.stray = None;
        self.sequences.extend(sequence);
        PacketClass::New(wide, self.timestamps.extend(timestamp))
    }

    /// Notes that the packet with this extended sequence number has no audio.
    pub(super) fn mark_empty(&mut self, wide: u64) {
        let (word, bit) = slot(wide);
        self.empty[word] |= bit;
    }

    /// Number of packets with audio between two packets, by their extended sequence numbers.
    pub(super) fn between(&self, last: u64, next: u64) -> u64 {
        // Numbers older than the window are not remembered.
        let highest = self.sequences.highest().unwrap_or(next);
        let first = (last + 1).max((highest + 1).saturating_sub(SEEN));
        let is_empty = |number: &u64| {
            let (word, bit) = slot(*number);
            self.empty[word] & bit != 0
        };
        let empty = (first..next).filter(is_empty).count() as u64;
        next.saturating_sub(last + 1) - empty
    }

    /// Timestamp of a RED block that lies `offset` ticks before a packet at `at`.
    pub(super) const fn before(at: i64, offset: u32) -> i64 {
        at - offset as i64
    }

    /// Classifies a packet whose numbers are far from the stream's.
    fn classify_stray(&mut self, sequence: u16, timestamp: u32, distance_max: i64) -> PacketClass {
        let follows = self.stray.is_some_and(|last| {
            let ticks = i64::from(timestamp.wrapping_sub(last.timestamp) as i32);
            last.sequence.wrapping_add(1) == sequence && (0..=distance_max).contains(&ticks)
        });
        self.stray = Some(Stray {
            sequence,
            timestamp,
        });
        if follows {
            PacketClass::Restart
        } else {
            PacketClass::Stray
        }
    }

    /// Clears the bits of numbers that were skipped up to `wide`, which old numbers had used.
    fn forget_between(&mut self, highest: u64, wide: u64) {
        let first = wide.saturating_sub(SEEN - 1).max(highest + 1);
        for number in first..=wide {
            let (word, bit) = slot(number);
            self.seen[word] &= !bit;
            self.empty[word] &= !bit;
        }
    }
}

/// Word and bit of a number in the window.
const fn slot(wide: u64) -> (usize, u64) {
    let bit = wide % SEEN;
    ((bit / 64) as usize, 1 << (bit % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISTANCE_MAX: i64 = 480_000;

    #[test]
    fn numbers_wrap_and_are_seen_once() {
        let mut order = Order::default();
        let (mut sequence, mut timestamp) = (65_000u16, u32::MAX - 500_000);
        let mut last = None;
        for _ in 0..5_000 {
            let PacketClass::New(wide, ticks) = order.classify(sequence, timestamp, DISTANCE_MAX)
            else {
                panic!("it follows");
            };
            if let Some((number, then)) = last {
                assert_eq!((wide, ticks), (number + 1, then + 960));
            }
            assert_eq!(
                order.classify(sequence, timestamp, DISTANCE_MAX),
                PacketClass::Seen
            );
            last = Some((wide, ticks));
            sequence = sequence.wrapping_add(1);
            timestamp = timestamp.wrapping_add(960);
        }
    }

    #[test]
    fn those_between_may_still_come() {
        let mut order = Order::default();
        for sequence in [10u16, 14, 12, 500, 13, 11, 400] {
            let timestamp = u32::from(sequence) * 960;
            let class = order.classify(sequence, timestamp, DISTANCE_MAX);
            assert!(
                matches!(class, PacketClass::New(..)),
                "{sequence}: {class:?}"
            );
        }
        assert_eq!(
            order.classify(12, 12 * 960, DISTANCE_MAX),
            PacketClass::Seen
        );
        // Numbers older than the window are refused.
        order.classify(1_600, 1_600 * 960 - 200 * 960, 2 * DISTANCE_MAX);
        assert_eq!(
            order.classify(401, 401 * 960, 2 * DISTANCE_MAX),
            PacketClass::Seen
        );
    }

    #[test]
    fn what_has_no_audio_is_not_missing() {
        let mut order = Order::default();
        for sequence in 0..3_000u16 {
            let class = order.classify(sequence, u32::from(sequence) * 160, DISTANCE_MAX);
            let PacketClass::New(wide, _) = class else {
                panic!("it follows");
            };
            if sequence % 10 == 3 {
                order.mark_empty(wide);
            }
        }
        let wide = order.sequences.highest().expect("3,000") - 2_999;
        assert_eq!(order.between(wide + 2_990, wide + 2_992), 1);
        assert_eq!(order.between(wide + 2_992, wide + 2_994), 0);
        assert_eq!(order.between(wide + 2_900, wide + 2_921), 18);
        assert_eq!(order.between(wide + 2_900, wide + 2_900), 0);
        // Forgotten, and so missing.
        assert_eq!(order.between(wide, wide + 21), 20);
    }

    #[test]
    fn one_stray_packet_changes_nothing_and_two_in_a_row_do() {
        let mut order = Order::default();
        order.classify(1, 960, DISTANCE_MAX);
        assert_eq!(order.classify(40_000, 7, DISTANCE_MAX), PacketClass::Stray);
        assert!(matches!(
            order.classify(2, 1_920, DISTANCE_MAX),
            PacketClass::New(..)
        ));
        assert_eq!(
            order.classify(40_001, 967, DISTANCE_MAX),
            PacketClass::Stray
        );
        assert_eq!(
            order.classify(40_002, 1_927, DISTANCE_MAX),
            PacketClass::Restart
        );
    }

    #[test]
    fn a_stream_ends_3000_numbers_or_a_distance_away() {
        let first = (30_000u16, 1_000_000u32);
        for (sequence, ticks, is_stray) in [
            (3_000i16, 0i32, false),
            (3_001, 0, true),
            (-1_023, 0, false),
            (-3_000, 0, false),
            (-3_001, 0, true),
            (1, 480_000, false),
            (1, 480_001, true),
            (-1, -480_000, false),
            (-1, -480_001, true),
        ] {
            let mut order = Order::default();
            order.classify(first.0, first.1, DISTANCE_MAX);
            let class = order.classify(
                first.0.wrapping_add_signed(sequence),
                first.1.wrapping_add_signed(ticks),
                DISTANCE_MAX,
            );
            let what = format!("{sequence}, {ticks}: {class:?}");
            assert_eq!(class == PacketClass::Stray, is_stray, "{what}");
            // A thousand and more numbers back nothing is remembered.
            let is_new = !is_stray && sequence >= -1_023;
            assert_eq!(matches!(class, PacketClass::New(..)), is_new, "{what}");
        }
    }

    #[test]
    fn the_last_1024_numbers_are_remembered() {
        let mut order = Order::default();
        order.classify(5_000, 0, DISTANCE_MAX);
        order.classify(6_023, 0, DISTANCE_MAX);
        assert_eq!(order.classify(5_000, 0, DISTANCE_MAX), PacketClass::Seen);
        let new = order.classify(5_001, 0, DISTANCE_MAX);
        assert!(matches!(new, PacketClass::New(..)), "{new:?}");
        order.classify(6_024, 0, DISTANCE_MAX);
        // Its place is taken by the one that came 1,024 later.
        assert_eq!(order.classify(5_000, 0, DISTANCE_MAX), PacketClass::Seen);
        let skipped = order.classify(6_022, 0, DISTANCE_MAX);
        assert!(matches!(skipped, PacketClass::New(..)), "{skipped:?}");
        // What was skipped is not what was there a round before.
        let mut order = Order::default();
        for sequence in 0..1_000 {
            order.classify(sequence, 0, DISTANCE_MAX);
        }
        order.classify(2_000, 0, DISTANCE_MAX);
        for sequence in 1_000..2_000 {
            let class = order.classify(sequence, 0, DISTANCE_MAX);
            assert!(
                matches!(class, PacketClass::New(..)),
                "{sequence}: {class:?}"
            );
        }
    }

    #[test]
    fn what_is_between_does_not_count_what_is_empty_or_at_the_ends() {
        let mut order = Order::default();
        for sequence in 0..100u16 {
            if let PacketClass::New(wide, _) = order.classify(sequence, 0, DISTANCE_MAX)
                && [10, 11, 20].contains(&sequence)
            {
                order.mark_empty(wide);
            }
        }
        let highest = order.sequences.highest().expect("a hundred");
        let wide = |sequence: u64| highest - 99 + sequence;
        let cases = [
            (9, 12, 0),
            (8, 12, 1),
            (9, 13, 1),
            (10, 20, 8),
            (10, 21, 8),
            (20, 20, 0),
            (21, 20, 0),
            (0, 99, 95),
        ];
        for (last, next, between) in cases {
            assert_eq!(
                order.between(wide(last), wide(next)),
                between,
                "{last} {next}"
            );
        }
        assert_eq!(Order::before(1_000, 960), 40);
    }

    #[test]
    fn a_new_stream_needs_two_packets_that_follow_each_other() {
        for (sequence, ticks, class) in [
            (1u16, 960i32, PacketClass::Restart),
            (1, 0, PacketClass::Restart),
            (1, 480_000, PacketClass::Restart),
            (1, 480_001, PacketClass::Stray),
            (1, -1, PacketClass::Stray),
            (2, 960, PacketClass::Stray),
            (0, 960, PacketClass::Stray),
        ] {
            let mut order = Order::default();
            order.classify(1, 960, DISTANCE_MAX);
            // Its numbers wrap.
            let stray = (u16::MAX, u32::MAX - 100);
            assert_eq!(
                order.classify(stray.0, stray.1.wrapping_sub(1 << 31), DISTANCE_MAX),
                PacketClass::Stray
            );
            assert_eq!(
                order.classify(40_000, stray.1, DISTANCE_MAX),
                PacketClass::Stray
            );
            let next = 40_000u16.wrapping_add(sequence);
            let then = stray.1.wrapping_add_signed(ticks);
            assert_eq!(
                order.classify(next, then, DISTANCE_MAX),
                class,
                "{sequence}, {ticks}"
            );
        }
    }
}
