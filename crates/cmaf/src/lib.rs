//! CMAF (ISO/IEC 23000-19) from the units of the hub: tracks, fragments, and files that every player
//! seeks in.
//!
//! ```text
//! MediaUnit ─► Fragmenter ─► Header, Fragment ─┬─► playlists: Header::segment, Fragment::pieces
//!              by CutRule                      └─► FileWriter ─► bytes of a file, FileEnd
//!                                                                       │
//!              Span: head + slices ◄─ SpanBuilder ◄─ RecordedFile ◄─────┘
//! ```
//!
//! - [`Fragmenter`] cuts the units of one or more tracks, and tells when a new [`Header`] is needed.
//! - [`FileWriter`] says which bytes of a file stand where. The file grows by fragments; at its end a
//!   description of all samples makes it a plain MP4 file.
//! - [`RecordedFile`] reads such a file, also one whose writer died at any byte.
//! - [`FrameReader`] reads the coded frames of such a file.
//! - [`SpanBuilder`] makes one MP4 file of the part of many files between two times.
//!
//! The crate is sans-IO: units come in, bytes with their places in time go out, and files are read
//! through [`ReadAt`]. It knows no playlists and no disks.
//!
//! Sources: ISO/IEC 14496-12 (boxes), 14496-14 (AAC), 14496-15 (H.264, H.265), the bindings of VP9, AV1,
//! Opus and FLAC to MP4, RFC 9639 (FLAC), RFC 6381 (names of codecs).
//!
//! # Example
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use std::time::{Duration, Instant};
//!
//! use glassline_cmaf::{CutRule, FileWriter, Fragmenter, Output, RecordedFile};
//! use glassline_media::{Codec, MediaTime, Stamps, Track, TrackIndex, UnitBuilder, WallClock};
//!
//! let begin = Instant::now();
//! let clock = WallClock::new(begin, Duration::from_secs(1_800_000_000));
//! let tracks = TrackIndex::enumerate([Track::audio(Codec::Opus, 2)]);
//! let rule = CutRule::recording(Duration::from_secs(1), Duration::from_secs(600));
//! let mut fragmenter = Fragmenter::new(tracks, rule, None)?;
//! for packet in 0..100 {
//!     let mut builder = UnitBuilder::default();
//!     builder.push(&[0xfc, 0xff, 0xfe]);
//!     let due = begin + Duration::from_millis(20 * packet);
//!     let time = MediaTime::from_nanos(20_000_000 * packet as i64);
//!     let unit = builder.build(TrackIndex::default(), time, true, Stamps::arrived(due));
//!     fragmenter.push(&Arc::new(unit.expect("a packet")), &clock)?;
//! }
//! fragmenter.flush();
//!
//! let (mut header, mut writer, mut file) = (None, None, Vec::new());
//! while let Some(output) = fragmenter.poll() {
//!     match output {
//!         Output::Header(new) => header = Some(new.header),
//!         Output::Fragment(fragment) => {
//!             if fragment.begins_segment {
//!                 let header = header.as_ref().expect("comes first");
//!                 let begun = FileWriter::new(header, &fragment);
//!                 file = begun.head().to_vec();
//!                 writer = Some(begun);
//!             }
//!             writer.as_mut().expect("begun").add(&fragment);
//!             fragment.pieces().for_each(|piece| file.extend_from_slice(piece));
//!         }
//!         Output::Discontinuity(jump) => println!("{jump:?}"),
//!     }
//! }
//! let read = RecordedFile::open(&file[..])?;
//! assert_eq!(read.header().codec_strings(), "opus");
//! assert_eq!(read.fragments().len(), 2);
//! # Ok(())
//! # }
//! ```

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "a test may anchor virtual time anywhere"
    )
)]

mod boxes;
mod file;
mod fragment;
mod fragmenter;
mod header;
mod movie;
mod reader;
mod sample;
mod span;
#[cfg(test)]
mod tests;
mod track;

pub use file::{FileEnd, FileWriter, FragmentEntry, Patch, put_index, read_index};
pub use fragment::{Fragment, FragmentTrack, Sample};
pub use fragmenter::{CutRule, Discontinuity, Fragmenter, HeaderCause, NewHeader, Output};
pub use header::Header;
pub use reader::{
    FrameReader, ReadAt, ReadError, RecordedFile, RecordedFragment, RecordedSample, RecordedTrack,
};
pub use span::{Slice, Span, SpanBuilder, SpanCut, SpanError};
pub use track::{CmafTrack, TrackError};
