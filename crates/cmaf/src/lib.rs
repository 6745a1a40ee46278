//! CMAF (ISO/IEC 23000-19) from the units of the hub: tracks, fragments, and files that every player
//! seeks in.
//!
//! The crate is sans-IO: units come in, bytes with their places in time go out. Recordings and HLS
//! are made of the fragments of this crate.

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

pub use file::{FileEnd, FileWriter, FragmentEntry, Patch};
pub use fragment::{Fragment, FragmentTrack, Sample};
pub use fragmenter::{CutRule, Discontinuity, Fragmenter, HeaderCause, NewHeader, Output};
pub use header::Header;
pub use reader::{
    ReadAt, ReadError, RecordedFile, RecordedFragment, RecordedSample, RecordedTrack,
};
pub use span::{Slice, Span, SpanBuilder, SpanCut, SpanError};
pub use track::{CmafTrack, TrackError};
