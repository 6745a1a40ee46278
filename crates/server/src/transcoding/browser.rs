//! The tracks of a stream as browsers are offered them.

use std::sync::Arc;

use glassline_hub::{Stream, TrackLayout};
use glassline_media::{Kind, Track, TrackIndex};
use glassline_transcode::AudioSource;
use serde::Serialize;

use super::transcoders::{Transcoders, TranscodingLease};

/// The tracks of a stream as browsers can take them, index by index.
#[derive(Debug)]
pub(crate) struct BrowserTracks {
    pub(crate) tracks: Vec<Track>,
    /// Leases of the tracks that are transcoded.
    pub(crate) leases: Vec<TranscodingLease>,
}

/// How browsers receive a track, for the API and the pages.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct BrowserView {
    /// Codec in which browsers receive the track; null if they do not receive it.
    pub(crate) codec: Option<&'static str>,
    /// Why browsers do not receive the track, or what is missing of it, and what to do; null if
    /// nothing is.
    pub(crate) note: Option<String>,
}

impl Transcoders {
    /// Returns `tracks` of `stream` as browsers can take them. Audio that they cannot play is
    /// transcoded if there is no other audio and a decoder for it.
    pub(crate) fn for_browsers(
        self: &Arc<Self>,
        (stream, layout): (&Arc<Stream>, TrackLayout),
        tracks: &[Track],
    ) -> BrowserTracks {
        let mut offered = BrowserTracks {
            tracks: tracks.to_vec(),
            leases: Vec::new(),
        };
        for (index, track) in needing(tracks) {
            let source = match AudioSource::of(track) {
                Ok(source) => source,
                Err(reason) => {
                    tracing::info!(stream = %stream.name(), "a browser gets no audio: {reason}");
                    continue;
                }
            };
            match self.lease((stream, layout), index, source) {
                Ok(lease) => {
                    offered.tracks[index] = source.transcoded();
                    offered.leases.push(lease);
                }
                Err(reason) => {
                    tracing::warn!(stream = %stream.name(), "a browser gets no audio: {reason}");
                }
            }
        }
        offered
    }

    /// Returns how browsers receive each of `tracks`.
    pub(crate) fn browser_views(
        &self,
        (stream, layout): (&Arc<Stream>, TrackLayout),
        tracks: &[Track],
    ) -> Vec<BrowserView> {
        let needing: Vec<_> = needing(tracks).map(|(index, _)| index).collect();
        let views = TrackIndex::enumerate(tracks).map(|(index, track)| {
            if !needing.contains(&index) {
                return view_of(track);
            }
            let of = (stream, layout);
            match AudioSource::of(track) {
                Err(reason) => BrowserView::refused(reason.to_string()),
                Ok(source) => match self.refusal(of, index) {
                    Some(reason) => BrowserView::refused(reason.to_string()),
                    None => BrowserView {
                        codec: Some(source.transcoded().codec.encoding_name()),
                        note: self.trouble(of, index).or_else(|| source.loss()),
                    },
                },
            }
        });
        views.collect()
    }
}

impl BrowserView {
    const fn refused(note: String) -> Self {
        Self {
            codec: None,
            note: Some(note),
        }
    }
}

/// Returns how browsers receive a track that is not transcoded.
fn view_of(track: &Track) -> BrowserView {
    let codec = track.codec;
    if track.video.reordered {
        return BrowserView::refused(format!(
            "{codec} with B-frames: browsers show them in the wrong order; turn B-frames off at the source (ffmpeg: -bf 0)"
        ));
    }
    let plays = codec.is_played_by_browsers();
    BrowserView {
        codec: plays.then(|| codec.encoding_name()),
        note: (!plays).then(|| format!("browsers do not play {codec}")),
    }
}

/// Returns the audio tracks that browsers cannot play, unless there is audio that they can.
fn needing(tracks: &[Track]) -> impl Iterator<Item = (TrackIndex, &Track)> {
    let audio = |track: &&Track| track.kind() == Kind::Audio;
    let has_playable = tracks
        .iter()
        .filter(audio)
        .any(|track| track.codec.is_played_by_browsers());
    TrackIndex::enumerate(tracks)
        .filter(move |(_, track)| !has_playable && track.kind() == Kind::Audio)
}
