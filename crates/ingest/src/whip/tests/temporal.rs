//! Temporal layers on their way to the hub.

use glassline_hub::Wake;
use glassline_media::Temporal;
use glassline_rtp::header_size;

use super::super::fuzzing::DESCRIPTOR_ID;
use super::*;

struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

/// A packet with a whole frame of VP8.
struct Frame {
    number: u16,
    payload: &'static [u8],
    descriptor: &'static [u8],
}

const KEY: &[u8] = &KEYFRAME;
const DELTA: &[u8] = &[0x10, 1, 1, 1];

/// The structure of three temporal layers, with templates from 60 on and from 0 on.
const STRUCTURES: [&[u8]; 2] = [
    b"\xfc\x00\x00\x87\x82\x14\xea\xa8\x60\x41\x4d\x14\x10\x20\x24\x69\x02\x7f\x01\x67",
    b"\xc0\x00\x04\x80\x02\x14\xea\xa8\x60\x41\x4d\x14\x10\x20\x24\x69\x02\x7f\x01\x67",
];

/// Publishes frames in the order of their arrival; returns the places of those of the video.
fn published(frames: &[Frame]) -> Vec<Temporal> {
    let start = Instant::now();
    let (hub, counters) = (Arc::new(Hub::default()), WhipCounters::default());
    let reservations = Arc::new(Reservations::new(start));
    let name = StreamName::parse("studio").expect("good");
    let reservation = reservations.reserve(name, SessionId::new("session"), false, start);
    let mut session = session(2 | 16, start);
    let reservation = reservation.expect("free");
    let contribution = Contribution::new(&session, Arc::clone(&hub), reservation, false, start);
    let mut contribution = contribution.expect("known");
    let mut kinds = session.receivers().iter().map(|it| it.kind);
    let video = kinds.position(|it| it == Kind::Video).expect("offered");
    drop(kinds);
    let place = (ReceiverIndex(video), LayerIndex(0));
    contribution.start(start);
    let (mut units, mut reader) = (Vec::new(), None);
    for frame in frames {
        let header = Header {
            marker: true,
            payload_type: 96,
            sequence: frame.number,
            timestamp: u32::from(frame.number) * 3_000,
            ssrc: glassline_media::Ssrc(7),
        };
        let elements = [(DESCRIPTOR_ID, frame.descriptor)];
        let elements = &elements[..usize::from(!frame.descriptor.is_empty())];
        let mut bytes = vec![0; header_size(elements)];
        write_header(&mut bytes, &header, elements);
        bytes.extend_from_slice(frame.payload);
        let packet = Packet::parse(&bytes).expect("written here");
        let now = start + Duration::from_millis(33) * frame.number.into();
        contribution.take(&session, place, &packet, now, &counters);
        let served = contribution.serve(&mut session, now, &counters);
        served.expect("published");
        let stream = hub.stream("studio").expect("live");
        if reader.is_none() {
            reader = Some(stream.subscribe(Arc::new(NoWake)));
            units.extend(stream.since_keyframe(TrackIndex(0)));
        }
        reader.iter_mut().for_each(|it| it.poll(&mut units));
    }
    units.iter().map(|it| it.temporal).collect()
}

fn place(layer: u8, needs: u8, opens: u8, discardable: bool) -> Temporal {
    Temporal {
        layer,
        needs,
        opens,
        discardable,
    }
}

fn frame(number: u16, payload: &'static [u8], descriptor: &'static [u8]) -> Frame {
    Frame {
        number,
        payload,
        descriptor,
    }
}

#[test]
fn descriptors_are_read_in_the_order_of_frames_and_not_of_arrival() {
    let frames = [
        frame(0, KEY, STRUCTURES[0]),
        frame(1, DELTA, b"\xff\x00\x01"),
        frame(2, DELTA, b"\xfe\x00\x02"),
        frame(3, DELTA, b"\xc0\x00\x03"),
        // By the structure before, it would name no template.
        frame(5, DELTA, b"\xc3\x00\x05"),
        frame(4, KEY, STRUCTURES[1]),
    ];
    let expected = [
        place(0, 0, 2, false),
        place(2, 0, 0, true),
        place(1, 0, 2, false),
        place(2, 1, 0, true),
        place(0, 0, 2, false),
        place(2, 0, 0, true),
    ];
    assert_eq!(published(&frames), expected);
}

#[test]
fn payloads_tell_the_layer_where_no_descriptor_does() {
    let frames = [
        frame(0, KEY, &[]),
        frame(1, &[0xb0, 0x20, 0x80, 1, 1, 1], &[]),
        // The descriptor comes without its structure.
        frame(2, &[0x90, 0x20, 0x60, 1, 1, 1], b"\xfe\x00\x02"),
        frame(3, DELTA, b"\xfe"),
    ];
    let expected = [
        place(0, 0, 0, false),
        place(2, 2, 0, true),
        place(1, 0, 1, false),
        place(0, 0, 0, false),
    ];
    assert_eq!(published(&frames), expected);
}
