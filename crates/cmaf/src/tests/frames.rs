//! Frames that are read again from a file.

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::rc::Rc;

use glassline_demux::Frame;
use glassline_media::Codec;

use super::{Run, Stream, demuxed, essence, recording};
use crate::{FrameReader, ReadAt, RecordedFile};

const SAMPLES: [&str; 8] = [
    "h264-aac.mp4",
    "b-frames.h264",
    "h265-opus.mp4",
    "vp8.ivf",
    "vp9-opus.webm",
    "av1.mp4",
    "sine.aac",
    "stereo.flac",
];

fn opened<S: ReadAt>(file: S) -> FrameReader<S> {
    let file = RecordedFile::open(file).expect("our own file");
    FrameReader::new(file, Path::new("recording.mp4")).expect("tracks")
}

fn frames(reader: &mut FrameReader<impl ReadAt>) -> Vec<Frame> {
    let read = || reader.next_frame().expect("a good file");
    std::iter::from_fn(read).collect()
}

#[test]
fn frames_are_those_that_the_demuxer_reads() {
    for name in SAMPLES {
        let run = Run::of(Stream::of_sample(name).cut(recording()));
        let file = run.finished_file();
        let mut reader = opened(file.clone());
        let read = frames(&mut reader);
        let (tracks, expected) = demuxed(file).unwrap_or_else(|error| panic!("{name}: {error}"));
        for (place, track) in tracks.iter().enumerate() {
            let mut found = reader.tracks().zip(0..);
            let (found, index) = found
                .find(|(it, _)| it.codec == track.codec)
                .unwrap_or_else(|| panic!("{name}: no {}", track.codec));
            assert_eq!(found.format_parameters, track.format_parameters, "{name}");
            let of_track = |it: &&Frame| it.track.get() == index;
            let read: Vec<&Frame> = read.iter().filter(of_track).collect();
            let bytes = |frames: &mut dyn Iterator<Item = &Frame>| -> Vec<u8> {
                frames.flat_map(|it| it.data.to_vec()).collect()
            };
            if track.codec == Codec::L16 {
                let same = bytes(&mut read.iter().copied()) == bytes(&mut expected[place].iter());
                assert!(same, "{name}");
                continue;
            }
            assert_eq!(read.len(), expected[place].len(), "{name}: {}", track.codec);
            let shift = read[0].time.nanos() - expected[place][0].time.nanos();
            for (frame, same) in read.iter().zip(&expected[place]) {
                assert_eq!(frame.keyframe, same.keyframe, "{name} at {:?}", same.time);
                let at = frame.time.nanos() - shift;
                assert!((at - same.time.nanos()).abs() < 2_000, "{name}: {at} ns");
                assert!(
                    essence(track.codec, &frame.data) == essence(track.codec, &same.data),
                    "{name}: {} at {:?}",
                    track.codec,
                    same.time
                );
            }
        }
    }
}

/// A file that is written while it is read.
#[derive(Clone, Default)]
struct Growing(Rc<RefCell<Vec<u8>>>);

impl ReadAt for Growing {
    fn byte_count(&self) -> io::Result<u64> {
        self.0.borrow().byte_count()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.borrow().read_at(offset, buffer)
    }
}

#[test]
fn reading_begins_at_any_fragment_and_goes_on_when_the_file_has_grown() {
    let run = Run::of(Stream::of_sample("h264-aac.mp4").cut(recording()));
    let (whole, _) = run.file();
    let mut reader = opened(whole.clone());
    let all = frames(&mut reader);
    let count = reader.file().fragments().len();
    assert!(count > 2, "{count} fragments");
    reader.seek(count - 1);
    assert_eq!(reader.fragment(), count - 1);
    let last = frames(&mut reader);
    assert!(all.ends_with(&last) && !last.is_empty());

    let cut = reader.file().fragments()[1].offset as usize;
    let growing = Growing::default();
    growing.0.borrow_mut().extend_from_slice(&whole[..cut]);
    let mut grown = opened(growing.clone());
    let mut read = frames(&mut grown);
    assert!(all.starts_with(&read) && read.len() < all.len());
    assert_eq!(grown.refresh().expect("readable"), 0, "nothing came");
    growing.0.borrow_mut().extend_from_slice(&whole[cut..]);
    assert_eq!(grown.refresh().expect("readable"), count - 1);
    read.extend(frames(&mut grown));
    assert!(read == all, "{} of {} frames", read.len(), all.len());
}
