//! The layers of a source: which of them have begun, which is the best that is alive, and the base layer
//! that follows it.
//!
//! ```text
//! layer a ─●──●──●──K──●─► layer 1 of the track ┐
//! layer b ─●──●──●──●──●─► layer 2              ├─► hub
//! layer c ─●──●     K──●─► layer 3              │
//!   best:  c  c  b  c  c ─► base layer ─────────┘ moves at keyframes, its times and numbers go on
//! ```

use std::time::{Duration, Instant};

use glassline_media::{Codec, LayerIndex, MediaTime, MediaUnit};
use glassline_rtp::payload::{FrameNumbers, NumberShift};

/// Time over which the layers are compared. Browsers stop and start layers as their estimate of the
/// path changes, which takes longer.
const WINDOW: Duration = Duration::from_secs(1);

/// Time without a frame after which a layer counts as ended, if frames of another one came.
const SILENCE: Duration = Duration::from_millis(500);

/// Frames of another layer that show that a silent layer has ended. Content with few frames a second is
/// silent on every layer.
const FRAMES_MEANWHILE: u32 = 3;

/// Distance behind the base layer from which a frame is one of the past: layers that are encoded side by
/// side are some frames apart.
const PAST: Duration = Duration::from_millis(250);

/// Least distance of the times of two frames, where layers differ in their clocks.
const STEP: Duration = Duration::from_millis(1);

/// The order of layers, from the best one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ranking {
    /// More bytes in a second. RIDs do not say which layer is the best: OBS begins with it, and pages list
    /// their layers as they like.
    Bytes,
    /// An earlier place in the list. The bytes of cameras vary with what they see.
    Order,
}

/// The layers of the video, which are the first feeds, and the base layer that is made of them.
///
/// The first layer with a keyframe is the best one at first. After that, the best layer by its ranking
/// is, from its next keyframe on.
#[derive(Debug)]
pub(crate) struct Simulcast {
    codec: Codec,
    ranking: Ranking,
    layers: Vec<Layer>,
    since: Instant,
    /// Layer that the base layer follows.
    followed: Option<usize>,
    /// Layer that the base layer follows from its next keyframe on.
    next: Option<usize>,
    /// Best layer for viewers that can move, which find the layer's latest keyframe in the hub.
    best: Option<usize>,
    base: Base,
}

/// Recent bytes and arrivals of one layer, by which the best one is chosen.
#[derive(Clone, Debug, Default)]
struct Layer {
    /// Bytes in the present window.
    bytes: usize,
    /// Bytes in the window before.
    bytes_before: usize,
    /// Whether a keyframe came, from which on the layer is published.
    has_begun: bool,
    /// Arrival of the latest frame.
    latest: Option<Instant>,
    /// Frames since the latest one of the followed layer.
    meanwhile: u32,
}

/// How the frames of the followed layer continue the base layer.
#[derive(Debug, Default)]
struct Base {
    /// Latest time of a frame.
    latest: Option<MediaTime>,
    /// Time behind which the next frame has to come, where layers that differ in their clocks follow each
    /// other.
    floor: Option<MediaTime>,
    /// Picture numbers of the latest frame.
    numbers: FrameNumbers,
    /// Distance by which picture numbers of the followed layer are moved.
    shift: NumberShift,
}

impl Simulcast {
    /// Creates the state of `layers` layers of `codec`; of one layer there is nothing to choose.
    pub(crate) fn new(layers: usize, codec: Codec, ranking: Ranking, now: Instant) -> Self {
        Self {
            codec,
            ranking,
            layers: vec![Layer::default(); layers],
            since: now,
            followed: (layers == 1).then_some(0),
            next: None,
            best: None,
            base: Base::default(),
        }
    }

    /// Returns whether feed `feed` is one of several layers.
    pub(crate) fn has(&self, feed: usize) -> bool {
        self.layers.len() > 1 && feed < self.layers.len()
    }

    /// Returns the feed that the base layer follows.
    pub(crate) fn followed(&self) -> Option<usize> {
        self.followed
    }

    /// Returns the feeds of which a keyframe is needed if one of the base layer is: the followed one, and
    /// the one that is followed next.
    pub(crate) fn of_base(&self) -> impl Iterator<Item = usize> {
        self.next.or(self.followed).into_iter()
    }

    /// Returns the best layer that is alive, for viewers that can move from layer to layer.
    pub(crate) fn best(&self) -> Option<LayerIndex> {
        self.best.map(LayerIndex::of_encoding)
    }

    /// Counts the payload of a packet of layer `layer`.
    pub(crate) fn count(&mut self, layer: usize, bytes: usize) {
        if let Some(layer) = self.layers.get_mut(layer) {
            layer.bytes += bytes;
        }
    }

    /// Looks for a layer to follow next, because the followed one has ended, or because another one is
    /// better. Returns the layer, if its keyframe is needed.
    pub(crate) fn choose(&mut self, now: Instant) -> Option<usize> {
        let followed = self.followed.filter(|_| self.layers.len() > 1)?;
        if let Some(other) = self.replacement(followed, now) {
            let is_news = self.next != Some(other);
            self.next = Some(other);
            self.best = Some(other);
            return is_news.then_some(other);
        }
        if self.ranking == Ranking::Order || now.saturating_duration_since(self.since) < WINDOW {
            return None;
        }
        self.since = now;
        let counts = self.layers.iter().map(|it| it.bytes).enumerate();
        let (best, bytes) = counts.max_by_key(|(_, bytes)| *bytes)?;
        // Layers differ by a factor of two and more. Below that the content decides.
        let is_better = bytes > 0 && 2 * bytes > 3 * self.layers[followed].bytes;
        self.next = (is_better && followed != best).then_some(best);
        for layer in &mut self.layers {
            layer.bytes_before = std::mem::take(&mut layer.bytes);
        }
        self.next
    }

    /// Returns the layer that replaces the followed one, if that has ended: the one with the most bytes.
    fn replacement(&self, followed: usize, now: Instant) -> Option<usize> {
        let is_silent = |layer: &Layer| {
            let quiet = |at| now.saturating_duration_since(at) >= SILENCE;
            layer.latest.is_none_or(quiet)
        };
        if !is_silent(&self.layers[followed]) {
            return None;
        }
        let others = self.layers.iter().enumerate();
        let alive = others.filter(|(place, it)| {
            *place != followed && it.has_begun && it.meanwhile >= FRAMES_MEANWHILE && !is_silent(it)
        });
        let best = match self.ranking {
            Ranking::Bytes => alive.max_by_key(|(_, it)| it.bytes + it.bytes_before),
            Ranking::Order => alive.min_by_key(|(place, _)| *place),
        };
        best.map(|(place, _)| place)
    }

    /// Notes that no more frames of layer `layer` come, until another first keyframe. If the base layer
    /// followed it, the next keyframe of any layer goes on.
    pub(crate) fn end(&mut self, layer: usize) {
        if let Some(ended) = self.layers.get_mut(layer) {
            *ended = Layer::default();
        }
        self.followed = self.followed.filter(|followed| *followed != layer);
        self.next = self.next.filter(|next| *next != layer);
    }

    /// Lets the base layer follow layer `layer` from the layer's next keyframe on.
    pub(crate) fn follow_next(&mut self, layer: usize) {
        self.next = Some(layer).filter(|_| self.followed != Some(layer));
    }

    /// Returns whether frames of layer `layer` come, from its first keyframe on.
    pub(crate) fn is_alive(&self, layer: usize, now: Instant) -> bool {
        let is_recent = |at| now.saturating_duration_since(at) < SILENCE;
        let layer = self.layers.get(layer).filter(|it| it.has_begun);
        layer.is_some_and(|it| it.latest.is_some_and(is_recent))
    }

    /// Returns whether a unit of layer `layer` that arrived at `now` is published: from the layer's first
    /// keyframe on.
    pub(crate) fn admits(&mut self, layer: usize, unit: &MediaUnit, now: Instant) -> bool {
        let is_followed = self.followed == Some(layer);
        if is_followed {
            if self.best != Some(layer) && self.next == self.best {
                // The layer seemed to have ended.
                self.next = None;
                self.best = Some(layer);
            }
            self.layers.iter_mut().for_each(|it| it.meanwhile = 0);
        }
        let Some(of_layer) = self.layers.get_mut(layer) else {
            return false;
        };
        of_layer.latest = Some(now);
        of_layer.meanwhile += u32::from(!is_followed);
        of_layer.has_begun |= unit.keyframe;
        of_layer.has_begun
    }

    /// Returns whether a keyframe of layer `layer` came yet.
    pub(crate) fn has_begun(&self, layer: usize) -> bool {
        self.layers.get(layer).is_none_or(|it| it.has_begun)
    }

    /// Returns whether a frame of this time is older than what the base layer has: of a layer that was
    /// fetched again with the frames since its latest keyframe.
    pub(crate) fn is_past(&self, time: MediaTime) -> bool {
        self.base.latest.is_some_and(|latest| time + PAST < latest)
    }

    /// Returns the unit of layer `layer` as a unit of the base layer, if the base layer follows that
    /// layer. A keyframe may begin that. The units share their bytes, unless picture numbers have to go
    /// on.
    pub(crate) fn base(&mut self, layer: usize, unit: &MediaUnit) -> Option<MediaUnit> {
        let numbers = FrameNumbers::of(self.codec, unit.payload(0).unwrap_or_default());
        if unit.keyframe && self.is_next(layer) {
            self.followed = Some(layer);
            self.next = None;
            self.best = Some(layer);
            if self.base.latest.is_some() {
                self.base.shift = NumberShift::behind(self.base.numbers, numbers);
                self.base.floor = self.base.latest;
            }
        }
        if self.followed != Some(layer) {
            return None;
        }
        let base = &mut self.base;
        base.numbers = base.shift.apply(numbers);
        let mut unit = match base.shift.is_none() {
            true => unit.clone(),
            false => unit.edited(|payload| base.shift.rewrite(self.codec, payload)),
        };
        unit.layer = LayerIndex::BASE;
        if let Some(floor) = base.floor.take_if(|floor| unit.time <= *floor) {
            unit.time = floor + STEP;
            base.floor = Some(unit.time);
        } else {
            base.floor = None;
        }
        base.latest = base.latest.max(Some(unit.time));
        Some(unit)
    }

    /// Returns whether the base layer follows layer `layer` from the layer's keyframe on.
    fn is_next(&self, layer: usize) -> bool {
        let is_better = |followed| self.ranking == Ranking::Order && layer < followed;
        self.next == Some(layer) || self.followed.is_none_or(is_better)
    }
}

#[cfg(test)]
mod tests {
    use glassline_media::{Stamps, TrackIndex, UnitBuilder};

    use super::*;

    /// A unit with this picture ID.
    fn unit(ms: u64, id: u8, keyframe: bool, now: Instant) -> MediaUnit {
        let mut builder = UnitBuilder::default();
        builder.push(&[0x90, 0x80, 0x80, id, 1]);
        let time = MediaTime::ZERO + Duration::from_millis(ms);
        let unit = builder.build(TrackIndex(0), time, keyframe, Stamps::arrived(now));
        unit.expect("a packet")
    }

    /// Takes a unit; returns time in ms and picture ID of the unit of the base layer.
    fn take(simulcast: &mut Simulcast, layer: usize, unit: &MediaUnit) -> Option<(i64, u8)> {
        if !simulcast.admits(layer, unit, unit.stamps.origin) {
            return None;
        }
        let base = simulcast.base(layer, unit)?;
        Some((base.time.nanos() / 1_000_000, base.payload(0)?[3]))
    }

    #[test]
    fn one_layer_is_no_choice() {
        let now = Instant::now();
        let mut simulcast = Simulcast::new(1, Codec::Vp8, Ranking::Bytes, now);
        assert!(!simulcast.has(0) && simulcast.best().is_none());
        simulcast.count(0, 1000);
        assert_eq!(simulcast.choose(now + 2 * WINDOW), None);
        assert_eq!(simulcast.followed(), Some(0));
    }

    #[test]
    fn the_first_keyframe_begins_and_the_best_layer_follows_at_its_keyframe() {
        let now = Instant::now();
        let mut simulcast = Simulcast::new(3, Codec::Vp8, Ranking::Bytes, now);
        assert_eq!(take(&mut simulcast, 0, &unit(0, 9, false, now)), None);
        assert!(!simulcast.has_begun(0));
        assert_eq!(
            take(&mut simulcast, 2, &unit(10, 5, true, now)),
            Some((10, 5))
        );
        assert_eq!(simulcast.best(), Some(LayerIndex(3)));
        for (layer, bytes) in [(0, 90_000), (1, 30_000), (2, 10_000)] {
            simulcast.count(layer, bytes);
        }
        assert_eq!(
            simulcast.choose(now + WINDOW / 2),
            None,
            "the window is open"
        );
        let now = now + WINDOW;
        assert_eq!(
            take(&mut simulcast, 2, &unit(467, 6, false, now)),
            Some((467, 6))
        );
        assert_eq!(simulcast.choose(now), Some(0));
        assert_eq!(simulcast.of_base().collect::<Vec<_>>(), [0]);
        let until = take(&mut simulcast, 2, &unit(500, 7, false, now));
        assert_eq!(until, Some((500, 7)), "until the keyframe");
        assert_eq!(take(&mut simulcast, 0, &unit(500, 40, false, now)), None);
        let first = take(&mut simulcast, 0, &unit(490, 41, true, now));
        assert_eq!(first, Some((501, 8)), "time never goes back, numbers go on");
        assert_eq!(take(&mut simulcast, 2, &unit(520, 8, false, now)), None);
        assert_eq!(
            take(&mut simulcast, 0, &unit(523, 42, false, now)),
            Some((523, 9))
        );
        assert_eq!(simulcast.best(), Some(LayerIndex(1)));
    }

    #[test]
    fn a_layer_that_ends_is_replaced_within_a_second_and_equals_do_not_alternate() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut simulcast = Simulcast::new(3, Codec::Vp8, Ranking::Bytes, start);
        for (layer, bytes) in [(0, 100), (1, 140), (2, 90)] {
            take(&mut simulcast, layer, &unit(0, 0, true, start));
            simulcast.count(layer, bytes);
        }
        let frames = |simulcast: &mut Simulcast, layers: &[usize], from: u64, to: u64| {
            let mut chosen = Vec::new();
            for ms in (from..to).step_by(33) {
                for layer in layers {
                    take(simulcast, *layer, &unit(ms, 1, false, at(ms)));
                }
                chosen.extend(simulcast.choose(at(ms)).map(|layer| (layer, ms)));
            }
            chosen
        };
        assert_eq!(frames(&mut simulcast, &[0, 1, 2], 33, 1_100), []);
        assert_eq!(simulcast.best(), Some(LayerIndex(1)));
        // Layer 0 ends; layer 1 had the most bytes of the others.
        let chosen = frames(&mut simulcast, &[1, 2], 1_100, 2_000);
        let [(1, at_ms)] = chosen[..] else {
            panic!("{chosen:?}");
        };
        assert!((1_500..1_700).contains(&at_ms), "{at_ms}");
        assert_eq!(
            simulcast.best(),
            Some(LayerIndex(2)),
            "viewers that can move do"
        );
        assert_eq!(simulcast.followed(), Some(0), "until the keyframe");
        // The layer goes on after all.
        take(&mut simulcast, 0, &unit(2_000, 1, false, at(2_000)));
        assert_eq!(simulcast.best(), Some(LayerIndex(1)));
        assert_eq!(simulcast.of_base().collect::<Vec<_>>(), [0]);
        assert_eq!(simulcast.choose(at(10_000)), None, "nothing at all");
    }

    /// A shared screen has few frames a second, at slightly different times on each layer.
    #[test]
    fn layers_of_few_frames_a_second_are_not_taken_for_ended() {
        let start = Instant::now();
        let mut simulcast = Simulcast::new(2, Codec::Vp8, Ranking::Bytes, start);
        for second in 0..20 {
            let at = start + Duration::from_secs(second);
            for layer in 0..2 {
                simulcast.count(layer, 1_000);
                take(
                    &mut simulcast,
                    layer,
                    &unit(second * 1_000, 0, second == 0, at),
                );
                let soon = at + Duration::from_millis(990);
                assert_eq!(simulcast.choose(soon), None, "{second}");
            }
        }
        assert_eq!(simulcast.best(), Some(LayerIndex(1)));
    }

    /// A camera's main stream ends, its sub stream takes its place, and the main stream comes back.
    #[test]
    fn layers_in_an_order_take_the_first_that_is_alive_whatever_their_bytes() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut layers = Simulcast::new(2, Codec::H264, Ranking::Order, start);
        let frame = |layers: &mut Simulcast, layer, ms, keyframe| {
            let unit = unit(ms, 0, keyframe, at(ms));
            layers.admits(layer, &unit, at(ms));
            let base = layers.base(layer, &unit);
            base.map(|it| it.time.nanos() / 1_000_000)
        };
        assert_eq!(frame(&mut layers, 1, 0, true), Some(0));
        assert_eq!(frame(&mut layers, 0, 0, true), Some(1), "the main stream");
        layers.count(1, 1_000_000);
        assert_eq!(layers.choose(at(2_000)), None);
        assert_eq!(frame(&mut layers, 1, 40, true), None);
        // B-frames go back, and no layer follows another one.
        let times = [120, 80, 160].map(|ms| frame(&mut layers, 0, ms, false));
        assert_eq!(times, [120, 80, 160].map(Some));
        layers.end(0);
        assert_eq!(frame(&mut layers, 1, 400, false), None);
        assert_eq!(frame(&mut layers, 0, 420, false), None, "no keyframe yet");
        assert_eq!(frame(&mut layers, 1, 440, true), Some(440));
        assert_eq!(frame(&mut layers, 0, 430, true), Some(441), "it is back");
        assert_eq!(layers.best(), Some(LayerIndex(1)));
    }
}
