//! Files of real encoders through the fragmenter, and back through our own demuxer.

mod cuts;
mod damage;
mod finished;
mod frames;
mod round_trip;
mod span;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_demux::{Format, Frame, Input, Options};
use glassline_media::annexb::nals;
use glassline_media::{
    Codec, DecodeLead, MediaTime, MediaUnit, Stamps, Track, TrackIndex, UnitBuilder, WallClock,
};

use crate::{CutRule, FileWriter, Fragment, Fragmenter, Header, Output};

/// Calendar time of media time zero in tests.
const ZERO_UNIX: Duration = Duration::from_secs(1_800_000_000);

/// A stream of the hub, as a test has it.
pub(crate) struct Stream {
    pub(crate) tracks: Vec<Track>,
    pub(crate) units: Vec<Arc<MediaUnit>>,
    pub(crate) clock: WallClock,
    zero: Instant,
}

impl Stream {
    pub(crate) fn new(tracks: Vec<Track>) -> Self {
        let zero = Instant::now() + Duration::from_secs(1000);
        Self {
            tracks,
            units: Vec::new(),
            clock: WallClock::new(zero, ZERO_UNIX),
            zero,
        }
    }

    /// Reads a file of the demuxer's samples.
    pub(crate) fn of_sample(name: &str) -> Self {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../demux/samples");
        let once = Options {
            once: true,
            ..Options::default()
        };
        let mut demuxer = glassline_demux::open(&[folder.join(name)], &once).expect("a sample");
        let mut stream = Self::new(demuxer.tracks().to_vec());
        while let Some(frame) = demuxer.next_frame().expect("a good sample") {
            stream.push(&frame);
        }
        stream
    }

    pub(crate) fn push(&mut self, frame: &Frame) {
        let mut builder = UnitBuilder::default();
        // Packets of a thousand bytes with a prefix, as packetizers make them.
        for part in frame.data.chunks(1000) {
            builder.wire_only(&[0xee]);
            builder.coded(part);
            builder.end_packet();
        }
        let due = self.zero + frame.time.saturating_since(MediaTime::ZERO);
        let stamps = Stamps::arrived(due);
        let unit = builder.build(frame.track, frame.time, frame.keyframe, stamps);
        let mut unit = unit.expect("a frame with bytes");
        unit.decode_lead = DecodeLead::between(frame.decode_time, frame.time);
        self.units.push(Arc::new(unit));
    }

    pub(crate) fn fragmenter(&self, rule: CutRule) -> Fragmenter {
        let tracks = TrackIndex::enumerate(self.tracks.clone());
        Fragmenter::new(tracks, rule, None).expect("carried codecs")
    }

    /// Cuts the whole stream.
    pub(crate) fn cut(&self, rule: CutRule) -> Vec<Output> {
        let mut fragmenter = self.fragmenter(rule);
        let mut outputs = Vec::new();
        for unit in &self.units {
            fragmenter.push(unit, &self.clock).expect("a good stream");
            outputs.extend(std::iter::from_fn(|| fragmenter.poll()));
        }
        fragmenter.flush();
        outputs.extend(std::iter::from_fn(|| fragmenter.poll()));
        outputs
    }
}

/// A header with the fragments behind it.
pub(crate) struct Run {
    pub(crate) header: Header,
    pub(crate) fragments: Vec<Fragment>,
}

impl Run {
    /// Returns the only run in `outputs`.
    pub(crate) fn of(outputs: Vec<Output>) -> Self {
        let mut outputs = outputs.into_iter();
        let Some(Output::Header(new)) = outputs.next() else {
            panic!("a run begins with its header");
        };
        let fragments = outputs.map(|output| match output {
            Output::Fragment(fragment) => fragment,
            other => panic!("{other:?}"),
        });
        Self {
            header: new.header,
            fragments: fragments.collect(),
        }
    }

    /// Writes a file without its end, and returns the writer, too.
    pub(crate) fn file(&self) -> (Vec<u8>, FileWriter) {
        let mut writer = FileWriter::new(&self.header, &self.fragments[0]);
        let mut file = writer.head().to_vec();
        for fragment in &self.fragments {
            assert_eq!(writer.add(fragment), file.len() as u64);
            file.extend(fragment.to_vec());
        }
        assert_eq!(writer.byte_count(), file.len() as u64);
        (file, writer)
    }

    /// Writes a finished file.
    pub(crate) fn finished_file(&self) -> Vec<u8> {
        let (mut file, writer) = self.file();
        finish(&mut file, writer);
        file
    }
}

pub(crate) fn finish(file: &mut Vec<u8>, writer: FileWriter) {
    let end = writer.finish();
    file.extend_from_slice(&end.tail);
    let at = end.patch.offset as usize;
    file[at..at + end.patch.bytes.len()].copy_from_slice(&end.patch.bytes);
}

/// Reads a file by the demuxer: its tracks, and the frames of each.
pub(crate) fn demuxed(file: Vec<u8>) -> Result<(Vec<Track>, Vec<Vec<Frame>>), String> {
    let input = Input {
        name: "recording.mp4".into(),
        format: Format::Mp4,
        data: Box::new(std::io::Cursor::new(file)),
    };
    let once = Options {
        once: true,
        ..Options::default()
    };
    let opened = glassline_demux::Demuxer::new(vec![input], &once);
    let mut demuxer = opened.map_err(|error| error.to_string())?;
    let tracks = demuxer.tracks().to_vec();
    let mut frames = vec![Vec::new(); tracks.len()];
    while let Some(frame) = demuxer.next_frame().map_err(|error| error.to_string())? {
        frames[frame.track.get()].push(frame);
    }
    Ok((tracks, frames))
}

/// The bytes of a frame that must survive.
pub(crate) fn essence(codec: Codec, data: &[u8]) -> Vec<Vec<u8>> {
    let left_out: &[u8] = match codec {
        Codec::H264 => &[7, 8, 9],
        Codec::H265 => &[32, 33, 34, 35],
        Codec::Av1 => {
            let data = data.strip_prefix(&[0x12, 0]).unwrap_or(data);
            return vec![data.to_vec()];
        }
        _ => return vec![data.to_vec()],
    };
    let kind = |nal: &[u8]| match codec {
        Codec::H264 => nal[0] & 0x1f,
        _ => nal[0] >> 1 & 0x3f,
    };
    let kept = nals(data).filter(|nal| !left_out.contains(&kind(nal)));
    kept.map(<[u8]>::to_vec).collect()
}

/// A rule of a recording for short samples.
pub(crate) fn recording() -> CutRule {
    CutRule::recording(Duration::from_millis(400), Duration::MAX)
}

/// A frame of VP8 as far as a header describes it, or a packet of Opus of 20 ms.
pub(crate) struct Synthetic {
    pub(crate) track: usize,
    pub(crate) decode_ms: f64,
    pub(crate) lead_ms: f64,
    /// Width in pixels of a keyframe of video; `None` for another frame.
    pub(crate) keyframe: Option<u8>,
    pub(crate) bytes: usize,
}

impl Synthetic {
    pub(crate) fn video(decode_ms: f64, keyframe: Option<u8>) -> Self {
        Self {
            track: 0,
            decode_ms,
            lead_ms: 0.0,
            keyframe,
            bytes: 100,
        }
    }

    pub(crate) fn audio(track: usize, decode_ms: f64) -> Self {
        Self {
            track,
            decode_ms,
            lead_ms: 0.0,
            keyframe: Some(0),
            bytes: 10,
        }
    }

    fn frame(&self, codec: Codec) -> Frame {
        let nanos = |ms: f64| MediaTime::from_nanos((ms * 1e6).round() as i64);
        let start: &[u8] = match (codec, self.keyframe) {
            (Codec::Vp8, Some(width)) => &[0x10, 0, 0, 0x9d, 1, 0x2a, width, 0, 32, 0],
            (Codec::Vp8, None) => &[0x11, 0, 0],
            _ => &[0x98],
        };
        let mut data = start.to_vec();
        data.resize(self.bytes.max(start.len()), 7);
        Frame {
            track: TrackIndex::first(self.track + 1).last().expect("a track"),
            time: nanos(self.decode_ms + self.lead_ms),
            decode_time: nanos(self.decode_ms),
            duration: Duration::ZERO,
            keyframe: self.keyframe.is_some(),
            after_loss: false,
            data: data.into(),
        }
    }
}

impl Stream {
    /// A stream of VP8, and of Opus with `audio`.
    pub(crate) fn synthetic(video: bool, audio: bool, frames: &[Synthetic]) -> Self {
        let video = video.then(|| Track::new(Codec::Vp8));
        let audio = audio.then(|| Track::audio(Codec::Opus, 2));
        let mut stream = Self::new(video.into_iter().chain(audio).collect());
        for frame in frames {
            let codec = stream.tracks[frame.track].codec;
            stream.push(&frame.frame(codec));
        }
        stream
    }
}
