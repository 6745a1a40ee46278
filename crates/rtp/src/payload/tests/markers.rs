//! Where frames end: markers that are right, missing, or at every packet.

use super::*;

/// The packets of a frame of a track, and their sequence numbers.
struct Sender {
    depacketizer: Depacketizer,
    sequence: u64,
}

impl Sender {
    fn new(codec: Codec) -> Self {
        Self {
            depacketizer: Depacketizer::new(&track(codec)).expect("both ways"),
            sequence: 100,
        }
    }

    /// Sends a packet. Returns the units that are complete with it.
    fn send(&mut self, timestamp: u32, marker: bool, payload: &[u8]) -> Vec<Unit> {
        self.depacketizer
            .push(self.sequence, timestamp, marker, payload);
        self.sequence += 1;
        std::iter::from_fn(|| self.depacketizer.poll()).collect()
    }

    /// Sends single NAL unit packets with a marker on each for which `marked` is true.
    fn nals(
        &mut self,
        timestamp: u32,
        nals: &[&[u8]],
        marked: impl Fn(usize) -> bool,
    ) -> Vec<Unit> {
        let mut units = Vec::new();
        for (place, nal) in nals.iter().enumerate() {
            units.extend(self.send(timestamp, marked(place), nal));
        }
        units
    }
}

/// NAL units of a coding, as a camera with four slices a picture sends them.
struct Slices {
    codec: Codec,
    sets: Vec<&'static [u8]>,
    keyframe: [&'static [u8]; 4],
    delta: [&'static [u8]; 4],
}

const H264: [&[u8]; 2] = [&[0x67, 0x42, 0xc0, 0x1f, 0xda], &[0x68, 0xce, 0x3c, 0x80]];

fn sliced() -> [Slices; 2] {
    let h264 = Slices {
        codec: Codec::H264,
        sets: vec![H264[0], H264[1], &[0x06, 0x05, 0x01, 0x80]],
        keyframe: [
            &[0x65, 0x88, 1],
            &[0x65, 0x42, 2],
            &[0x65, 0x22, 3],
            &[0x65, 0x12, 4],
        ],
        delta: [
            &[0x41, 0x9a, 1],
            &[0x41, 0x42, 2],
            &[0x41, 0x22, 3],
            &[0x41, 0x12, 4],
        ],
    };
    let h265 = Slices {
        codec: Codec::H265,
        sets: vec![&[0x40, 1, 0x0c], &[0x42, 1, 1], &[0x44, 1, 0xc1]],
        keyframe: [
            &[0x26, 1, 0xaf, 1],
            &[0x26, 1, 0x2f, 2],
            &[0x26, 1, 0x3f, 3],
            &[0x26, 1, 0x4f, 4],
        ],
        delta: [
            &[0x02, 1, 0xd0, 1],
            &[0x02, 1, 0x50, 2],
            &[0x02, 1, 0x60, 3],
            &[0x02, 1, 0x70, 4],
        ],
    };
    [h264, h265]
}

fn annexb(nals: &[&[u8]]) -> Vec<u8> {
    let framed = nals.iter().map(|nal| [&[0, 0, 0, 1], *nal].concat());
    framed.collect::<Vec<_>>().concat()
}

fn data(units: &[Unit]) -> Vec<(u32, Vec<u8>)> {
    let each = units.iter().map(|unit| (unit.timestamp, unit.data.clone()));
    each.collect()
}

#[test]
fn slices_that_are_marked_one_by_one_are_one_frame() {
    // iamscottxu/obs-rtspserver#199.
    for Slices {
        codec,
        sets,
        keyframe,
        delta,
    } in sliced()
    {
        let mut sender = Sender::new(codec);
        let first = [&sets[..], &keyframe].concat();
        assert_eq!(sender.nals(0, &first, |_| true), [], "{codec}");
        let mut units = sender.nals(3000, &delta, |_| true);
        units.extend(sender.nals(6000, &delta, |_| true));
        units.extend(sender.nals(9000, &first, |_| true));
        units.extend(sender.nals(12_000, &delta, |_| true));
        let expected = [
            (0, annexb(&first)),
            (3000, annexb(&delta)),
            (6000, annexb(&delta)),
            (9000, annexb(&first)),
        ];
        assert_eq!(data(&units), expected, "{codec}");
        assert!(units[0].is_keyframe() && units[3].is_keyframe(), "{codec}");
        assert!(units.iter().all(|unit| !unit.after_loss), "{codec}");
    }
}

#[test]
fn slices_that_are_marked_one_by_one_and_come_without_sets_cost_one_frame() {
    for Slices {
        codec,
        keyframe,
        delta,
        ..
    } in sliced()
    {
        let mut sender = Sender::new(codec);
        let mut units = sender.nals(0, &keyframe, |_| true);
        for timestamp in [3000, 6000, 9000] {
            units.extend(sender.nals(timestamp, &delta, |_| true));
        }
        let expected = [
            (0, annexb(&keyframe[..1])),
            (3000, annexb(&delta)),
            (6000, annexb(&delta)),
        ];
        assert_eq!(
            data(&units),
            expected,
            "{codec}: nothing told of more slices"
        );
        assert!(units[1].after_loss && !units[2].after_loss, "{codec}");
    }
}

#[test]
fn sets_with_the_marker_and_the_time_of_the_frame_before_belong_to_the_next() {
    // scottlamb/retina#13.
    for Slices {
        codec,
        sets,
        keyframe,
        delta,
    } in sliced()
    {
        let mut sender = Sender::new(codec);
        let (mut units, mut expected) = (Vec::new(), Vec::new());
        for frame in 0..200_u32 {
            let timestamp = frame * 3000;
            let is_last = |place| place == 3;
            let (slices, first) = match frame % 10 {
                0 => {
                    let before = timestamp.saturating_sub(3000);
                    units.extend(sender.nals(before, &sets, |_| true));
                    (&keyframe, [&sets[..], &keyframe].concat())
                }
                _ => (&delta, delta.to_vec()),
            };
            units.extend(sender.nals(timestamp, slices, is_last));
            expected.push((timestamp, annexb(&first)));
            let complete = if frame < 32 { frame } else { frame + 1 };
            assert_eq!(units.len(), complete as usize, "{codec}: no delay for long");
        }
        assert_eq!(data(&units), expected, "{codec}");
    }
}

#[test]
fn the_end_of_a_frame_is_not_waited_for_where_markers_are_right() {
    for Slices {
        codec,
        sets,
        keyframe,
        delta,
    } in sliced()
    {
        let mut sender = Sender::new(codec);
        let first = [&sets[..], &keyframe].concat();
        let last = first.len() - 1;
        assert_eq!(sender.nals(0, &first, |at| at == last).len(), 1, "{codec}");
        for timestamp in [3000, 6000] {
            let units = sender.nals(timestamp, &delta, |at| at == 3);
            assert_eq!(data(&units), [(timestamp, annexb(&delta))], "{codec}");
        }
    }
    for codec in both_ways().filter(|codec| codec.marks_frames()) {
        let mut sender = Sender::new(codec);
        let mut packetizer = Packetizer::new(&track(codec));
        for (seed, timestamp) in (0..20).zip((0..).step_by(3000)) {
            let sent = unit(codec, seed, 4000, seed % 5 == 0);
            let packets = payloads(&mut packetizer, &sent);
            for (place, packet) in packets.iter().enumerate() {
                let is_last = place + 1 == packets.len();
                let units = sender.send(timestamp, is_last, packet);
                let count = usize::from(is_last);
                assert_eq!(units.len(), count, "{codec}: frame {seed}, packet {place}");
            }
        }
    }
}

#[test]
fn markers_that_become_right_end_frames_at_once_again() {
    let [Slices { codec, delta, .. }, _] = sliced();
    let mut sender = Sender::new(codec);
    let mut timestamp = 0;
    let mut frame = |sender: &mut Sender, nals: &[&[u8]], wrong: bool| {
        timestamp += 3000;
        let last = nals.len() - 1;
        let units = sender.nals(timestamp, nals, |at| wrong || at == last);
        units.last().is_some_and(|unit| unit.timestamp == timestamp)
    };
    let mut until_trusted = Vec::new();
    for _ in 0..3 {
        frame(&mut sender, &delta, true);
        assert!(!frame(&mut sender, &delta, false), "not yet");
        let waited = (0..1000).take_while(|_| !frame(&mut sender, &delta, false));
        until_trusted.push(waited.count());
    }
    // A source that is wrong again and again is trusted later each time.
    assert_eq!(until_trusted, [31, 63, 127]);
}

#[test]
fn units_with_start_codes_inside_are_known_by_their_types() {
    // scottlamb/retina#68: one NAL unit of the type of its first.
    for Slices {
        codec,
        sets,
        keyframe,
        ..
    } in sliced()
    {
        let whole = [&sets[..], &keyframe[..1]].concat();
        let bytes = annexb(&whole);
        let in_front = |bytes: &[u8]| bytes.to_vec();
        for (name, unit) in [
            ("inside", &bytes[4..]),
            ("inside and in front", &bytes[..]),
            ("a short one in front", &bytes[1..]),
        ] {
            let mut sender = Sender::new(codec);
            let units = sender.send(0, true, &in_front(unit));
            let [unit] = &units[..] else {
                panic!("{codec}, {name}: {units:?}");
            };
            assert!(unit.is_keyframe(), "{codec}, {name}");
            assert_eq!(
                annexb::nals(&unit.data).collect::<Vec<_>>(),
                whole,
                "{codec}, {name}"
            );
        }
        for (name, unit) in [("inside", &bytes[4..]), ("in front", &bytes[..])] {
            let mut sender = Sender::new(codec);
            let mut units = Vec::new();
            for (packet, marker) in fragments(codec, unit, 5) {
                units.extend(sender.send(0, marker, &packet));
            }
            let [unit] = &units[..] else {
                panic!("{codec}, {name}, in fragments: {units:?}");
            };
            assert!(unit.is_keyframe(), "{codec}, {name}, in fragments");
            let nals: Vec<_> = annexb::nals(&unit.data).collect();
            assert!(nals.ends_with(&whole), "{codec}, {name}: {nals:x?}");
        }
    }
}

#[test]
fn fragments_that_no_bit_ends_are_whole_where_the_sender_never_sets_it() {
    const END: u8 = 0x40;
    for Slices {
        codec,
        sets,
        keyframe,
        delta,
    } in sliced()
    {
        let place = if codec == Codec::H264 { 1 } else { 2 };
        let frames = [[&sets[..], &keyframe[..1]].concat(), delta[..1].to_vec()];
        let mut sender = Sender::new(codec);
        let mut units = Vec::new();
        for timestamp in 0..6 {
            let frame = &frames[usize::from(timestamp > 0)];
            for (index, unit) in frame.iter().enumerate() {
                for (mut packet, is_last) in fragments(codec, unit, 1) {
                    packet[place] &= !END;
                    let marker = is_last && index + 1 == frame.len();
                    units.extend(sender.send(timestamp, marker, &packet));
                }
            }
        }
        // The last frame ends where the next one begins.
        assert_eq!(units.len(), 5, "{codec}");
        for (unit, at) in units.iter().zip(0..) {
            assert_eq!((unit.timestamp, unit.is_keyframe()), (at, at == 0));
            assert_eq!(unit.data, annexb(&frames[usize::from(at > 0)]), "{codec}");
        }
        assert_eq!(sender.depacketizer.counters().malformed, 0);
    }
}

/// Splits a NAL unit into fragments of `size` bytes, with a marker on the last.
fn fragments(codec: Codec, unit: &[u8], size: usize) -> Vec<(Vec<u8>, bool)> {
    let header = if codec == Codec::H264 { 1 } else { 2 };
    let (head, body) = unit.split_at(header);
    let count = body.len().div_ceil(size);
    let part = |(place, part): (usize, &[u8])| {
        let bits = u8::from(place == 0) << 7 | u8::from(place + 1 == count) << 6;
        let prefix = match codec {
            Codec::H264 => vec![head[0] & 0xe0 | 28, bits | head[0] & 0x1f],
            _ => vec![
                head[0] & 0x81 | 49 << 1,
                head[1],
                bits | head[0] >> 1 & 0x3f,
            ],
        };
        ([&prefix[..], part].concat(), place + 1 == count)
    };
    body.chunks(size).enumerate().map(part).collect()
}

#[test]
fn fragmented_audio_needs_no_marker() {
    let track = track(Codec::Aac);
    for marked in [[false, false], [true, true], [false, true], [true, false]] {
        let mut depacketizer = Depacketizer::new(&track).expect("known");
        depacketizer.push(1, 0, marked[0], &[0, 16, 0, 8 << 3, 1, 2, 3, 4]);
        depacketizer.push(2, 0, marked[1], &[0, 16, 0, 8 << 3, 5, 6, 7, 8]);
        depacketizer.push(3, 1024, marked[1], &[0, 16, 0, 8 << 3, 1, 2]);
        depacketizer.push(4, 2048, marked[0], &[0, 16, 0, 1 << 3, 9]);
        let unit = depacketizer.poll().expect("whole");
        assert_eq!(unit.data, [1, 2, 3, 4, 5, 6, 7, 8], "{marked:?}");
        let next = depacketizer
            .poll()
            .expect("the unit behind the one cut off");
        assert_eq!((next.data, next.after_loss), (vec![9], true), "{marked:?}");
        assert_eq!(depacketizer.counters().malformed, 1, "{marked:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Frames of up to 30 are too few to win trust back.
    #[test]
    fn any_markers_yield_the_frames_of_the_right_ones(
        codec in codec().prop_filter("not of frames", |codec| *codec != Codec::MpegTs),
        sizes in prop::collection::vec(16usize..4000, 1..30),
        marked in prop::collection::vec(any::<bool>(), 1..50),
    ) {
        let sent = group(codec, &sizes);
        let mut packetizer = Packetizer::new(&track(codec));
        let mut sender = Sender::new(codec);
        let mut units = Vec::new();
        let mut marked = marked.iter().cycle();
        for (unit, timestamp) in sent.iter().zip((0..).step_by(STEP as usize)) {
            for packet in payloads(&mut packetizer, unit) {
                units.extend(sender.send(timestamp, *marked.next().expect("endless"), &packet));
            }
        }
        // The last frame may wait for the next.
        let next = payloads(&mut packetizer, &unit(codec, 1, 20, true));
        units.extend(sender.send(u32::MAX, false, &next[0]));
        units.retain(|unit| unit.timestamp != u32::MAX);
        prop_assert_eq!(units.len(), sent.len());
        let times = units.iter().map(|unit| unit.timestamp / STEP);
        prop_assert!(times.eq(0..sent.len() as u32));
        let cut = units.iter().zip(&sent).filter(|(came, sent)| came.data != **sent);
        prop_assert!(cut.count() <= 1, "{codec}: one frame teaches that markers are wrong");
    }
}
