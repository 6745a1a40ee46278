//! Playlists of HTTP Live Streaming (draft-pantos-hls-rfc8216bis) with low latency: their state as parts
//! arrive, their text, and a reader that judges the playlists of any server.
//!
//! ```text
//! parts, gaps, changes ─► MediaPlaylist ─┬► answer(Directives): now, wait, too far ahead
//!                                        ├► text, delta update
//!                                        └► rates, report ─► MultivariantPlaylist ─► text
//! segments that are files already ─► RecordedPlaylist ─► RecordedText, delta update
//! text of any server ─► reader ─► judge: findings
//! ```
//!
//! The crate is sans-IO: it knows durations and names of segments, and no media.

pub mod judge;
mod multivariant;
mod playlist;
pub mod reader;

pub use multivariant::{AudioRendition, MultivariantPlaylist, Variant};
pub use playlist::{
    Answer, Directives, DirectivesError, MediaPlaylist, NewPart, Numbers, Pushed, RecordedForm,
    RecordedPlaylist, RecordedSegment, RecordedText, RenditionReport, SegmentRate, Terms,
};
