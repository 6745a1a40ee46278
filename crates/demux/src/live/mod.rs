//! Splits a live stream of H.264 or H.265, such as a pipe, into access units as it arrives.
//!
//! [`open`](crate::open) reads a whole file first; this module knows only what has arrived. A
//! frame is known to be complete when the next one begins, so each frame is handed out one
//! frame late; the first bytes of the next frame suffice. Nothing is handed out before the
//! first keyframe with its parameter sets. Keyframes without parameter sets get those that came
//! before.
//!
//! Sources: ITU-T H.264 and H.265, annex B; `elementary/` distinguishes the units.

mod arriving;
mod assembly;
pub(crate) mod motion_jpeg;
pub(crate) mod pipe;
pub(crate) mod pushed;
pub mod reordering;
mod unit;
pub mod y4m;

use std::collections::VecDeque;

use glassline_media::Track;
use glassline_media::annexb::{START_CODE, find_start_code, trim_zeros};

use crate::FrameRate;
use crate::elementary::h264::H264;
use crate::elementary::h265::H265;

use assembly::Assembly;
pub use unit::{Error, Notes, Unit};
use unit::{HEAD_BYTES, LEADING_BYTES_MAX, UNIT_BYTES_MAX};

/// Splits a byte stream into access units.
#[derive(Default)]
pub struct Splitter {
    /// Bytes of an incomplete NAL unit, from its first byte on.
    bytes: Vec<u8>,
    /// Number of bytes in `bytes` that were searched and hold no start code.
    searched: usize,
    /// Whether `bytes` begins behind a start code.
    begun: bool,
    /// Whether the beginning of the incomplete NAL unit was parsed.
    announced: bool,
    leading: usize,
    /// Where `bytes` begins in the stream, and where the start code before it does.
    base: u64,
    code_at: u64,
    coding: Option<Coding>,
    units: VecDeque<Unit>,
}

/// Coding of the stream, and its parser.
enum Coding {
    H264(Assembly<H264>),
    H265(Assembly<H265>),
}

impl Splitter {
    /// Creates a splitter for the start of a stream, whose first NAL unit states the coding.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a splitter for a stream whose coding is known.
    pub(crate) fn of(h265: bool) -> Self {
        let coding = match h265 {
            true => Coding::H265(Assembly::default()),
            false => Coding::H264(Assembly::default()),
        };
        Self {
            coding: Some(coding),
            ..Self::default()
        }
    }

    /// Notes that bytes were lost here. The unit that was arriving is dropped, and so is what follows up
    /// to the next start code.
    pub(crate) fn lose(&mut self) {
        self.base += self.bytes.len() as u64;
        self.bytes.clear();
        self.searched = 0;
        (self.begun, self.announced) = (false, false);
        self.leading = 0;
        match &mut self.coding {
            None => {}
            Some(Coding::H264(assembly)) => assembly.lose(),
            Some(Coding::H265(assembly)) => assembly.lose(),
        }
    }

    /// Adds the next bytes of the stream.
    ///
    /// # Errors
    /// The bytes are neither H.264 nor H.265, or a unit is too long. The stream has then ended.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.bytes.extend_from_slice(bytes);
        while let Some(at) = find_start_code(&self.bytes[self.searched..]) {
            let code = self.searched + at;
            let behind = code + START_CODE.len();
            // A zero byte may belong to the start code (H.264 annex B.1.1).
            let has_zero = code > 0 && self.bytes[code - 1] == 0;
            let code_at = self.base + code as u64 - u64::from(has_zero);
            if self.begun {
                let rest = self.bytes.split_off(behind);
                self.bytes.truncate(code);
                self.take_nal()?;
                self.bytes = rest;
            } else {
                let solid = trim_zeros(&self.bytes[..code]).len();
                self.leading += solid;
                self.begun = true;
                self.bytes.drain(..behind);
            }
            self.base += behind as u64;
            self.code_at = code_at;
            self.searched = 0;
        }
        // A start code may cross the border, and so may the zero byte before it.
        self.searched = self.bytes.len().saturating_sub(START_CODE.len());
        if self.begun {
            self.announce(HEAD_BYTES);
        }
        if !self.begun {
            self.leading += self.searched;
            self.base += self.searched as u64;
            self.bytes.drain(..self.searched);
            self.searched = 0;
            if self.leading > LEADING_BYTES_MAX {
                return Err(Error::NoStartCode);
            }
        } else if self.bytes.len() > UNIT_BYTES_MAX {
            return Err(Error::Endless);
        }
        Ok(())
    }

    /// Handles the end of the stream: the remaining bytes are complete.
    ///
    /// # Errors
    /// The stream had no frame at which a decoder could start.
    pub fn finish(&mut self) -> Result<(), Error> {
        if self.begun && !trim_zeros(&self.bytes).is_empty() {
            self.take_nal()?;
        }
        self.base += self.bytes.len() as u64;
        self.bytes.clear();
        let end = self.base;
        let started = match &mut self.coding {
            None => return Err(Error::NoStartCode),
            Some(Coding::H264(assembly)) => assembly.close(end, &mut self.units),
            Some(Coding::H265(assembly)) => assembly.close(end, &mut self.units),
        };
        if started {
            Ok(())
        } else {
            Err(Error::NoKeyframe)
        }
    }

    /// Returns the next complete unit; poll until `None`.
    pub fn next_unit(&mut self) -> Option<Unit> {
        self.units.pop_front()
    }

    /// Returns the track, from the first unit on.
    pub fn track(&self) -> Option<&Track> {
        Some(&self.opening()?.0)
    }

    /// Returns the frames per second, if the bitstream states them.
    pub fn frame_rate(&self) -> Option<FrameRate> {
        self.opening()?.1
    }

    /// Returns what was dropped or damaged so far.
    pub fn notes(&self) -> Notes {
        match &self.coding {
            None => Notes::default(),
            Some(Coding::H264(assembly)) => assembly.notes,
            Some(Coding::H265(assembly)) => assembly.notes,
        }
    }

    /// Returns the parameter sets of the first unit, with start codes; empty before it.
    pub(crate) fn opening_sets(&self) -> &[u8] {
        match &self.coding {
            None => &[],
            Some(Coding::H264(assembly)) => &assembly.opening_sets,
            Some(Coding::H265(assembly)) => &assembly.opening_sets,
        }
    }

    fn opening(&self) -> Option<&(Track, Option<FrameRate>)> {
        match self.coding.as_ref()? {
            Coding::H264(assembly) => assembly.opening.as_ref(),
            Coding::H265(assembly) => assembly.opening.as_ref(),
        }
    }

    /// Handles the complete NAL unit in `bytes`, behind which zero bytes may follow.
    fn take_nal(&mut self) -> Result<(), Error> {
        self.announce(1);
        self.announced = false;
        let nal = trim_zeros(&self.bytes);
        match &mut self.coding {
            Some(Coding::H264(assembly)) if !nal.is_empty() => assembly.append(nal),
            Some(Coding::H265(assembly)) if !nal.is_empty() => assembly.append(nal),
            _ => Ok(()),
        }
    }

    /// Parses the beginning of the unit in `bytes`, if that was not done and it has at least
    /// `bytes_min` bytes. An incomplete unit may begin a new access unit, which ends the one
    /// before it.
    fn announce(&mut self, bytes_min: usize) {
        let nal = trim_zeros(&self.bytes);
        if self.announced || nal.len() < bytes_min {
            return;
        }
        let coding = self.coding.get_or_insert_with(|| {
            if is_h265(nal) {
                Coding::H265(Assembly::default())
            } else {
                Coding::H264(Assembly::default())
            }
        });
        let (is_whole, at) = (bytes_min < HEAD_BYTES, self.code_at);
        self.announced = match coding {
            Coding::H264(assembly) => assembly.announce(nal, is_whole, at, &mut self.units),
            Coding::H265(assembly) => assembly.announce(nal, is_whole, at, &mut self.units),
        };
    }
}

/// Returns whether `nal` is the first NAL unit of an H.265 stream: a delimiter, a parameter set
/// or SEI of the base layer. Its second byte is then 1, and no H.264 stream begins with its
/// first byte.
fn is_h265(nal: &[u8]) -> bool {
    const VPS: u8 = 32;
    const AUD: u8 = 35;
    const PREFIX_SEI: u8 = 39;
    let [first, 1, ..] = *nal else {
        return false;
    };
    let kind = first >> 1;
    first & 0x81 == 0 && (matches!(kind, VPS..=AUD) || kind == PREFIX_SEI)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Demuxer, Format, Input, Options};
    use glassline_media::Codec;
    use proptest::prelude::*;
    use std::io::Cursor;

    static CLIP: &[u8] = include_bytes!("../../../../assets/demo.h264");

    fn split(bytes: &[u8], step: usize) -> Result<(Splitter, Vec<Unit>), Error> {
        let mut splitter = Splitter::new();
        let mut units = Vec::new();
        for chunk in bytes.chunks(step) {
            splitter.push(chunk)?;
            units.extend(std::iter::from_fn(|| splitter.next_unit()));
        }
        splitter.finish()?;
        units.extend(std::iter::from_fn(|| splitter.next_unit()));
        Ok((splitter, units))
    }

    #[test]
    fn a_pipe_and_a_file_agree_on_the_frames() {
        let input = Input {
            name: "demo.h264".into(),
            format: Format::H264,
            data: Box::new(Cursor::new(CLIP)),
        };
        let options = Options {
            once: true,
            ..Options::default()
        };
        let mut demuxer = Demuxer::new(vec![input], &options).expect("the clip is whole");
        let (splitter, units) = split(CLIP, 4093).expect("the clip is whole");
        assert_eq!(splitter.track(), Some(&demuxer.tracks()[0]));
        assert_eq!(splitter.frame_rate(), demuxer.frame_rate());
        assert_eq!(splitter.notes(), Notes::default());
        for unit in &units {
            let frame = demuxer.next_frame().expect("readable").expect("as many");
            assert_eq!(unit.keyframe, frame.keyframe);
            let nals = |bytes: &[u8]| -> Vec<Vec<u8>> {
                crate::elementary::annexb::nals(bytes)
                    .map(<[u8]>::to_vec)
                    .collect()
            };
            assert_eq!(nals(&unit.data), nals(&frame.data));
        }
        assert_eq!(demuxer.next_frame().expect("readable"), None, "as many");
    }

    #[test]
    fn the_size_of_the_pieces_does_not_matter() {
        let part = &CLIP[..60_000];
        let (_, whole) = split(part, part.len()).expect("frames");
        for step in [1, 2, 3, 1000] {
            assert_eq!(split(part, step).expect("frames").1, whole, "{step}");
        }
    }

    #[test]
    fn units_name_the_bytes_that_they_are_made_of() {
        let (_, units) = split(CLIP, 777).expect("frames");
        assert_eq!(units[0].span.start, 0);
        for pair in units.windows(2) {
            assert_eq!(pair[0].span.end, pair[1].span.start);
        }
        assert_eq!(units.last().map(|it| it.span.end), Some(CLIP.len() as u64));
        let nals = |bytes: &[u8]| -> Vec<Vec<u8>> {
            let nals = crate::elementary::annexb::nals(bytes);
            nals.map(<[u8]>::to_vec).collect()
        };
        for unit in units.iter().filter(|unit| !unit.has_inserted_sets) {
            let span = unit.span.start as usize..unit.span.end as usize;
            assert_eq!(nals(&CLIP[span]), nals(&unit.data));
        }
    }

    #[test]
    fn a_frame_comes_out_when_the_next_begins() {
        let ends: Vec<usize> = {
            let mut splitter = Splitter::new();
            let fed = CLIP.iter().enumerate().filter_map(|(at, byte)| {
                splitter.push(&[*byte]).expect("no damage");
                splitter.next_unit().map(|_| at)
            });
            fed.take(2).collect()
        };
        let (_, units) = split(&CLIP[..60_000], 60_000).expect("frames");
        let first = units[0].data.len();
        assert!(
            ends[0] < first + 300,
            "{ends:?}, but the first has {first} bytes"
        );
    }

    #[test]
    fn a_late_reader_starts_at_a_keyframe() {
        let (_, units) = split(CLIP, CLIP.len()).expect("frames");
        let mut late = Vec::new();
        for unit in &units[3..] {
            late.extend_from_slice(&unit.data);
        }
        let (splitter, read) = split(&late, 999).expect("frames");
        assert!(read[0].keyframe);
        let skipped = splitter.notes().before_keyframe as usize;
        assert_eq!(skipped + read.len(), units.len() - 3);
    }

    #[test]
    fn h265_is_told_by_its_first_unit() {
        let with = |first: &[u8]| is_h265(first);
        assert!(with(&[0x40, 1, 0x0c]) && with(&[0x46, 1, 0x50]) && with(&[0x4e, 1]));
        assert!(!with(&[0x67, 0x42]) && !with(&[0x09, 0xf0]) && !with(&[0x06, 1]));
        let mut splitter = Splitter::new();
        splitter
            .push(b"\0\0\0\x01\x40\x01\x0c\0\0\x01\x42")
            .expect("a set");
        assert!(matches!(splitter.coding, Some(Coding::H265(_))));
        assert_eq!(splitter.track().map(|track| track.codec), None::<Codec>);
    }

    #[test]
    fn noise_ends_in_an_error() {
        let noise = vec![0x55; 2 << 20];
        assert_eq!(split(&noise, 4096).map(drop), Err(Error::NoStartCode));
        assert_eq!(split(b"", 1).map(drop), Err(Error::NoStartCode));
        let video_frame = b"\0\0\x01\x65\x88\x84";
        assert_eq!(split(video_frame, 9).map(drop), Err(Error::NoKeyframe));
        let mut endless = b"\0\0\x01\x65".to_vec();
        endless.resize(17 << 20, 0x55);
        assert_eq!(split(&endless, 1 << 16).map(drop), Err(Error::Endless));
    }

    proptest! {
        #[test]
        fn damage_never_panics_and_keyframes_have_their_sets(
            at in prop::collection::vec((0usize..40_000, any::<u8>()), 0..30),
            step in 1usize..5000,
        ) {
            let mut bytes = CLIP[..40_000].to_vec();
            for (at, value) in at {
                bytes[at] = value;
            }
            if let Ok((_, units)) = split(&bytes, step) {
                for unit in units.iter().filter(|unit| unit.keyframe) {
                    let kinds = crate::elementary::annexb::nals(&unit.data).map(|nal| nal[0] & 0x1f);
                    let kinds: Vec<u8> = kinds.collect();
                    prop_assert!(kinds.contains(&7) && kinds.contains(&8), "{kinds:?}");
                }
            }
        }
    }
}
