//! The distance of a layer's frames by their own times, of which playlists make their promises.
//!
//! Arrival tells nothing of it: sources come late, in bursts, or slowly at first.

use std::sync::Arc;
use std::time::Duration;

use glassline_hub::Stream;
use glassline_media::{LayerIndex, MediaUnit, TrackLayer};

use super::aac::{self, AacMaker};

/// Most frames that are looked at, the newest ones.
const FRAMES_MAX: usize = 240;

/// Longest part, in percent of whole frames at their usual distance. With the 85 % below which a part is too
/// short (§4.4.4.9), there is as much room for uneven frames on either side.
const ROOM_PERCENT: u32 = 108;

/// Least number of frames in a part that is even: one more makes the part longer by a fifth at most.
const EVEN_FROM: u32 = 5;

/// The frames of a layer that the hub has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cadence {
    /// Usual distance of two frames; `None` if fewer than two are known.
    pub(super) frame: Option<Duration>,
    /// Time from the oldest frame to the newest.
    pub(super) span: Duration,
}

impl Cadence {
    /// Measures a layer of a stream. A layer without frames so far has the cadence of another encoding of its
    /// track, and one whose source is away has none: what stands in tells nothing of the source.
    pub(super) fn of_layer(stream: &Stream, layer: TrackLayer) -> Self {
        if layer.layer == aac::LAYER {
            return Self::steady(AacMaker::FRAME);
        }
        if stream.is_source_away() {
            return Self::default();
        }
        let tracks = stream.tracks();
        let encodings = tracks
            .get(layer.track.get())
            .map_or(0, |it| it.layers.len());
        let encodings = (0..encodings).map(LayerIndex::of_encoding);
        let others = encodings.map(|other| TrackLayer {
            layer: other,
            ..layer
        });
        let mut all = std::iter::once(layer).chain(others);
        let found = all.find_map(|layer| {
            let cadence = Self::of(&stream.since(layer, 0));
            cadence.frame.is_some().then_some(cadence)
        });
        found.unwrap_or_default()
    }

    /// Returns the cadence of frames that are always `frame` apart.
    const fn steady(frame: Duration) -> Self {
        Self {
            frame: Some(frame),
            span: Duration::MAX,
        }
    }

    /// Measures units, the oldest first. Some gaps are far from the others, where frames are missing or the
    /// source paused, and all are rounded: the usual distance is the mean of those near the median.
    fn of(units: &[Arc<MediaUnit>]) -> Self {
        let newest = &units[units.len().saturating_sub(FRAMES_MAX)..];
        let frames = newest.iter().filter(|it| it.first);
        let times: Vec<_> = frames.map(|it| it.decode_time()).collect();
        let gaps = times.windows(2).map(|it| it[1].saturating_since(it[0]));
        let mut gaps: Vec<_> = gaps.filter(|it| !it.is_zero()).collect();
        gaps.sort_unstable();
        let median = gaps.get(gaps.len().saturating_sub(1) / 2).copied();
        let mean_near = |median: Duration| {
            let near = gaps.iter().filter(|it| it.abs_diff(median) * 4 <= median);
            let count = u32::try_from(near.clone().count()).unwrap_or(u32::MAX);
            near.sum::<Duration>() / count.max(1)
        };
        Self {
            frame: median.map(mean_near),
            span: gaps.iter().sum(),
        }
    }

    /// Returns frames a second; `None` if they are not known.
    pub(super) fn frame_rate(self) -> Option<f64> {
        self.frame.map(|it| 1.0 / it.as_secs_f64())
    }

    /// Returns the longest duration of a part: `wanted`, rounded up to whole frames, and some room for
    /// frames that come unevenly. Of many frames, the number is even: a camera that halves its rate in the
    /// dark then has half as many in a part. Of an odd number, no part would be long enough, and each would
    /// end its segment.
    pub(super) fn part_target(self, wanted: Duration) -> Duration {
        let frame = self.frame.unwrap_or(wanted);
        let frames = wanted.div_duration_f64(frame);
        // A distance that is measured a little too short asks for no further frame.
        let mut frames = (frames - 0.1).ceil().max(1.0) as u32;
        if frames >= EVEN_FROM {
            frames = frames.next_multiple_of(2);
        }
        let longest = frame * frames * ROOM_PERCENT / 100;
        // Whole milliseconds are shorter in playlists.
        let ms = u64::try_from(longest.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
        Duration::from_millis(ms).min(wanted * 8)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use glassline_media::{MediaTime, Stamps, TrackIndex, UnitBuilder};

    use super::*;

    /// Measures frames with these distances in ms.
    fn of_gaps(gaps: impl IntoIterator<Item = f64>) -> Cadence {
        let (mut time, now) = (0.0, Instant::now());
        let mut times = vec![0.0];
        times.extend(gaps.into_iter().map(|gap| {
            time += gap;
            time
        }));
        let unit = |ms: f64| {
            let mut builder = UnitBuilder::default();
            builder.push(b"frame");
            let time = MediaTime::from_nanos((ms * 1e6) as i64);
            let unit = builder.build(TrackIndex(0), time, false, Stamps::arrived(now));
            Arc::new(unit.expect("a packet"))
        };
        Cadence::of(&times.into_iter().map(unit).collect::<Vec<_>>())
    }

    fn is_near(cadence: Cadence, ms: f64) -> bool {
        let frame = cadence.frame.expect("it is known").as_secs_f64() * 1000.0;
        (frame - ms).abs() < ms / 200.0
    }

    #[test]
    fn the_distance_of_frames_is_that_of_their_times() {
        assert_eq!(of_gaps([]), Cadence::default());
        assert!(is_near(of_gaps([1000.0]), 1000.0));
        for rate in [5.0, 12.5, 23.976, 25.0, 29.97, 50.0, 60.0] {
            assert!(is_near(of_gaps(vec![1000.0 / rate; 30]), 1000.0 / rate));
        }
        // Rounded to whole ms, as in files of Matroska and FLV.
        let rounded = (0..60).map(|it| if it % 3 == 0 { 34.0 } else { 33.0 });
        assert!(is_near(of_gaps(rounded), 1000.0 / 30.0));
        // A camera of which every tenth frame is lost, and a shared screen that pauses.
        let lossy = (0..60).map(|it| if it % 10 == 0 { 80.0 } else { 40.0 });
        assert!(is_near(of_gaps(lossy), 40.0));
        let screen = (0..60).map(|it| if it % 4 == 0 { 1700.0 } else { 33.0 });
        assert!(is_near(of_gaps(screen), 33.0));
        // Of a source that has changed its rate, the newest frames count.
        let changed = (0..500).map(|it| if it < 400 { 20.0 } else { 100.0 });
        assert!(is_near(of_gaps(changed.skip(200)), 20.0));
        let changed = (0..500).map(|it| if it < 200 { 20.0 } else { 100.0 });
        assert!(is_near(of_gaps(changed), 100.0));
    }

    #[test]
    fn a_part_has_whole_frames_and_a_little_room() {
        let target = |wanted_ms, frame_ms: f64| {
            let frame = (frame_ms > 0.0).then(|| Duration::from_secs_f64(frame_ms / 1000.0));
            let cadence = Cadence {
                frame,
                ..Cadence::default()
            };
            let target = cadence.part_target(Duration::from_millis(wanted_ms));
            target.as_millis()
        };
        for (wanted, frame, expected) in [
            // Six frames, as three of half the rate.
            (200, 40.0, 259),
            (200, 1000.0 / 30.0, 216),
            (200, 1000.0 / 24.0, 270),
            (200, 20.0, 216),
            (200, 1024.0 / 48.0, 231),
            (200, 60.0, 260),
            (500, 1024.0 / 48.0, 553),
            (200, 500.0, 540),
            (200, 0.0, 216),
            (200, 10_000.0, 1600),
        ] {
            let found = target(wanted, frame);
            assert!(found.abs_diff(expected) <= 1, "{frame} ms: {found}");
        }
        // Of every usual distance, and of the double of those of cameras, some number of frames is a part.
        for rate in 5..=120 {
            let frame = 1000.0 / f64::from(rate);
            let target = target(200, frame) as f64;
            let doubled = if rate >= 21 { 2 } else { 1 };
            for frame in [frame, frame * f64::from(doubled)] {
                let whole = (target / frame).floor() * frame;
                assert!(
                    whole >= target * 0.85,
                    "{rate} a second, {frame} ms: {whole} of {target}"
                );
            }
        }
    }
}
