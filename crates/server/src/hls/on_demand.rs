//! What is made once somebody asks: rungs of ladders, which are announced at once, encoded while somebody
//! plays them, and gaps afterwards; and audio in AAC.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use glassline_hls::{SegmentRate, Variant};
use glassline_media::{Bitrate, Layer, LayerIndex, Track, TrackIndex, TrackLayer};

use super::aac::{self, AacMaker};
use super::rendition_key::RenditionKey;

/// Constrained Baseline at a level that has room for every rung.
const CODEC: &str = "avc1.42c028";

/// A rung of a ladder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rung<'a> {
    pub(super) layer: TrackLayer,
    described: &'a Layer,
}

/// Returns the rungs of `tracks` that can be had.
pub(super) fn rungs(tracks: &[Track]) -> impl Iterator<Item = Rung<'_>> {
    TrackIndex::enumerate(tracks).flat_map(|(track, of)| {
        let layers = of.layers.iter().enumerate();
        let made = layers.filter(|(_, it)| it.is_made_here && it.is_available());
        made.map(move |(place, described)| Rung {
            layer: TrackLayer {
                track,
                layer: LayerIndex::of_encoding(place),
            },
            described,
        })
    })
}

impl Rung<'_> {
    /// Returns the rung as it will be, once somebody asks for it.
    pub(super) fn variant(&self, uri: String, frame_rate: Option<f64>) -> Variant {
        let bps = self.described.bitrate.map_or(0, Bitrate::bps);
        let size = self.described.size;
        Variant {
            uri,
            codec: CODEC.to_owned(),
            rate: SegmentRate {
                // Keyframes, and headers of fragments.
                peak: bps * 3 / 2,
                average: bps * 11 / 10,
            },
            size: size.map(|(width, height)| (width.into(), height.into())),
            frame_rate,
        }
    }
}

/// Returns the layers of AAC that are made of the tracks of a source.
pub(super) fn aac_layers(tracks: &[Track]) -> impl Iterator<Item = TrackLayer> {
    let taken = TrackIndex::enumerate(tracks).filter(|(_, track)| AacMaker::takes(track));
    taken.map(|(track, _)| TrackLayer {
        track,
        layer: aac::LAYER,
    })
}

/// The renditions that players were offered and that are made once somebody asks, each with the time of the
/// latest request.
///
/// Players keep the Multivariant Playlist with which they began, so they may ask for what another source
/// offered than the present one.
#[derive(Debug, Default)]
pub(super) struct OnDemand(Mutex<BTreeMap<RenditionKey, Option<Instant>>>);

impl OnDemand {
    /// Adds the renditions that are made on demand of a source's `tracks`.
    pub(super) fn offer(&self, tracks: &[Track]) {
        let mut offered = self.lock();
        let layers = rungs(tracks).map(|it| it.layer).chain(aac_layers(tracks));
        for layer in layers {
            offered.entry(RenditionKey::of(tracks, layer)).or_default();
        }
    }

    /// Returns whether a rendition called `name` was offered.
    pub(super) fn has(&self, name: &str) -> bool {
        self.lock().keys().any(|key| key.name() == name)
    }

    /// Notes a request for the rendition called `name`, if it is made on demand.
    pub(super) fn note(&self, name: &str, now: Instant) {
        let mut offered = self.lock();
        let found = offered.iter_mut().find(|(key, _)| key.name() == name);
        if let Some((_, asked)) = found {
            *asked = Some(now);
        }
    }

    /// Returns whether a rendition was asked for within `span` before `now`.
    pub(super) fn is_wanted(&self, key: RenditionKey, span: Duration, now: Instant) -> bool {
        let asked = self.lock().get(&key).copied().flatten();
        asked.is_some_and(|at| now.saturating_duration_since(at) < span)
    }

    /// Returns the renditions that somebody has asked for so far.
    pub(super) fn asked(&self) -> Vec<RenditionKey> {
        let offered = self.lock();
        let asked = offered.iter().filter(|(_, asked)| asked.is_some());
        asked.map(|(key, _)| *key).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RenditionKey, Option<Instant>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use glassline_media::{Codec, LayerAbsence};

    use super::*;

    #[test]
    fn a_rung_is_announced_by_its_plan_and_wanted_for_a_while() {
        let layer = |rid: &str, is_made_here, absence| Layer {
            rid: rid.to_owned(),
            size: Some((640, 360)),
            bitrate: Some(Bitrate::from_bps(500_000)),
            absence,
            is_made_here,
            ..Layer::default()
        };
        let failed = Some(LayerAbsence::Failed("no room".to_owned()));
        let track = Track::new(Codec::H264).with_layers(vec![
            layer("source", false, None),
            layer("360p", true, Some(LayerAbsence::Paused)),
            layer("180p", true, failed),
        ]);
        let tracks = [Track::audio(Codec::Opus, 2), track];
        let announced: Vec<_> = rungs(&tracks).collect();
        assert_eq!(announced.len(), 1, "neither the source's nor a failed one");
        let TrackLayer { track, layer } = announced[0].layer;
        assert_eq!((track, layer), (TrackIndex(1), LayerIndex(2)));
        let variant = announced[0].variant("v.m3u8".to_owned(), Some(30.0));
        assert_eq!(
            (variant.rate.average, variant.size),
            (550_000, Some((640, 360)))
        );
        let (on_demand, start) = (OnDemand::default(), Instant::now());
        let span = Duration::from_secs(30);
        let key = RenditionKey::of(&tracks, announced[0].layer);
        on_demand.note("video0-2", start);
        assert!(on_demand.asked().is_empty(), "nobody was offered it");
        on_demand.offer(&tracks);
        on_demand.offer(&[]);
        on_demand.note("video0-3", start);
        assert!(!on_demand.is_wanted(key, span, start));
        on_demand.note("video0-2", start);
        assert_eq!(on_demand.asked(), [key]);
        let is_wanted = |after: Duration| on_demand.is_wanted(key, span, start + after);
        assert!(is_wanted(span / 2) && !is_wanted(span));
        on_demand.note("audio0-aac", start);
        assert_eq!(on_demand.asked().len(), 2);
    }
}
