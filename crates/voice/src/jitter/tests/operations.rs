//! Random operations in random order.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Operation {
    /// The next packet, or another one: how far its numbers are from the next.
    Insert {
        sequence: i16,
        timestamp: i32,
        bytes: u8,
    },
    Pull(u8),
    Wait(u16),
    Reset,
}

fn operation() -> impl Strategy<Value = Operation> {
    let numbers = prop_oneof![
        6 => Just((0i16, 0i32)),
        3 => (-20i16..20).prop_map(|it| (it, i32::from(it) * 160)),
        1 => (any::<i16>(), any::<i32>()),
    ];
    prop_oneof![
        6 => (numbers, prop_oneof![5 => Just(160u8), 1 => any::<u8>()]).prop_map(
            |((sequence, timestamp), bytes)| Operation::Insert { sequence, timestamp, bytes }
        ),
        6 => (0u8..=200).prop_map(Operation::Pull),
        3 => (0u16..100).prop_map(Operation::Wait),
        1 => any::<u16>().prop_map(Operation::Wait),
        1 => Just(Operation::Reset),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn audio_is_whole_and_memory_bounded(
        operations in prop::collection::vec(operation(), 1..300),
        level in -1.0f32..1.0,
        channels in 1usize..=2,
    ) {
        let format = Format::new(RATE, channels).expect("1 or 2");
        let mut buffer = Buffer::new(Config::default(), L16::new(format));
        let mut now = Clock::new().now();
        let (mut next, mut ticks) = (0u16, 0u32);
        for operation in operations {
            match operation {
                Operation::Insert { sequence, timestamp, bytes } => {
                    let samples = vec![level; usize::from(bytes)];
                    let packet = Packet {
                        sequence: next.wrapping_add_signed(sequence),
                        timestamp: ticks.wrapping_add_signed(timestamp),
                        payload: L16::encode(&samples).into(),
                    };
                    let copy = [(160, packet.payload.clone())];
                    let _ = buffer.insert_with(packet, &copy, now);
                    next = next.wrapping_add(1);
                    ticks = ticks.wrapping_add(160);
                }
                Operation::Pull(frames) => {
                    let mut out = vec![f32::NAN; usize::from(frames) * channels];
                    buffer.pull(now, &mut out);
                    prop_assert!(out.iter().all(|it| it.is_finite() && it.abs() <= 1.0));
                    now += Duration::from_micros(125) * u32::from(frames);
                }
                Operation::Wait(millis) => now += Duration::from_millis(u64::from(millis)),
                Operation::Reset => buffer.reset(),
            }
            let report = buffer.report(now);
            prop_assert!(report.packets <= queue::PACKETS_MAX);
            prop_assert!(report.waiting < millis(500));
        }
    }
}
