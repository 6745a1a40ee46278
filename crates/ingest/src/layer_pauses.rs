//! The layers of a publisher that nobody needs: paused after some seconds, and resumed for whoever needs
//! one.
//!
//! ```text
//! layers that receivers read ─► LayerPauses ─► LayerOrders ─► the publisher
//!                                    └► what the hub and viewers know of a layer that does not come
//! ```
//!
//! The lowest layer is never paused: whoever comes, or has to move down, begins with it while a better one
//! is on its way. A publisher that is not told, because it does not listen, has no layer paused.

use std::time::{Duration, Instant};

use glassline_media::{Bitrate, LayerAbsence};

/// Time in which nobody needs a layer after which it is paused.
const UNNEEDED: Duration = Duration::from_secs(5);

/// Time in which a publisher that was asked sends a layer again. Afterwards the layer is one that the
/// publisher does not send for reasons of its own.
const RESUMPTION: Duration = Duration::from_secs(3);

/// Interval at which the need of layers is looked at.
const LOOKS: Duration = Duration::from_millis(50);

/// Interval at which the rates of layers are measured.
const MEASUREMENTS: Duration = Duration::from_secs(1);

/// The layers of one publisher.
#[derive(Debug)]
pub(crate) struct LayerPauses {
    layers: Vec<LayerSupply>,
    looked: Option<Instant>,
    measured: Option<Instant>,
}

/// The supply of one layer.
#[derive(Clone, Copy, Debug)]
struct LayerSupply {
    supply: Supply,
    /// Whether frames of the layer came at the latest look.
    is_alive: bool,
    /// Bitrate while frames came.
    rate: Bitrate,
}

/// How the publisher sends a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Supply {
    /// As the publisher likes. Nobody has needed the layer since that instant.
    Free { unneeded: Option<Instant> },
    /// Not at all, as it was asked.
    Paused,
    /// Again, as it was asked at that instant. No keyframe came yet.
    Resuming(Instant),
}

/// The present state of one layer, as the hub and the base layer know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayerNeed {
    /// Whether a receiver needs the layer.
    pub(crate) is_needed: bool,
    /// Whether frames of the layer come.
    pub(crate) is_alive: bool,
}

/// The layers that a look paused, and those that it had resumed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PauseChange {
    pub(crate) paused: Vec<usize>,
    pub(crate) resumed: Vec<usize>,
    /// Layers that were asked for and did not come.
    pub(crate) given_up: Vec<usize>,
}

impl PauseChange {
    pub(crate) fn is_empty(&self) -> bool {
        self.paused.is_empty() && self.resumed.is_empty() && self.given_up.is_empty()
    }
}

impl LayerPauses {
    /// Creates the state of `layers` layers, all of which the publisher sends as it likes.
    pub(crate) fn new(layers: usize) -> Self {
        let supply = LayerSupply {
            supply: Supply::Free { unneeded: None },
            is_alive: false,
            rate: Bitrate::default(),
        };
        Self {
            layers: vec![supply; layers],
            looked: None,
            measured: None,
        }
    }

    /// Returns whether [`look`](Self::look) is to be called now. A publisher of a single layer, and one that
    /// does not listen, costs nothing.
    pub(crate) fn is_due(&self, is_heard: bool, now: Instant) -> bool {
        let is_late = |at| now.saturating_duration_since(at) >= LOOKS;
        self.may_change(is_heard) && self.looked.is_none_or(is_late)
    }

    /// Returns when [`look`](Self::look) is to be called again; `None` if it need not be.
    pub(crate) fn deadline(&self, is_heard: bool) -> Option<Instant> {
        let next = self.looked.map(|at| at + LOOKS);
        next.filter(|_| self.may_change(is_heard))
    }

    fn may_change(&self, is_heard: bool) -> bool {
        self.layers.len() > 1 && (is_heard || self.has_absent())
    }

    /// Looks which layers are needed. `is_heard`: whether the publisher listens. `rate` returns the bitrate
    /// of a layer whose frames come.
    pub(crate) fn look(
        &mut self,
        needs: &[LayerNeed],
        is_heard: bool,
        rate: impl Fn(usize) -> Bitrate,
        now: Instant,
    ) -> PauseChange {
        self.looked = Some(now);
        self.measure(needs, rate, now);
        let lowest = self.lowest();
        let mut change = PauseChange::default();
        for (place, (layer, need)) in self.layers.iter_mut().zip(needs).enumerate() {
            let is_needed = need.is_needed || !is_heard || lowest == Some(place);
            match layer.supply {
                Supply::Free { .. } if is_needed || !need.is_alive => {
                    layer.supply = Supply::Free { unneeded: None };
                }
                Supply::Free { unneeded } => {
                    let since = unneeded.unwrap_or(now);
                    layer.supply = Supply::Free {
                        unneeded: Some(since),
                    };
                    if now.saturating_duration_since(since) >= UNNEEDED {
                        layer.supply = Supply::Paused;
                        change.paused.push(place);
                    }
                }
                Supply::Paused if is_needed => {
                    layer.supply = Supply::Resuming(now);
                    change.resumed.push(place);
                }
                Supply::Resuming(since) if now.saturating_duration_since(since) >= RESUMPTION => {
                    layer.supply = Supply::Free { unneeded: None };
                    change.given_up.push(place);
                }
                Supply::Paused | Supply::Resuming(_) => {}
            }
        }
        change
    }

    /// Notes a keyframe of layer `place`. Returns whether the layer was asked for and comes again.
    pub(crate) fn take_arrival(&mut self, place: usize) -> bool {
        let Some(layer) = self.layers.get_mut(place) else {
            return false;
        };
        let is_awaited = matches!(layer.supply, Supply::Resuming(_));
        if is_awaited {
            layer.supply = Supply::Free { unneeded: None };
            layer.is_alive = true;
        }
        is_awaited
    }

    /// Returns whether layer `place` is paused. Frames of it are still on their way.
    pub(crate) fn is_paused(&self, place: usize) -> bool {
        let layer = self.layers.get(place);
        layer.is_some_and(|it| it.supply == Supply::Paused)
    }

    /// Returns why layer `place` does not come, with the bitrate that it had.
    pub(crate) fn absence(&self, place: usize) -> Option<(LayerAbsence, Bitrate)> {
        let layer = self.layers.get(place).filter(|it| it.is_absent())?;
        Some((LayerAbsence::Paused, layer.rate))
    }

    /// Returns the best layer that comes, or would if somebody needed it; `None` while no layer is paused.
    pub(crate) fn best(&self) -> Option<usize> {
        let places = self.layers.iter().enumerate();
        let available = places.filter(|(_, it)| it.is_alive || it.is_absent());
        let best = available.max_by_key(|(_, it)| it.rate);
        best.map(|(place, _)| place).filter(|_| self.has_absent())
    }

    fn has_absent(&self) -> bool {
        self.layers.iter().any(LayerSupply::is_absent)
    }

    /// Returns the layer with the lowest bitrate of those that come, or would come.
    fn lowest(&self) -> Option<usize> {
        let places = self.layers.iter().enumerate();
        let available = places.filter(|(_, it)| it.is_alive || it.is_absent());
        let lowest = available.min_by_key(|(_, it)| it.rate);
        lowest.map(|(place, _)| place)
    }

    fn measure(&mut self, needs: &[LayerNeed], rate: impl Fn(usize) -> Bitrate, now: Instant) {
        let is_due = |at| now.saturating_duration_since(at) >= MEASUREMENTS;
        let is_due = self.measured.is_none_or(is_due);
        if is_due {
            self.measured = Some(now);
        }
        for (place, (layer, need)) in self.layers.iter_mut().zip(needs).enumerate() {
            layer.is_alive = need.is_alive;
            if need.is_alive && (is_due || layer.rate == Bitrate::default()) {
                layer.rate = rate(place);
            }
        }
    }
}

impl LayerSupply {
    /// Returns whether the layer does not come because it was paused.
    const fn is_absent(&self) -> bool {
        matches!(self.supply, Supply::Paused | Supply::Resuming(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HIGH: usize = 0;
    const MIDDLE: usize = 1;
    const LOW: usize = 2;

    struct Publisher {
        start: Instant,
        pauses: LayerPauses,
        needed: [bool; 3],
        sent: [bool; 3],
        is_heard: bool,
    }

    impl Publisher {
        fn new() -> Self {
            Self {
                start: Instant::now(),
                pauses: LayerPauses::new(3),
                needed: [false; 3],
                sent: [true; 3],
                is_heard: true,
            }
        }

        /// Looks every 50 ms from `from` to `to`; returns the changes with their times.
        fn run(&mut self, from: u64, to: u64) -> Vec<(u64, PauseChange)> {
            let mut changes = Vec::new();
            for ms in (from..to).step_by(50) {
                let now = self.start + Duration::from_millis(ms);
                let needs = [0, 1, 2].map(|place| LayerNeed {
                    is_needed: self.needed[place],
                    is_alive: self.sent[place] && self.pauses.absence(place).is_none(),
                });
                let rate = |place| Bitrate::from_bps([2_500_u64, 700, 150][place] * 1_000);
                let change = self.pauses.look(&needs, self.is_heard, rate, now);
                if !change.is_empty() {
                    changes.push((ms, change));
                }
            }
            changes
        }
    }

    fn paused(places: &[usize]) -> PauseChange {
        PauseChange {
            paused: places.to_vec(),
            ..PauseChange::default()
        }
    }

    fn resumed(places: &[usize]) -> PauseChange {
        PauseChange {
            resumed: places.to_vec(),
            ..PauseChange::default()
        }
    }

    #[test]
    fn all_but_the_lowest_layer_pause_after_five_seconds_and_come_back_at_once() {
        let mut publisher = Publisher::new();
        assert_eq!(publisher.pauses.best(), None, "the frames tell");
        let changes = publisher.run(0, 20_000);
        assert_eq!(changes, [(5_000, paused(&[HIGH, MIDDLE]))]);
        assert_eq!(publisher.pauses.best(), Some(HIGH), "it would come");
        let (absence, rate) = publisher.pauses.absence(HIGH).expect("paused");
        assert_eq!((absence, rate.bps()), (LayerAbsence::Paused, 2_500_000));
        assert_eq!(publisher.pauses.absence(LOW), None);
        publisher.needed[HIGH] = true;
        assert_eq!(publisher.run(20_000, 20_200), [(20_000, resumed(&[HIGH]))]);
        assert!(publisher.pauses.absence(HIGH).is_some() && !publisher.pauses.is_paused(HIGH));
        assert!(publisher.pauses.take_arrival(HIGH));
        assert!(!publisher.pauses.take_arrival(HIGH), "once");
        assert_eq!(publisher.pauses.absence(HIGH), None);
        assert_eq!(publisher.run(20_200, 40_000), []);
        publisher.needed[HIGH] = false;
        assert_eq!(publisher.run(40_000, 60_000), [(45_000, paused(&[HIGH]))]);
    }

    #[test]
    fn a_layer_that_is_needed_every_few_seconds_goes_on() {
        let mut publisher = Publisher::new();
        publisher.needed[MIDDLE] = true;
        for second in 0..30 {
            publisher.needed[HIGH] = second % 5 == 4;
            assert_eq!(publisher.run(second * 1_000, (second + 1) * 1_000), []);
        }
    }

    #[test]
    fn a_publisher_that_does_not_listen_any_more_sends_everything() {
        let mut publisher = Publisher::new();
        publisher.is_heard = false;
        assert_eq!(publisher.run(0, 20_000), []);
        assert_eq!(publisher.pauses.deadline(false), None, "no cost");
        publisher.is_heard = true;
        publisher.run(20_000, 26_000);
        assert!(publisher.pauses.is_paused(HIGH));
        publisher.is_heard = false;
        let changes = publisher.run(26_000, 26_100);
        assert_eq!(changes, [(26_000, resumed(&[HIGH, MIDDLE]))]);
        assert!(publisher.pauses.deadline(false).is_some(), "it may give up");
    }

    #[test]
    fn a_layer_that_does_not_come_back_is_one_that_the_publisher_does_not_send() {
        let mut publisher = Publisher::new();
        publisher.run(0, 6_000);
        publisher.needed[HIGH] = true;
        publisher.sent[HIGH] = false;
        let given_up = PauseChange {
            given_up: vec![HIGH],
            ..PauseChange::default()
        };
        let changes = publisher.run(6_000, 12_000);
        assert_eq!(changes, [(6_000, resumed(&[HIGH])), (9_000, given_up)]);
        assert_eq!(publisher.pauses.best(), Some(MIDDLE));
    }

    /// A browser stops layers as its path narrows, also the lowest one if it likes.
    #[test]
    fn the_next_layer_stands_for_the_lowest_one_that_ended() {
        let mut publisher = Publisher::new();
        publisher.run(0, 6_000);
        publisher.sent[LOW] = false;
        let changes = publisher.run(6_000, 6_100);
        assert_eq!(changes, [(6_000, resumed(&[MIDDLE]))], "never nothing");
    }

    #[test]
    fn a_layer_that_its_publisher_does_not_send_is_not_paused() {
        let mut publisher = Publisher::new();
        publisher.sent[HIGH] = false;
        let changes = publisher.run(0, 20_000);
        assert_eq!(changes, [(5_000, paused(&[MIDDLE]))]);
        assert_eq!(publisher.pauses.absence(HIGH), None);
    }
}
