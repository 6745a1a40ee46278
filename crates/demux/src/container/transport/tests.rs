use bytes::Bytes;
use std::io::Cursor;

use proptest::prelude::*;

use super::*;
use crate::system_clock::stamp::{CLOCK_RATE, STAMP_MODULUS};
use crate::{Demuxer, Format, Frame, Input, MediaTime, Options};

/// `ffmpeg -f lavfi -i testsrc2=s=128x96:r=25:d=2.4 -f lavfi -i sine=440:r=48000:d=2.4
/// -c:v libx264 -g 20 -bf 2 -qp 34 -c:a mp2 -b:a 32k -ac 1 -f mpegts`, FFmpeg 5.1.
const CLIP: &[u8] = include_bytes!("../../../samples/h264-mp2.ts");
/// As above from libx265 (`keyint=10`) and mpeg2video (`-g 10 -bf 2`), 1.2 s.
const H265: &[u8] = include_bytes!("../../../samples/h265.ts");
const MPEG2: &[u8] = include_bytes!("../../../samples/mpeg2.ts");

/// Packet identifier of the frames in all of them.
const VIDEO: u16 = 256;

fn open_bytes(bytes: &[u8]) -> Result<Transport, Fault> {
    let data = Box::new(Cursor::new(bytes.to_vec()));
    Transport::open(data, &mut Warnings::default())
}

fn opened(bytes: &[u8]) -> Transport {
    open_bytes(bytes).expect("a good file")
}

fn units(reader: &mut dyn Reader) -> Vec<Unit> {
    let next = || reader.next_unit().expect("memory can be read");
    std::iter::from_fn(next).collect()
}

fn packets_of(units: &[Unit]) -> Vec<Packet> {
    let bytes: Vec<u8> = units.iter().flat_map(|unit| unit.data.to_vec()).collect();
    let chunks = bytes.chunks_exact(PACKET_BYTES);
    chunks
        .map(|it| Packet(it.try_into().expect("188 bytes")))
        .collect()
}

fn keyframe_ms(transport: &Transport) -> Vec<i64> {
    let mut at = -1;
    let next = || {
        at = transport.keyframe_after(at)?;
        Some(at / 1_000_000)
    };
    std::iter::from_fn(next).collect()
}

/// Counters follow from one another, and clocks of the frames never fall nor
/// make a step of more than `step_max` ticks (27 MHz). Returns the decoding stamps.
fn check_continuous(packets: &[Packet], step_max: i64) -> Vec<i64> {
    let mut counters = std::collections::BTreeMap::new();
    let mut last_clock = None::<i64>;
    let mut stamps = Vec::new();
    for (number, packet) in packets.iter().enumerate() {
        assert!(!packet.is_discontinuous());
        if let Some(last) = counters.insert(packet.pid(), packet.counter()) {
            let expected = last + u8::from(packet.has_payload());
            let pid = packet.pid();
            assert_eq!(
                packet.counter(),
                expected & 15,
                "packet {number}, pid {pid}"
            );
        }
        if let Some(clock) = packet.clock() {
            let step = clock - last_clock.unwrap_or(clock);
            assert!((0..=step_max).contains(&step), "packet {number}: {step}");
            last_clock = Some(clock);
        }
        if packet.pid() == VIDEO {
            stamps.extend(packet.decode_stamp());
        }
    }
    stamps
}

#[test]
fn keyframes_are_where_ffprobe_sees_them() {
    // From `ffprobe -show_entries packet=dts,flags`, less the first.
    assert_eq!(keyframe_ms(&opened(CLIP)), [0, 800, 1600]);
    // Clocks lie at every second frame here, so that times are interpolated.
    let h265 = keyframe_ms(&opened(H265));
    let expected = [0, (147_600 - 126_000) / 90, (183_600 - 126_000) / 90];
    assert!(
        h265.iter().zip(expected).all(|(a, b)| (a - b).abs() < 40),
        "{h265:?}"
    );
    assert_eq!(h265.len(), 3);
    assert_eq!(keyframe_ms(&opened(MPEG2)), [0, 400, 760, 1120]);
    let offsets = |bytes| -> Vec<u64> {
        let transport = opened(bytes);
        let entries = transport.index.entries().iter();
        entries.map(|entry| entry.offset).collect()
    };
    assert_eq!(offsets(CLIP), [564, 18_048, 35_344]);
    assert_eq!(offsets(H265), [564, 6016, 13_724]);
    assert_eq!(offsets(MPEG2), [564, 7896, 15_040, 22_748]);
}

#[test]
fn keyframes_are_found_without_the_indicator() {
    for bytes in [CLIP, H265, MPEG2] {
        let mut without = bytes.to_vec();
        for packet in without.chunks_exact_mut(PACKET_BYTES) {
            if packet[3] & 0x20 != 0 && packet[4] > 0 {
                packet[5] &= !0x40;
            }
        }
        assert_eq!(keyframe_ms(&opened(&without)), keyframe_ms(&opened(bytes)));
    }
}

#[test]
fn a_pass_gives_the_file_with_tables_before_keyframes() {
    let mut transport = opened(CLIP);
    let units = units(&mut transport);
    let keyframes = units.iter().filter(|unit| unit.keyframe);
    for unit in keyframes.clone() {
        let pids: Vec<u16> = packets_of(std::slice::from_ref(unit))
            .iter()
            .map(Packet::pid)
            .collect();
        assert_eq!(pids[..3], [0, 4096, VIDEO]);
    }
    assert_eq!(keyframes.count(), 3);
    assert!(units.iter().all(|unit| unit.data.len() <= 1128));
    let mut last = 0;
    for unit in &units {
        assert!(unit.start_ns >= last && unit.end_ns > unit.start_ns);
        last = unit.start_ns;
    }
    // Tables apart, nothing was touched.
    let audio_and_video = |packets: Vec<Packet>| -> Vec<Packet> {
        let mut packets = packets;
        packets.retain(|packet| (256..300).contains(&packet.pid()));
        packets
    };
    let file = CLIP.chunks_exact(PACKET_BYTES);
    let file: Vec<Packet> = file.map(|it| Packet(it.try_into().expect("188"))).collect();
    let count = file.len();
    assert_eq!(packets_of(&units).len(), count + 3 * 2);
    assert_eq!(audio_and_video(packets_of(&units)), audio_and_video(file));
}

#[test]
fn a_loop_looks_like_one_long_stream() {
    for (bytes, video_frames) in [(CLIP, 60), (H265, 30), (MPEG2, 30)] {
        let mut transport = opened(bytes);
        let mut all = units(&mut transport);
        for _ in 0..2 {
            transport.seek(0).expect("the start is there");
            all.extend(units(&mut transport));
        }
        let stamps = check_continuous(&packets_of(&all), CLOCK_RATE / 8);
        assert_eq!(stamps.len(), 3 * video_frames);
        let steps: Vec<i64> = stamps.windows(2).map(|pair| pair[1] - pair[0]).collect();
        // 40 ms each; audio that is a little longer than the frames is waited for.
        assert!(
            steps.iter().all(|step| (3600..=3600 + 2400).contains(step)),
            "{steps:?}"
        );
        let loops = steps.iter().filter(|&&step| step != 3600).count();
        assert!(loops <= 2, "{steps:?}");
    }
}

#[test]
fn the_stream_runs_on_over_a_seek() {
    let mut transport = opened(CLIP);
    let mut all = Vec::new();
    for to_ms in [0, 1700, 900] {
        transport.seek(to_ms * 1_000_000).expect("within the file");
        let mut taken = 0;
        while taken < 10 {
            all.extend(transport.next_unit().expect("readable"));
            taken += 1;
        }
    }
    check_continuous(&packets_of(&all), CLOCK_RATE / 8);
    let sought: Vec<i64> = [10, 20].map(|at| all[at].start_ns / 1_000_000).to_vec();
    assert_eq!(sought, [1600, 800]);
    assert!(all[10].keyframe && all[20].keyframe);
}

#[test]
fn forks_begin_at_the_start_as_the_file_has_it() {
    let mut transport = opened(CLIP);
    transport.seek(1_700_000_000).expect("within the file");
    transport.next_unit().expect("readable");
    let mut fork = transport.fork();
    let mut fresh = opened(CLIP);
    assert_eq!(units(fork.as_mut()), units(&mut fresh));
}

#[test]
fn packets_with_a_time_of_arrival_play_alike() {
    let mut m2ts = Vec::new();
    for (number, packet) in CLIP.chunks_exact(PACKET_BYTES).enumerate() {
        m2ts.extend((number as u32).to_be_bytes());
        m2ts.extend(packet);
    }
    let (mut plain, mut timed) = (opened(CLIP), opened(&m2ts));
    let data = |transport: &mut Transport| -> Vec<Bytes> {
        units(transport).into_iter().map(|unit| unit.data).collect()
    };
    assert_eq!(data(&mut timed), data(&mut plain));
    assert_eq!(keyframe_ms(&timed), keyframe_ms(&plain));
}

#[test]
fn two_recordings_in_one_file_run_on() {
    let mut file = Rewriter::default();
    let mut joined = CLIP.to_vec();
    for bytes in CLIP.chunks_exact(PACKET_BYTES) {
        let mut packet = Packet(bytes.try_into().expect("188 bytes"));
        // Of another day, just before the clock wraps.
        file.rewrite(&mut packet, (STAMP_MODULUS - 180_000) * 300);
        joined.extend(packet.0);
    }
    let mut warnings = Warnings::default();
    let data = Box::new(Cursor::new(joined));
    let mut transport = Transport::open(data, &mut warnings).expect("a good file");
    let given: Vec<_> = warnings.of("joined.ts".as_ref()).collect();
    assert_eq!(given.len(), 1, "{given:?}");
    assert_eq!(given[0].reason, WarningReason::ClockJump);
    assert!((4_700..4_900).contains(&(transport.length().nanos_of(1) / 1_000_000)));
    assert_eq!(transport.index.entries().len(), 6);
    let clocks: Vec<i64> = packets_of(&units(&mut transport))
        .iter()
        .filter_map(Packet::clock)
        .collect();
    let mut steps = clocks.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(
        steps.all(|step| (0..CLOCK_RATE / 8).contains(&step)),
        "{clocks:?}"
    );
}

#[test]
fn sources_loop_and_seek_transport_streams() {
    let input = Input {
        name: "clip.ts".into(),
        format: Format::MpegTs,
        data: Box::new(Cursor::new(MPEG2)),
    };
    let mut demuxer = Demuxer::new(vec![input], &Options::default()).expect("a good file");
    assert_eq!(
        demuxer.tracks()[0].codec,
        Codec::MpegTs,
        "MPEG-2 is not taken apart"
    );
    let mut next = || -> Frame { demuxer.next_frame().expect("readable").expect("it loops") };
    let frames: Vec<Frame> = (0..300).map(|_| next()).collect();
    let mut times = frames.windows(2).map(|pair| pair[1].time >= pair[0].time);
    assert!(times.all(|rising| rising));
    assert!(frames.last().expect("many").time > MediaTime::from_nanos(4_000_000_000));
    demuxer
        .seek(MediaTime::from_nanos(1_000_000_000))
        .expect("within");
    let frame = demuxer.next_frame().expect("readable").expect("it loops");
    assert_eq!(frame.time.nanos() / 1_000_000, 760);
    assert!(frame.keyframe);
}

#[test]
fn what_is_no_transport_stream_is_refused_with_a_reason() {
    let reason = |bytes: &[u8]| match Format::MpegTs.open(
        Box::new(Cursor::new(bytes.to_vec())),
        &Options::default(),
        &mut Warnings::default(),
    ) {
        Ok(_) => panic!("it should not open"),
        Err(fault) => fault.reason,
    };
    assert!(matches!(reason(b""), Reason::Empty));
    assert!(matches!(
        reason(&[0; 4000]),
        Reason::NoFrame { searched: 4000, .. }
    ));
    assert!(matches!(reason(&CLIP[..188 * 2]), Reason::NothingToPlay(_)));
    let mut hole = CLIP.to_vec();
    hole.splice(188 * 40..188 * 40, vec![0; 3 << 20]);
    assert!(matches!(reason(&hole), Reason::NoFrame { .. }));
    assert!(matches!(
        reason(b"OggS\0\x02 and so on"),
        Reason::Mislabeled { .. }
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_damage_ends_in_an_error_or_in_order(
        cut in 0..CLIP.len(),
        holes in prop::collection::vec((0..CLIP.len(), any::<u8>()), 0..60),
        to_ms in 0i64..3000,
    ) {
        let mut bytes = CLIP[..cut].to_vec();
        for (at, value) in holes {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        if let Ok(mut transport) = open_bytes(&bytes) {
            let first = units(&mut transport);
            prop_assert!(first.iter().all(|unit| unit.data.len().is_multiple_of(PACKET_BYTES)));
            prop_assert!(first.windows(2).all(|pair| pair[0].start_ns <= pair[1].start_ns));
            let length = transport.length().nanos_of(1);
            prop_assert!(first.iter().all(|unit| unit.start_ns <= length));
            transport.seek(to_ms * 1_000_000).expect("memory can be read");
            units(&mut transport);
        }
    }
}
