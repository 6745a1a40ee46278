//! Transport streams: any bytes, as they are and as packets put in step, either
//! fail with a reason, or play as frames whose times never fall, taken apart or as
//! whole packets.

use std::io::Cursor;

use glassline_demux::{Demuxer, Format, Input, Options};
use glassline_media::{Codec, MediaTime};

pub(crate) fn run(bytes: &[u8]) {
    open(bytes.to_vec());
    let mut packets = bytes.to_vec();
    for packet in packets.chunks_mut(188) {
        packet[0] = 0x47;
    }
    open(packets);
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
