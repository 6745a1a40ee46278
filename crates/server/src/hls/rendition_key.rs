//! The number of a rendition among those of its stream, whichever source the stream has.
//!
//! A source may send its audio before its video, or another layer in the place of several, as the one
//! before did not. Players keep the playlists with which they began, so a rendition is the first, second …
//! of its kind, and not a track with a fixed index.

use std::cmp::Ordering;

use glassline_media::{Codec, Kind, LayerIndex, Track, TrackIndex, TrackLayer};

use super::aac::{self, AacMaker};

/// The kind, number and layer that a rendition has for the whole life of a broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RenditionKey {
    pub(super) kind: Kind,
    /// Number of tracks of this kind before it that HLS carries.
    number: usize,
    pub(super) layer: LayerIndex,
}

/// The units of which a rendition is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameSource {
    /// The units of this layer.
    Source(TrackLayer),
    /// No units now, and those of this layer later: nobody plays the rung of a ladder.
    Paused(TrackLayer),
    /// Units in the place of a track that the source does not have.
    StandIn,
}

impl RenditionKey {
    /// Returns the key of a layer of a source's `tracks`.
    pub(super) fn of(tracks: &[Track], layer: TrackLayer) -> Self {
        let kind = tracks[layer.track.get()].kind();
        let before = tracks[..layer.track.get()].iter();
        Self {
            kind,
            number: before
                .filter(|it| it.kind() == kind && is_carried(it))
                .count(),
            layer: layer.layer,
        }
    }

    /// Returns the track of a source's `tracks` with this kind and number.
    pub(super) fn track(self, tracks: &[Track]) -> Option<TrackIndex> {
        let of_kind = |(_, it): &(TrackIndex, &Track)| it.kind() == self.kind && is_carried(it);
        let mut all = TrackIndex::enumerate(tracks).filter(of_kind);
        all.nth(self.number).map(|(index, _)| index)
    }

    /// Returns whether a source's `tracks` have this layer.
    pub(super) fn is_in(self, tracks: &[Track]) -> bool {
        self.track(tracks).is_some_and(|index| {
            let layers = tracks[index.get()].layers.len();
            match self.layer {
                LayerIndex::BASE => layers == 0,
                LayerIndex(layer) => usize::from(layer) <= layers,
            }
        })
    }

    /// Returns the units of which the rendition is made while a source has `tracks`, of which `layers` are
    /// sent. In the place of a layer that it does not have is the best one of its track.
    pub(super) fn frames(self, tracks: &[Track], layers: &[TrackLayer]) -> FrameSource {
        let Some(track) = self.track(tracks) else {
            return FrameSource::StandIn;
        };
        let of_track = &tracks[track.get()];
        let is_aac = AacMaker::takes(of_track) || of_track.codec == Codec::Aac;
        let layer = TrackLayer {
            track,
            layer: self.layer,
        };
        match self.layer {
            aac::LAYER if is_aac => FrameSource::Source(track.into()),
            aac::LAYER => FrameSource::StandIn,
            _ if !self.is_in(tracks) => FrameSource::Source(track.into()),
            _ if layers.contains(&layer) => FrameSource::Source(layer),
            _ => FrameSource::Paused(layer),
        }
    }

    /// Returns the name of the playlist, and of the folder of its files.
    pub(super) fn name(self) -> String {
        let (kind, number) = (self.kind.as_str(), self.number);
        match self.layer {
            LayerIndex::BASE => format!("{kind}{number}"),
            aac::LAYER => format!("{kind}{number}-aac"),
            LayerIndex(layer) => format!("{kind}{number}-{layer}"),
        }
    }
}

/// Video is first, and then the order of tracks and layers.
impl Ord for RenditionKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |it: &Self| (it.kind != Kind::Video, it.number, it.layer);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for RenditionKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Returns whether a track goes by HLS.
pub(super) fn is_carried(track: &Track) -> bool {
    matches!(track.kind(), Kind::Video | Kind::Audio)
        && glassline_cmaf::CmafTrack::is_carried(track)
}

/// Returns the layers of tracks that go by HLS whoever plays them: the only one of a track, or each of the
/// encodings that its source sends.
pub(super) fn layers_of(tracks: &[Track]) -> Vec<TrackLayer> {
    let carried = TrackIndex::enumerate(tracks).filter(|(_, track)| is_carried(track));
    let of = |(index, track): (TrackIndex, &Track)| -> Vec<TrackLayer> {
        match track.layers.len() {
            0 => vec![index.into()],
            _ => {
                let layers = track.layers.iter().enumerate();
                let sent = layers.filter(|(_, it)| !it.is_made_here);
                let of = |(position, _)| TrackLayer {
                    track: index,
                    layer: LayerIndex::of_encoding(position),
                };
                sent.map(of).collect()
            }
        }
    };
    carried.flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use glassline_media::Layer;

    use super::*;

    fn layer(track: usize, layer: u8) -> TrackLayer {
        TrackLayer {
            track: TrackIndex(track),
            layer: LayerIndex(layer),
        }
    }

    #[test]
    fn a_key_is_the_same_whatever_the_order_of_tracks() {
        let (video, audio) = (Track::new(Codec::Vp8), Track::audio(Codec::Opus, 2));
        let first = [video.clone(), audio.clone()];
        let turned = [audio.clone(), video.clone()];
        let key = RenditionKey::of(&first, layer(1, 0));
        assert_eq!(key, RenditionKey::of(&turned, layer(0, 0)));
        assert_eq!(key.name(), "audio0");
        let frames = key.frames(&turned, &[layer(0, 0), layer(1, 0)]);
        assert_eq!(frames, FrameSource::Source(layer(0, 0)));
        assert_eq!(key.frames(&[video], &[layer(0, 0)]), FrameSource::StandIn);
    }

    #[test]
    fn a_layer_that_is_away_is_that_of_the_track() {
        let described = |rid: &str| Layer {
            rid: rid.to_owned(),
            ..Layer::default()
        };
        let several = [Track::new(Codec::Vp8).with_layers(vec![described("l"), described("h")])];
        let key = RenditionKey::of(&several, layer(0, 2));
        assert_eq!(key.name(), "video0-2");
        let paused = key.frames(&several, &[layer(0, 1)]);
        assert_eq!(paused, FrameSource::Paused(layer(0, 2)));
        let both = [layer(0, 1), layer(0, 2)];
        assert_eq!(
            key.frames(&several, &both),
            FrameSource::Source(layer(0, 2))
        );
        let one = [Track::new(Codec::Vp8)];
        assert_eq!(
            key.frames(&one, &[layer(0, 0)]),
            FrameSource::Source(layer(0, 0))
        );
        assert!(!key.is_in(&one) && key.is_in(&several));
    }
}
