use super::*;
use std::time::Instant;

fn stamps() -> Stamps {
    Stamps::arrived(Instant::now())
}

fn build(mut builder: UnitBuilder) -> Option<MediaUnit> {
    builder.build(TrackIndex(0), MediaTime::ZERO, true, stamps())
}

#[test]
fn the_last_packet_of_a_unit_is_padded_if_it_misses_by_little() {
    let padding = |sizes: &[usize]| {
        let mut builder = UnitBuilder::default();
        for size in sizes {
            builder.push(&vec![7; *size]);
        }
        let unit = build(builder).expect("packets");
        (0..sizes.len())
            .map(|index| unit.padding(index))
            .collect::<Vec<_>>()
    };
    assert_eq!(padding(&[1000, 1000, 993]), [0, 0, 7]);
    assert_eq!(padding(&[1000, 1000]), [0, 0]);
    assert_eq!(padding(&[1000, 984]), [0, 16]);
    assert_eq!(padding(&[1000, 983]), [0, 0], "too much");
    assert_eq!(padding(&[500]), [0]);
    assert_eq!(padding(&[500, 1000]), [0, 0], "it is the longer one");
}

#[test]
fn payloads_come_back_as_pushed() {
    let mut builder = UnitBuilder::with_capacity(16);
    builder.push(b"one");
    builder.coded(b"tw");
    builder.coded(b"o");
    builder.end_packet();
    builder.push(b"");
    assert_eq!(builder.sizes().collect::<Vec<_>>(), [3, 3]);
    let unit = build(builder).expect("two packets");
    assert_eq!(
        unit.payloads().collect::<Vec<_>>(),
        [b"one".as_slice(), b"two"]
    );
    assert!(!unit.marker(0) && unit.marker(1));
    assert_eq!(unit.payload(2), None);
}

#[test]
fn an_empty_unit_is_none() {
    assert!(build(UnitBuilder::default()).is_none());
    let mut frame_only = UnitBuilder::default();
    frame_only.frame_only(b"start code");
    assert!(build(frame_only).is_none(), "no packet carries it");
}

#[test]
fn the_frame_is_read_without_the_prefixes_of_its_packets() {
    let mut builder = UnitBuilder::default();
    builder.frame_only(b"[start]");
    for (prefix, part) in [("A:", "one "), ("B:", "two "), ("C:", "three")] {
        builder.wire_only(prefix.as_bytes());
        builder.coded(part.as_bytes());
        builder.end_packet();
    }
    let unit = build(builder).expect("three packets");
    let payloads: Vec<_> = unit.payloads().collect();
    assert_eq!(payloads, [&b"A:one "[..], b"B:two ", b"C:three"]);
    assert_eq!(unit.payload_bytes(), 19);
    let frame = unit.coded_frame().expect("a frame");
    assert_eq!(frame.to_vec(), b"[start]one two three");
    assert_eq!(frame.byte_count(), 20);
    let shared: Vec<_> = frame.shared_pieces().collect();
    assert_eq!(shared.concat(), frame.to_vec());
    let inside = unit.data.as_ptr_range();
    assert!(
        shared.iter().all(|piece| inside.contains(&piece.as_ptr())),
        "nothing is copied"
    );
}

#[test]
fn a_frame_that_is_its_payloads_needs_no_map() {
    let mut builder = UnitBuilder::default();
    builder.push(b"one ");
    builder.push(b"two");
    let unit = build(builder).expect("two packets");
    let frame = unit.coded_frame().expect("a frame");
    assert_eq!(frame.pieces().collect::<Vec<_>>(), [b"one two"]);
    assert!(matches!(&unit.content, Content::Frame(spans) if spans.is_empty()));
}

#[test]
fn a_forwarded_packet_keeps_its_numbers_and_shows_no_frame() {
    let forwarded = Forwarded {
        gap: 2,
        timestamp: 4711,
    };
    let unit = UnitBuilder::forward(
        b"voice",
        forwarded,
        TrackIndex(0),
        MediaTime::ZERO,
        stamps(),
    );
    let unit = unit.expect("one packet");
    assert_eq!(unit.forwarded(), Some(forwarded));
    assert_eq!(unit.payload(0), Some(&b"voice"[..]));
    assert!(unit.coded_frame().is_none());
    assert!(
        UnitBuilder::forward(b"", forwarded, TrackIndex(0), MediaTime::ZERO, stamps()).is_none()
    );
}

#[test]
fn a_builder_is_empty_after_each_unit() {
    let mut builder = UnitBuilder::default();
    builder.frame_only(b"[");
    assert!(
        builder
            .build(TrackIndex(0), MediaTime::ZERO, true, stamps())
            .is_none()
    );
    builder.push(b"one");
    let first = builder.build(TrackIndex(0), MediaTime::ZERO, true, stamps());
    let first = first.expect("a packet");
    assert_eq!(first.coded_frame().expect("a frame").to_vec(), b"one");
    builder.wire_only(b"half a unit that cannot be sent");
    builder.clear();
    builder.push(b"two");
    let second = builder.build(TrackIndex(0), MediaTime::ZERO, true, stamps());
    let second = second.expect("a packet");
    assert_eq!(second.payloads().collect::<Vec<_>>(), [b"two"]);
    assert_eq!(second.coded_frame().expect("a frame").to_vec(), b"two");
}

#[test]
fn a_unit_tells_the_memory_of_its_bytes_packets_and_map() {
    let memory = |build_up: fn(&mut UnitBuilder)| {
        let mut builder = UnitBuilder::default();
        build_up(&mut builder);
        build(builder).expect("a packet").memory_bytes()
    };
    let base = memory(|it| it.push(b"1234")) - 4 - size_of::<u32>();
    assert_eq!(base, size_of::<MediaUnit>());
    let two = memory(|it| {
        it.push(b"1234");
        it.push(b"56");
    });
    assert_eq!(two, base + 6 + 2 * size_of::<u32>());
    let mapped = memory(|it| {
        it.wire_only(b"12");
        it.coded(b"34");
    });
    assert_eq!(mapped, base + 4 + size_of::<u32>() + size_of::<Span>());
}

#[test]
fn ranges_that_touch_are_one_piece_of_the_frame() {
    let mut builder = UnitBuilder::default();
    builder.wire_only(b"A:");
    builder.coded(b"one ");
    builder.end_packet();
    builder.coded(b"two ");
    builder.end_packet();
    builder.wire_only(b"C:");
    builder.coded(b"");
    builder.coded(b"three");
    let unit = build(builder).expect("three packets");
    let frame = unit.coded_frame().expect("a frame");
    let pieces: Vec<_> = frame.pieces().collect();
    assert_eq!(pieces, [&b"one two "[..], b"three"]);
    assert_eq!(unit.packet_count(), 3);
}

#[test]
fn the_marker_is_on_the_last_packet_of_a_frame_only() {
    let mut builder = UnitBuilder::default();
    builder.push(b"one");
    builder.push(b"two");
    let mut unit = build(builder).expect("two packets");
    assert_eq!(
        [unit.marker(0), unit.marker(1), unit.marker(2)],
        [false, true, false]
    );
    unit.last = false;
    assert!(!unit.marker(1), "the frame goes on");
    assert!(unit.forwarded().is_none());
}

#[test]
fn an_edited_unit_has_other_bytes_in_its_packets_and_leaves_the_first_one_alone() {
    let mut builder = UnitBuilder::default();
    builder.wire_only(b"1:");
    builder.coded(b"one");
    builder.end_packet();
    builder.wire_only(b"2:");
    builder.coded(b"two");
    builder.frame_only(b"rest");
    let unit = build(builder).expect("two packets");
    let edited = unit.edited(|payload| payload[0] = b'x');
    let payloads = |unit: &MediaUnit| unit.payloads().map(<[u8]>::to_vec).collect::<Vec<_>>();
    assert_eq!(payloads(&edited), [b"x:one", b"x:two"]);
    assert_eq!(payloads(&unit), [b"1:one", b"2:two"]);
    let frame = |unit: &MediaUnit| unit.coded_frame().map(CodedFrame::to_vec);
    assert_eq!(frame(&edited), frame(&unit), "the coded frame is as before");
}
