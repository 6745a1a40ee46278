//! The rungs of ladders as HLS has them: announced at once, encoded while somebody plays them, and gaps
//! afterwards.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use glassline_hls::{SegmentRate, Variant};
use glassline_media::{Bitrate, Layer, LayerIndex, Track, TrackIndex, TrackLayer};

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

/// The rungs that were asked for, each with the time of the latest request.
#[derive(Debug, Default)]
pub(super) struct WantedRungs(Mutex<BTreeMap<TrackLayer, Instant>>);

impl WantedRungs {
    /// Notes a request for a rung of the stream.
    pub(super) fn note(&self, layer: TrackLayer, now: Instant) {
        let mut wanted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.insert(layer, now);
    }

    /// Returns whether a rung was asked for within `span` before `now`.
    pub(super) fn has(&self, layer: TrackLayer, span: Duration, now: Instant) -> bool {
        let wanted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = wanted.get(&layer);
        at.is_some_and(|at| now.saturating_duration_since(*at) < span)
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
        let (wanted, start) = (WantedRungs::default(), Instant::now());
        let (of, span) = (announced[0].layer, Duration::from_secs(30));
        assert!(!wanted.has(of, span, start));
        wanted.note(of, start);
        assert!(wanted.has(of, span, start + span / 2) && !wanted.has(of, span, start + span));
    }
}
