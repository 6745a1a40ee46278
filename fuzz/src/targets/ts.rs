//! Transport streams: any bytes, as they are and as packets put in step, either
//! fail with a reason, or play as frames whose times never fall, taken apart or as
//! whole packets. Pushed, they give the same frames however they are cut.

use std::io::Cursor;
use std::path::Path;

use glassline_demux::{Demuxer, Format, Frame, Input, Options, PushedDemuxer};
use glassline_media::{Codec, MediaTime};

pub(crate) fn run(bytes: &[u8]) {
    open(bytes.to_vec());
    let mut packets = bytes.to_vec();
    for packet in packets.chunks_mut(188) {
        packet[0] = 0x47;
    }
    assert_eq!(pushed(&packets, packets.len()), pushed(&packets, 100));
    open(packets);
}

/// The frames of bytes that are pushed in pieces of `step` bytes, up to what ends the demuxer.
fn pushed(bytes: &[u8], step: usize) -> Vec<Frame> {
    let mut demuxer = PushedDemuxer::transport_stream(Path::new("fuzz"));
    let mut pieces = bytes.chunks(step.max(1));
    let pushed = pieces.try_for_each(|piece| demuxer.push(piece));
    let _ = pushed.and_then(|()| demuxer.finish());
    let frames: Vec<_> = std::iter::from_fn(|| demuxer.next_frame()).collect();
    let mut last = vec![MediaTime::from_nanos(i64::MIN); demuxer.tracks().len()];
    for frame in &frames {
        assert!(!frame.data.is_empty() && frame.decode_time >= last[frame.track.get()]);
        last[frame.track.get()] = frame.decode_time;
    }
    frames
}

fn open(bytes: Vec<u8>) {
    let input = Input {
        name: "fuzz.ts".into(),
        format: Format::MpegTs,
        data: Box::new(Cursor::new(bytes)),
    };
    match Demuxer::new(vec![input], &Options::default()) {
        Ok(demuxer) => play(demuxer),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn play(mut demuxer: Demuxer) {
    let is_whole = demuxer.tracks()[0].codec == Codec::MpegTs;
    for seek_ms in [None, Some(100), Some(0)] {
        if let Some(ms) = seek_ms {
            let to = MediaTime::from_nanos(ms * 1_000_000);
            demuxer.seek(to).expect("memory can be read");
        }
        let mut last = vec![None::<MediaTime>; demuxer.tracks().len()];
        for _ in 0..200 {
            let Some(frame) = demuxer.next_frame().expect("memory can be read") else {
                break;
            };
            assert!(!frame.data.is_empty());
            let mut packets = frame.data.chunks(188);
            let are_packets = packets.all(|packet| packet.len() == 188 && packet[0] == 0x47);
            assert!(!is_whole || are_packets && frame.data.len() <= 1128);
            let last = &mut last[frame.track.get()];
            assert!(last.is_none_or(|last| last <= frame.decode_time));
            *last = Some(frame.decode_time);
        }
    }
}
