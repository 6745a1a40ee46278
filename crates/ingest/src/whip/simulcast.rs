//! The choice of one simulcast layer: the best that arrives.

use std::time::{Duration, Instant};

use glassline_media::MediaTime;
use glassline_rtp::units::TimedUnit;

/// Time over which the layers are compared. Browsers stop and start layers as their estimate of the
/// path changes, which takes longer.
const WINDOW: Duration = Duration::from_secs(1);

/// Least distance of the times of two frames, where layers differ in their clocks.
const STEP: Duration = Duration::from_millis(1);

/// Chooses among the feeds of the video, which are the first feeds.
///
/// The first layer with a keyframe is taken. After that, the layer with the most bytes in a second
/// is the best one, and is taken from its next keyframe on. RIDs do not say which layer is the best:
/// OBS begins with it, and pages list their layers as they like.
#[derive(Debug)]
pub(super) struct Simulcast {
    /// Bytes of each layer in the present window.
    bytes: Vec<usize>,
    since: Instant,
    selected: Option<usize>,
    /// Layer that is taken with its next keyframe.
    next: Option<usize>,
    /// Time of the latest frame that was admitted.
    latest: Option<MediaTime>,
}

impl Simulcast {
    /// Creates the choice among `layers` layers; of one layer there is none.
    pub(super) fn new(layers: usize, now: Instant) -> Self {
        Self {
            bytes: vec![0; layers],
            since: now,
            selected: (layers == 1).then_some(0),
            next: None,
            latest: None,
        }
    }

    /// Returns the feed whose frames are published.
    pub(super) fn selected(&self) -> Option<usize> {
        self.selected
    }

    /// Returns the feed whose keyframes and lost packets matter.
    pub(super) fn wanted(&self) -> Option<usize> {
        self.next.or(self.selected).filter(|_| self.bytes.len() > 1)
    }

    /// Counts the payload of a packet of layer `layer`.
    pub(super) fn count(&mut self, layer: usize, bytes: usize) {
        if let Some(count) = self.bytes.get_mut(layer) {
            *count += bytes;
        }
    }

    /// Compares the layers at the end of a window. Returns whether another one is to be taken, for
    /// which a keyframe is needed.
    pub(super) fn choose(&mut self, now: Instant) -> bool {
        if self.bytes.len() < 2 || now.saturating_duration_since(self.since) < WINDOW {
            return false;
        }
        self.since = now;
        let counts = self.bytes.iter().copied().enumerate();
        let best = counts.max_by_key(|(_, bytes)| *bytes);
        let of_selected = self.selected.map(|selected| self.bytes[selected]);
        let (Some((best, bytes)), Some(of_selected)) = (best, of_selected) else {
            return false;
        };
        // Layers differ by a factor of two and more. Below that the content decides.
        let is_better = bytes > 0 && 2 * bytes > 3 * of_selected;
        self.next = (is_better && self.selected != Some(best)).then_some(best);
        self.bytes.fill(0);
        self.next.is_some()
    }

    /// Returns whether a unit of the video is published, and moves its time behind that of the
    /// frame before.
    pub(super) fn admits(&mut self, unit: &mut TimedUnit) -> bool {
        if self.bytes.len() < 2 {
            return true;
        }
        let layer = unit.track.get();
        if unit.keyframe && (self.selected.is_none() || self.next == Some(layer)) {
            self.selected = Some(layer);
            self.next = None;
        }
        if self.selected != Some(layer) {
            return false;
        }
        if let Some(latest) = self.latest.filter(|latest| unit.time <= *latest) {
            unit.time = latest + STEP;
        }
        self.latest = Some(unit.time);
        true
    }
}

#[cfg(test)]
mod tests {
    use glassline_media::TrackIndex;

    use super::*;

    fn unit(layer: usize, ms: u64, keyframe: bool, now: Instant) -> TimedUnit {
        TimedUnit {
            track: TrackIndex(layer),
            time: MediaTime::ZERO + Duration::from_millis(ms),
            decode_time: None,
            keyframe,
            after_loss: false,
            data: vec![1],
            received: now,
        }
    }

    #[test]
    fn one_layer_is_always_published() {
        let now = Instant::now();
        let mut simulcast = Simulcast::new(1, now);
        assert!(simulcast.admits(&mut unit(0, 0, false, now)));
        simulcast.count(0, 1000);
        assert!(!simulcast.choose(now + 2 * WINDOW));
        assert_eq!((simulcast.selected(), simulcast.wanted()), (Some(0), None));
    }

    #[test]
    fn the_first_keyframe_begins_and_the_best_layer_follows_at_its_keyframe() {
        let now = Instant::now();
        let mut simulcast = Simulcast::new(3, now);
        assert!(
            !simulcast.admits(&mut unit(0, 0, false, now)),
            "no keyframe yet"
        );
        assert!(simulcast.admits(&mut unit(2, 10, true, now)));
        for (layer, bytes) in [(0, 90_000), (1, 30_000), (2, 10_000)] {
            simulcast.count(layer, bytes);
        }
        assert!(!simulcast.choose(now + WINDOW / 2), "the window is open");
        assert!(simulcast.choose(now + WINDOW));
        assert_eq!(simulcast.wanted(), Some(0));
        assert!(
            simulcast.admits(&mut unit(2, 500, false, now)),
            "until the keyframe"
        );
        assert!(!simulcast.admits(&mut unit(0, 500, false, now)));
        let mut first = unit(0, 490, true, now);
        assert!(simulcast.admits(&mut first));
        assert_eq!(first.time.nanos(), 501_000_000, "time never goes back");
        assert!(!simulcast.admits(&mut unit(2, 520, false, now)));
        assert_eq!(
            (simulcast.selected(), simulcast.wanted()),
            (Some(0), Some(0))
        );
    }

    #[test]
    fn a_layer_that_stops_is_replaced_and_equals_do_not_alternate() {
        let now = Instant::now();
        let mut simulcast = Simulcast::new(2, now);
        assert!(simulcast.admits(&mut unit(0, 0, true, now)));
        simulcast.count(0, 100);
        simulcast.count(1, 140);
        assert!(!simulcast.choose(now + WINDOW));
        simulcast.count(1, 140);
        assert!(simulcast.choose(now + 2 * WINDOW), "layer 0 stopped");
        assert!(simulcast.admits(&mut unit(1, 10, true, now)));
        assert!(!simulcast.choose(now + 3 * WINDOW), "nothing at all");
    }
}
