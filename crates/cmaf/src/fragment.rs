//! Fragments: a `moof` box that describes samples, and an `mdat` box that holds them (ISO/IEC 14496-12
//! §8.8).

use std::time::Duration;

use bytes::{BufMut as _, Bytes};
use glassline_media::{MediaTime, NtpTime};

use crate::boxes::{HEAD_BYTES, put_box, put_full_box};
use crate::header::Header;
use crate::movie::put_segment_type;

/// A piece of a run: samples of each track that has any in its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Number of the fragment, from one.
    pub sequence: u32,
    /// Whether a segment begins here: a file of a recording, or a segment of a playlist.
    pub begins_segment: bool,
    /// Whether a decoder of video can start with this fragment. Always true for audio alone.
    pub starts_with_sync: bool,
    /// Decode time of the first sample of the ruling track since the origin of the run. The ruling
    /// track is the first one of video; without video it is the first one.
    pub decode_time: MediaTime,
    /// Sum of the durations of the samples of the ruling track.
    pub duration: Duration,
    /// Time from 1970-01-01 UTC at which the stream's own clock had the first sample due.
    pub wall_clock: Duration,
    /// Samples of each track that has any.
    pub tracks: Vec<FragmentTrack>,
    /// All boxes up to the body of `mdat`.
    pub(crate) head: Bytes,
    /// Bytes of the samples of each track, back to back.
    pub(crate) media: Vec<Bytes>,
}

/// The samples of one track in a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FragmentTrack {
    /// Position of the track in the header.
    pub position: usize,
    /// Decode time of the first sample in ticks of the track, since the origin of the run.
    pub decode_ticks: u64,
    /// The samples, in decoding order.
    pub samples: Vec<Sample>,
}

/// One sample: a video frame, or a packet of audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Length of the sample in bytes.
    pub size: u32,
    /// Ticks of the track from decoding this sample to decoding the next one.
    pub duration: u32,
    /// Ticks of the track from decoding to presentation.
    pub composition: i32,
    /// Whether a decoder can start here.
    pub sync: bool,
}

impl Fragment {
    /// Returns the number of bytes of the whole fragment.
    pub fn byte_count(&self) -> usize {
        self.pieces().map(Bytes::len).sum()
    }

    /// Returns the bytes of the fragment, in as few pieces as possible without a copy.
    pub fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        std::iter::once(&self.head).chain(&self.media)
    }

    /// Copies the fragment into one buffer.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut whole = Vec::with_capacity(self.byte_count());
        for piece in self.pieces() {
            whole.extend_from_slice(piece);
        }
        whole
    }

    /// Returns the number of samples of the track at `position` of the header.
    pub fn sample_count(&self, position: usize) -> usize {
        let mut tracks = self.tracks.iter();
        let track = tracks.find(|track| track.position == position);
        track.map_or(0, |track| track.samples.len())
    }
}

impl Fragment {
    /// Returns the number of bytes before those of the first sample.
    pub(crate) fn head_bytes(&self) -> u64 {
        self.head.len() as u64
    }
}

impl FragmentTrack {
    /// Returns the number of bytes of all samples.
    pub(crate) fn media_bytes(&self) -> u64 {
        let sizes = self.samples.iter().map(|sample| u64::from(sample.size));
        sizes.sum()
    }

    /// Returns the sum of the durations of the samples in ticks.
    pub fn duration_ticks(&self) -> u64 {
        let durations = self.samples.iter().map(|sample| u64::from(sample.duration));
        durations.sum()
    }

    /// Returns the earliest tick at which a sample is presented.
    pub fn first_presentation(&self) -> u64 {
        let mut decode = self.decode_ticks;
        let times = self.samples.iter().map(|sample| {
            let presented = decode.saturating_add_signed(sample.composition.into());
            decode += u64::from(sample.duration);
            presented
        });
        times.min().unwrap_or(self.decode_ticks)
    }
}

/// The boxes of a fragment in front of its `moof` box.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Preamble {
    /// Whether the `styp` box begins the fragment.
    pub(crate) segment_type: bool,
    /// Position of the track whose first sample the wall clock is for, if the `prft` box states it.
    pub(crate) reference: Option<usize>,
}

/// Writes the boxes of `fragment` up to the body of `mdat`.
pub(crate) fn head(fragment: &Fragment, header: &Header, preamble: Preamble) -> Bytes {
    let samples: usize = fragment.tracks.iter().map(|it| it.samples.len()).sum();
    let mut out = Vec::with_capacity(256 + 16 * samples);
    if preamble.segment_type {
        put_segment_type(&mut out, header.tracks().len());
    }
    let reference = preamble.reference.and_then(|position| {
        let mut tracks = fragment.tracks.iter();
        tracks.find(|track| track.position == position)
    });
    if let Some(track) = reference {
        put_reference_time(&mut out, track, fragment.wall_clock);
    }
    let start = out.len();
    let mut offsets = Vec::with_capacity(fragment.tracks.len());
    put_box(&mut out, b"moof", |out| {
        put_full_box(out, b"mfhd", 0, 0, |out| out.put_u32(fragment.sequence));
        for track in &fragment.tracks {
            put_box(out, b"traf", |out| offsets.push(put_track(out, track)));
        }
    });
    let media: usize = fragment.media.iter().map(Bytes::len).sum();
    let mut offset = out.len() - start + HEAD_BYTES;
    for (media, place) in fragment.media.iter().zip(offsets) {
        let value = i32::try_from(offset).expect("a fragment stays far below 2 GiB");
        out[place..place + 4].copy_from_slice(&value.to_be_bytes());
        offset += media.len();
    }
    out.put_u32(u32::try_from(media + HEAD_BYTES).expect("a fragment stays far below 4 GiB"));
    out.put_slice(b"mdat");
    out.into()
}

/// Appends the `prft` box: the wall-clock time at which the first sample of `track` was captured.
fn put_reference_time(out: &mut Vec<u8>, track: &FragmentTrack, wall_clock: Duration) {
    const CAPTURED: u32 = 24;
    put_full_box(out, b"prft", 1, CAPTURED, |out| {
        out.put_u32(number(track));
        out.put_u64(NtpTime::from_unix(wall_clock).0);
        out.put_u64(track.decode_ticks);
    });
}

/// Appends the boxes of a track. Returns the place of the offset of its media.
fn put_track(out: &mut Vec<u8>, track: &FragmentTrack) -> usize {
    const BASE_IS_FRAGMENT: u32 = 0x2_0000;
    const DURATION: u32 = 0x8;
    const FLAGS: u32 = 0x20;
    let samples = &track.samples;
    let shared = samples.first().map_or(0, |first| first.duration);
    let is_steady = samples.iter().all(|it| it.duration == shared);
    let rest = samples.get(1..).unwrap_or_default();
    let others = rest.first().or(samples.first()).is_some_and(|it| it.sync);
    let is_uniform = rest.iter().all(|it| it.sync == others);
    let first = samples.first().filter(|it| it.sync != others);
    let is_reordered = samples.iter().any(|it| it.composition != 0);
    let has_negative = samples.iter().any(|it| it.composition < 0);

    let duration_flag = if is_steady { DURATION } else { 0 };
    put_full_box(
        out,
        b"tfhd",
        0,
        BASE_IS_FRAGMENT | FLAGS | duration_flag,
        |out| {
            out.put_u32(number(track));
            if is_steady {
                out.put_u32(shared);
            }
            out.put_u32(flags(others));
        },
    );
    put_full_box(out, b"tfdt", 1, 0, |out| out.put_u64(track.decode_ticks));
    let first = first.filter(|_| is_uniform);
    let run_flags = [
        (true, 0x1),
        (first.is_some(), 0x4),
        (!is_steady, 0x100),
        (true, 0x200),
        (!is_uniform, 0x400),
        (is_reordered, 0x800),
    ];
    let run_flags = run_flags.iter().filter(|(has, _)| *has);
    let run_flags = run_flags.fold(0, |sum, (_, flag)| sum | flag);
    let mut place = 0;
    put_full_box(out, b"trun", u8::from(has_negative), run_flags, |out| {
        out.put_u32(samples.len() as u32);
        place = out.len();
        out.put_i32(0);
        if let Some(first) = first {
            out.put_u32(flags(first.sync));
        }
        for sample in samples {
            if !is_steady {
                out.put_u32(sample.duration);
            }
            out.put_u32(sample.size);
            if !is_uniform {
                out.put_u32(flags(sample.sync));
            }
            if is_reordered {
                out.put_i32(sample.composition);
            }
        }
    });
    place
}

/// Returns the number of a track in boxes.
fn number(track: &FragmentTrack) -> u32 {
    track.position as u32 + 1
}

/// Flag of a sample that a decoder cannot start with.
pub(crate) const NON_SYNC: u32 = 0x1_0000;

/// Returns the flags of a sample (ISO/IEC 14496-12 §8.8.3.1): it depends on no other one, or on others
/// and is no sync sample.
fn flags(sync: bool) -> u32 {
    const INDEPENDENT: u32 = 0x200_0000;
    const DEPENDENT: u32 = 0x100_0000;
    if sync {
        INDEPENDENT
    } else {
        DEPENDENT | NON_SYNC
    }
}
