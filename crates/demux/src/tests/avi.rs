//! What AVI files do not say, and audio that their chunks cut.

use super::containers::sample;
use super::*;

fn avi(bytes: &[u8]) -> Demuxer {
    opened(Format::Avi, bytes, &ONCE).expect("a good file")
}

fn of_track(frames: &[Frame], track: usize) -> Vec<Frame> {
    let frames = frames.iter().filter(|it| it.track == TrackIndex(track));
    frames.cloned().collect()
}

#[test]
fn frames_of_h264_get_the_times_of_their_output_order() {
    let demuxer = avi(&sample("h264-pcm.avi"));
    assert!(demuxer.tracks()[0].video.reordered);
    assert!(!demuxer.tracks()[0].video.sps.is_empty());
    let frames = all(demuxer);
    let video = of_track(&frames, 0);
    assert_eq!(video.len(), 25);
    let shown: Vec<_> = video.iter().map(|it| it.time.nanos() / 1_000_000).collect();
    // I P B B: the second to be decoded is the fourth to be shown.
    assert_eq!(shown[..4], [0, 120, 40, 80]);
    let mut sorted = shown;
    sorted.sort_unstable();
    assert!(
        sorted
            .iter()
            .enumerate()
            .all(|(place, &ms)| ms == place as i64 * 40)
    );
    let keys = video.iter().enumerate().filter(|(_, it)| it.keyframe);
    assert_eq!(keys.map(|(place, _)| place).collect::<Vec<_>>(), [0, 20]);
    for key in video.iter().filter(|it| it.keyframe) {
        let types: Vec<_> = nals(&key.data).map(nal_type).collect();
        assert!(types.contains(&7) && types.contains(&5), "{types:?}");
    }
    let samples: usize = of_track(&frames, 1).iter().map(|it| it.data.len()).sum();
    assert!((14_000..=16_000).contains(&samples), "{samples}");
}

/// FFmpeg copies H.264 from MP4 so: lengths in place of start codes, and parameter sets in the header.
#[test]
fn h264_with_lengths_and_a_record_plays_in_output_order() {
    let demuxer = avi(&sample("h264-lengths.avi"));
    let track = &demuxer.tracks()[0];
    assert_eq!((track.codec, demuxer.warnings()), (Codec::H264, &[][..]));
    assert!(track.video.reordered && !track.video.sps.is_empty());
    let frames = all(demuxer);
    assert_eq!(frames.len(), 20, "as many as ffprobe counts");
    assert!(
        types(&frames[0]).starts_with(&[7, 8]),
        "{:?}",
        types(&frames[0])
    );
    let mut shown: Vec<_> = frames
        .iter()
        .map(|it| it.time.nanos() / 1_000_000)
        .collect();
    assert_ne!(shown[1], 40, "the second to be decoded is shown later");
    shown.sort_unstable();
    assert!(
        shown.windows(2).all(|pair| pair[1] - pair[0] == 40),
        "{shown:?}"
    );
}

#[test]
fn a_chunk_without_bytes_makes_the_frame_before_last_longer() {
    let frames = all(avi(&sample("mpeg4-mp3.avi")));
    let video = of_track(&frames, 0);
    assert_eq!(video.len(), 25);
    let last = video.last().expect("frames").time.nanos();
    assert_eq!(last, 1_000_000_000, "one of 26 ticks has no frame");
    assert!(video.iter().all(|it| !it.data.is_empty()));
}

/// A chunk or list of RIFF.
fn riff(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_le_bytes();
    let padding = vec![0; body.len() & 1];
    [name, &length[..], body, &padding].concat()
}

/// An AVI file of audio alone, as MP3 of 44.1 kHz, in chunks of `chunk_bytes`.
fn of_mp3(mp3: &[u8], chunk_bytes: usize) -> Vec<u8> {
    let mut header = vec![0; 56];
    header[..4].copy_from_slice(b"auds");
    header[20] = 1;
    header[24..28].copy_from_slice(&4_000u32.to_le_bytes());
    let format = [
        0x55, 0, 1, 0, 0x44, 0xac, 0, 0, 0xa0, 0x0f, 0, 0, 1, 0, 0, 0, 0, 0,
    ];
    let stream = [riff(b"strh", &header), riff(b"strf", &format)].concat();
    let stream = riff(b"LIST", &[b"strl", &stream[..]].concat());
    let headers = riff(b"LIST", &[b"hdrl", &stream[..]].concat());
    let chunks: Vec<u8> = mp3
        .chunks(chunk_bytes)
        .flat_map(|it| riff(b"00wb", it))
        .collect();
    let movie = riff(b"LIST", &[b"movi", &chunks[..]].concat());
    riff(b"RIFF", &[b"AVI ", &headers[..], &movie].concat())
}

#[test]
fn audio_frames_that_chunks_cut_are_whole() {
    let mp3 = sample("sine.mp3");
    let bare = opened(Format::MpegAudio, &mp3, &ONCE).expect("a good file");
    let bare: Vec<Bytes> = all(bare).into_iter().map(|it| it.data).collect();
    // The directory at the start of a bare file is no audio.
    let start = mp3.windows(bare[0].len()).position(|it| it == bare[0]);
    let audio = &mp3[start.expect("its first frame")..];
    for chunk_bytes in [1, 7, 100, 1_001, 1 << 20] {
        let frames = all(avi(&of_mp3(audio, chunk_bytes)));
        let found: Vec<Bytes> = frames.into_iter().map(|it| it.data).collect();
        assert_eq!(found, bare, "chunks of {chunk_bytes} bytes");
    }
}
