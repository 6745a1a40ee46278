//! Headers, which fragments follow.

use std::sync::Arc;

use bytes::Bytes;

use crate::movie::{Edit, MovieTrack, put_file_type, put_movie};
use crate::track::CmafTrack;

/// The tracks that fragments have, in the order of their numbers.
///
/// Two headers are equal if the fragments of one can follow those of the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    tracks: Arc<[CmafTrack]>,
}

impl Header {
    /// Creates the header of `tracks`.
    pub fn new(tracks: Vec<CmafTrack>) -> Self {
        Self {
            tracks: tracks.into(),
        }
    }

    /// Returns the tracks. The position of a track is its number in fragments, less one.
    pub fn tracks(&self) -> &[CmafTrack] {
        &self.tracks
    }

    /// Returns the codecs of all tracks with their parameters, separated by commas, as the attribute
    /// `CODECS` of a playlist has them.
    pub fn codec_strings(&self) -> String {
        let names: Vec<_> = self.tracks.iter().map(CmafTrack::codec_string).collect();
        names.join(",")
    }

    /// Returns the initialization segment: `ftyp` and `moov`. Fragments behind this header are
    /// presented at the times that they state.
    pub fn segment(&self) -> Bytes {
        let mut out = Vec::with_capacity(1024);
        put_file_type(&mut out, self.tracks.len());
        self.put_movie(&mut out, None);
        out.into()
    }

    /// Appends the `moov` box of a header. With `starts`, a tick of each track, the presentation begins
    /// there.
    pub(crate) fn put_movie(&self, out: &mut Vec<u8>, starts: Option<&[u64]>) {
        let tracks: Vec<_> = self
            .tracks
            .iter()
            .enumerate()
            .map(|(place, track)| {
                let start = starts.and_then(|starts| starts.get(place));
                let edit = start.map(|start| Edit {
                    duration: 0,
                    media_time: Some(*start),
                });
                let movie = MovieTrack {
                    entries: vec![track.entry.clone()],
                    edits: edit.into_iter().collect(),
                    ..MovieTrack::default()
                };
                (track, movie)
            })
            .collect();
        put_movie(out, &tracks);
    }
}
