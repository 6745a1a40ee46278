//! The `ftyp` and `moov` boxes (ISO/IEC 14496-12 §4.3, §8.2 to §8.8).

use std::time::Duration;

use bytes::{BufMut as _, Bytes};
use glassline_media::Kind;

use crate::boxes::{BoxKind, put_box, put_full_box};
use crate::track::CmafTrack;

/// Ticks of a second in which the durations of a movie and of its edits are counted.
pub(crate) const MOVIE_TIMESCALE: u32 = 90_000;

/// Seconds from 1904-01-01, from which MP4 counts, to 1970-01-01.
const UNIX_OFFSET_S: u64 = 2_082_844_800;

/// The content of a `trak` box beside the description of its track.
#[derive(Debug, Default)]
pub(crate) struct MovieTrack {
    /// Sample entries, each a box; samples name them by their number.
    pub(crate) entries: Vec<Bytes>,
    /// Duration of the samples in ticks of the track; zero in a header of fragments.
    pub(crate) duration: u64,
    /// Edits of the track, in order.
    pub(crate) edits: Vec<Edit>,
    /// The boxes of the sample table behind `stsd`; `None` in a header of fragments.
    pub(crate) tables: Option<Vec<u8>>,
}

/// One part of a track's presentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    /// Duration in ticks of the movie; zero for the rest of a movie in fragments.
    pub(crate) duration: u64,
    /// Time in ticks of the track that is presented first; `None` for a pause.
    pub(crate) media_time: Option<u64>,
}

/// Appends the `ftyp` box. A single track is a CMAF track, which states so.
pub(crate) fn put_file_type(out: &mut Vec<u8>, tracks: usize) {
    put_box(out, b"ftyp", |out| put_brands(out, tracks));
}

/// Appends the `styp` box, which a segment begins with.
pub(crate) fn put_segment_type(out: &mut Vec<u8>, tracks: usize) {
    put_box(out, b"styp", |out| put_brands(out, tracks));
}

fn put_brands(out: &mut Vec<u8>, tracks: usize) {
    out.put_slice(b"iso6\0\0\0\0iso6isommp42");
    if tracks == 1 {
        out.put_slice(b"cmfc");
    }
}

/// Appends the `moov` box; `tracks` are numbered from one. `created` is the time since 1970-01-01 UTC at
/// which the presentation begins, or zero if it is not known.
pub(crate) fn put_movie(out: &mut Vec<u8>, tracks: &[(&CmafTrack, MovieTrack)], created: Duration) {
    let created = match created.as_secs() {
        0 => 0,
        // Seconds of version 0 end in 2040; a time that does not fit is not stated.
        unix => u32::try_from(unix.saturating_add(UNIX_OFFSET_S)).unwrap_or(0),
    };
    let durations = tracks.iter().map(|(_, track)| track.presented());
    let duration = durations.max().unwrap_or(0);
    let is_fragmented = tracks.iter().all(|(_, track)| track.tables.is_none());
    put_box(out, b"moov", |out| {
        let version = version_of(duration);
        put_full_box(out, b"mvhd", version, 0, |out| {
            put_created(out, version, created);
            out.put_u32(MOVIE_TIMESCALE);
            put_wide(out, version, duration);
            // Rate and volume are as recorded.
            out.put_u32(0x1_0000);
            out.put_u16(0x100);
            out.put_bytes(0, 10);
            put_matrix(out);
            out.put_bytes(0, 24);
            out.put_u32(tracks.len() as u32 + 1);
        });
        for (number, (description, track)) in (1..).zip(tracks) {
            put_track(out, number, description, track, created);
        }
        if is_fragmented {
            put_box(out, b"mvex", |out| {
                for number in (1..).take(tracks.len()) {
                    put_full_box(out, b"trex", 0, 0, |out| {
                        out.put_u32(number);
                        out.put_u32(1);
                        out.put_bytes(0, 12);
                    });
                }
            });
        }
    });
}

impl MovieTrack {
    /// Returns how long the track is presented, in ticks of the movie.
    pub(crate) fn presented(&self) -> u64 {
        self.edits.iter().map(|edit| edit.duration).sum()
    }
}

fn put_track(
    out: &mut Vec<u8>,
    number: u32,
    description: &CmafTrack,
    track: &MovieTrack,
    created: u32,
) {
    let is_audio = description.kind == Kind::Audio;
    put_box(out, b"trak", |out| {
        let duration = track.presented();
        let version = version_of(duration);
        // Enabled, and part of the presentation.
        put_full_box(out, b"tkhd", version, 3, |out| {
            put_created(out, version, created);
            out.put_u32(number);
            out.put_u32(0);
            put_wide(out, version, duration);
            out.put_bytes(0, 12);
            out.put_u16(if is_audio { 0x100 } else { 0 });
            out.put_u16(0);
            put_matrix(out);
            out.put_u32(u32::from(description.size.0) << 16);
            out.put_u32(u32::from(description.size.1) << 16);
        });
        if !track.edits.is_empty() {
            put_box(out, b"edts", |out| put_edits(out, &track.edits));
        }
        put_box(out, b"mdia", |out| {
            let version = version_of(track.duration);
            put_full_box(out, b"mdhd", version, 0, |out| {
                put_created(out, version, created);
                out.put_u32(description.timescale);
                put_wide(out, version, track.duration);
                // The language is undetermined.
                out.put_u16(0x55c4);
                out.put_u16(0);
            });
            put_handler(out, is_audio);
            put_box(out, b"minf", |out| {
                match is_audio {
                    true => put_full_box(out, b"smhd", 0, 0, |out| out.put_u32(0)),
                    false => put_full_box(out, b"vmhd", 0, 1, |out| out.put_u64(0)),
                }
                put_box(out, b"dinf", |out| {
                    put_full_box(out, b"dref", 0, 0, |out| {
                        out.put_u32(1);
                        // The media are in this file.
                        put_full_box(out, b"url ", 0, 1, |_| {});
                    });
                });
                put_box(out, b"stbl", |out| put_table(out, track));
            });
        });
    });
}

fn put_handler(out: &mut Vec<u8>, is_audio: bool) {
    let (kind, name): (&BoxKind, &[u8]) = match is_audio {
        true => (b"soun", b"audio\0"),
        false => (b"vide", b"video\0"),
    };
    put_full_box(out, b"hdlr", 0, 0, |out| {
        out.put_u32(0);
        out.put_slice(kind);
        out.put_bytes(0, 12);
        out.put_slice(name);
    });
}

fn put_table(out: &mut Vec<u8>, track: &MovieTrack) {
    put_full_box(out, b"stsd", 0, 0, |out| {
        out.put_u32(track.entries.len() as u32);
        track.entries.iter().for_each(|entry| out.put_slice(entry));
    });
    match &track.tables {
        Some(tables) => out.put_slice(tables),
        None => {
            for kind in [b"stts", b"stsc", b"stco"] {
                put_full_box(out, kind, 0, 0, |out| out.put_u32(0));
            }
            put_full_box(out, b"stsz", 0, 0, |out| out.put_u64(0));
        }
    }
}

fn put_edits(out: &mut Vec<u8>, edits: &[Edit]) {
    let times = edits
        .iter()
        .flat_map(|it| [it.duration, it.media_time.unwrap_or(0)]);
    // Times of version 0 have a sign.
    let version = u8::from(times.max().unwrap_or(0) > i32::MAX as u64);
    put_full_box(out, b"elst", version, 0, |out| {
        out.put_u32(edits.len() as u32);
        for edit in edits {
            put_wide(out, version, edit.duration);
            // A time of -1 is a pause.
            put_wide(out, version, edit.media_time.unwrap_or(u64::MAX));
            out.put_u32(0x1_0000);
        }
    });
}

fn put_matrix(out: &mut Vec<u8>) {
    for value in [0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000] {
        out.put_u32(value);
    }
}

/// Appends the times of creation and of the last change, which are one.
fn put_created(out: &mut Vec<u8>, version: u8, created: u32) {
    put_wide(out, version, created.into());
    put_wide(out, version, created.into());
}

/// Returns the version of a box whose largest time is `time`.
fn version_of(time: u64) -> u8 {
    u8::from(time >= u64::from(u32::MAX))
}

/// Appends a field of 64 bits in version 1 of a box, of the low 32 bits in version 0.
pub(crate) fn put_wide(out: &mut Vec<u8>, version: u8, value: u64) {
    match version {
        0 => out.put_u32(value as u32),
        _ => out.put_u64(value),
    }
}
