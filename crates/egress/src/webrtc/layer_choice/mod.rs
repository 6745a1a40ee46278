//! The choice of the layer that a viewer gets of a track.
//!
//! ```text
//! signs of the path ─┐
//! rates of layers ───┼─► LayerChoice::decide ─► layer, reason
//! pin, size ─────────┘      └► Climb: a probe has to hold before the viewer moves up
//! ```
//!
//! The choice reads no clock and knows no session: what it measures and what it wants sent is in its
//! arguments and results.

mod chance_loss;
mod climb;
mod jitter;
mod others_queue;
mod reason;

use std::time::{Duration, Instant};

use glassline_congestion::{PathSigns, TrainRate};
use glassline_media::{Bitrate, LayerIndex, Temporal};

use chance_loss::ChanceLoss;
use climb::Climb;
pub(crate) use climb::PADDING_PACKET;
use others_queue::OthersQueue;
pub use reason::Reason;

/// Standing queue from which on a path is overloaded. Targets of controllers and jitter are below.
const QUEUE_MAX: Duration = Duration::from_millis(60);
/// Time that a frame may wait in the server before the path counts as overloaded.
const WAIT_MAX: Duration = Duration::from_millis(150);
/// Time that a frame waits where the controller lets less through than the path seems to carry.
const WAIT_LONG: Duration = Duration::from_millis(600);
/// Fewest packets in 500 ms whose rate is one of the path. Without feedback, the controller lets few
/// leave.
const PACKETS_MIN: u64 = 20;
/// Fewest lost packets, and fewest runs of them, that are no radio's: a radio loses all packets of a moment.
const LOST_MIN: u64 = 5;
const LOST_RUNS_MIN: u64 = 3;
/// Share of packets whose loss means overload: one in so many.
const LOST_ONE_IN: u64 = 10;
/// Share of packets whose loss means overload at once.
const LOST_HEAVY_ONE_IN: u64 = 3;
/// Time for which a short queue has to lose packets: a flow that begins beside the viewer overruns it for a moment.
const LOSING_MIN: Duration = Duration::from_secs(1);
/// That time where another flow keeps the queue: when it is full, all lose packets for a round trip or two.
const LOSING_OTHERS_MIN: Duration = Duration::from_millis(2_500);
/// Queue below which losses are those of a policer.
const POLICED_QUEUE_MAX: Duration = Duration::from_millis(15);
/// Time for which losses without a queue have to last: longer than they are counted, so that some moments
/// of a radio are no policer.
const LOSING_POLICED_MIN: Duration = Duration::from_millis(600);
/// Bytes of trains without which an overloaded path is measured by what arrives.
const TRAIN_SURE: u64 = 4_000;
/// Time for which a path has to be overloaded before the viewer moves down: one more feedback.
const OVERLOAD_MIN: Duration = Duration::from_millis(80);
/// Time after a switch for which losses and waiting frames are those of the layer before.
const SETTLED: Duration = Duration::from_secs(1);
/// Part of the measured rate that a lower layer may take, in percent.
const FILL_PERCENT: u64 = 90;
/// Share that headers add to a layer's payload, in percent, and the rate of audio beside it, in bit/s.
const HEADERS_PERCENT: u64 = 6;
const AUDIO_BPS: u64 = 30_000;

/// A layer with its temporal layers up to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    /// Index of the layer among those of its track.
    pub(crate) layer: LayerIndex,
    /// Highest temporal layer whose frames the viewer gets.
    pub(crate) temporal: u8,
}

impl Selection {
    /// Returns a layer with all of its temporal layers.
    pub(crate) const fn whole(layer: LayerIndex) -> Self {
        Self {
            layer,
            temporal: Temporal::LAYER_MAX,
        }
    }
}

/// A layer that a viewer may get, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rung {
    pub(crate) selection: Selection,
    /// Payload rate of the layer.
    pub(crate) rate: Bitrate,
    /// Height of the picture, if known; `None` for a part of a layer, which nobody gets for a small picture.
    pub(crate) height: Option<u32>,
}

impl Rung {
    /// Returns the rate of datagrams that a viewer of the layer gets.
    pub(crate) fn cost(&self) -> Bitrate {
        let bps = self.rate.bps();
        Bitrate::from_bps(bps + bps * HEADERS_PERCENT / 100 + AUDIO_BPS)
    }
}

/// The request of a viewer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerRequest {
    /// Layer that the viewer gets whatever its path carries, the base layer for the best one; `None` to choose
    /// by the path.
    pub pin: Option<LayerIndex>,
    /// Height of the element that shows the picture, in pixels.
    pub height: Option<u32>,
}

/// Everything that a decision rests on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation<'a> {
    /// Layers that are alive, those with lower rates first.
    pub(crate) rungs: &'a [Rung],
    /// Signs of the path.
    pub(crate) signs: PathSigns,
    /// Time that the frame which leaves next has waited.
    pub(crate) waited: Duration,
    /// Bytes that were sent so far.
    pub(crate) sent: u64,
    /// Whether the session can send padding.
    pub(crate) may_probe: bool,
    pub(crate) now: Instant,
}

/// Chooses one track's layer for one viewer.
#[derive(Debug)]
pub(crate) struct LayerChoice {
    selection: Selection,
    since: Instant,
    reason: Reason,
    pub(crate) request: LayerRequest,
    /// Since when the path has been overloaded, and since when it has lost packets.
    overloaded: Option<Instant>,
    losing: Option<Instant>,
    others: OthersQueue,
    chance: ChanceLoss,
    climb: Climb,
}

impl LayerChoice {
    /// Begins on `layer`.
    pub(crate) fn new(layer: LayerIndex, now: Instant) -> Self {
        Self {
            selection: Selection::whole(layer),
            since: now,
            reason: Reason::Best,
            request: LayerRequest::default(),
            overloaded: None,
            losing: None,
            others: OthersQueue::default(),
            chance: ChanceLoss::default(),
            climb: Climb::new(now),
        }
    }

    /// Returns the layer that the viewer should get.
    pub(crate) const fn layer(&self) -> LayerIndex {
        self.selection.layer
    }

    /// Returns the highest temporal layer that the viewer should get.
    pub(crate) const fn temporal(&self) -> u8 {
        self.selection.temporal
    }

    /// Returns why the viewer gets its layer.
    pub(crate) const fn reason(&self) -> Reason {
        self.reason
    }

    /// Returns the time of the last switch.
    pub(crate) const fn since(&self) -> Instant {
        self.since
    }

    /// Returns whether a probe is under way.
    pub(crate) fn is_probing(&self) -> bool {
        self.climb.probing.is_on()
    }

    /// Returns whether padding leaves now, soon, or behind the next frame.
    pub(crate) fn has_padding(&self) -> bool {
        self.climb.probing.is_due()
    }

    /// Returns the bytes of padding that leave at `now`. `sent`: bytes sent so far. `next`: number of the
    /// next packet. `follows`: whether media has just left.
    pub(crate) fn padding(&mut self, sent: u64, next: u64, follows: bool, now: Instant) -> u64 {
        self.climb.probing.due(sent, next, follows, now)
    }

    /// Decides anew. Returns whether the viewer should get another layer than before.
    pub(crate) fn decide(&mut self, situation: &Situation<'_>) -> bool {
        let Situation { rungs, now, .. } = *situation;
        let standing = situation.signs.standing;
        self.others.note(standing, now);
        if matches!(self.reason, Reason::Narrow { .. } | Reason::Held(_)) {
            self.others.watch(standing, situation.waited, now);
        }
        self.climb.jitter.note(&situation.signs);
        let situation = &Situation {
            signs: self.own_signs(situation.signs),
            ..*situation
        };
        self.climb.note(situation);
        if self.settle(rungs, now) {
            return true;
        }
        let Some((ceiling, why)) = self.ceiling(rungs) else {
            return false;
        };
        let present = |it: &Rung| it.selection == self.selection;
        let Some(place) = rungs.iter().position(present) else {
            return false;
        };
        let is_settled = now.saturating_duration_since(self.since) >= SETTLED;
        if place < ceiling && is_settled && !self.is_probing() {
            self.chance.note(&situation.signs);
        }
        let situation = &Situation {
            signs: PathSigns {
                lost: self.chance.beyond(&situation.signs),
                ..situation.signs
            },
            ..*situation
        };
        let carried = self.overload(situation, rungs[place].cost());
        if let Some(carried) = carried {
            let signs = situation.signs;
            let promises = |it: TrainRate| it.rate >= rungs[place].cost();
            if is_losing(&signs) && is_policed(&signs) && signs.train.is_some_and(promises) {
                self.climb.doubt();
            }
            self.climb.stop();
            return self.fall(rungs, place, carried, now);
        }
        if place == ceiling {
            self.reason = why;
            self.climb.rest(self.since, now);
            return false;
        }
        let ceiling = match self.others.stands() {
            // The other flow gives way to a small step, as to one of its own kind.
            true => place + 1,
            false => ceiling,
        };
        match self.climb.climb(situation, place, ceiling, self.since) {
            Some(up) => self.take(rungs[up].selection, Reason::Held(rungs[up].cost()), now),
            None => false,
        }
    }

    /// Follows the layers that are alive and the request of the viewer, whatever the path carries. Returns
    /// whether the viewer should get another layer than before.
    pub(crate) fn settle(&mut self, rungs: &[Rung], now: Instant) -> bool {
        let Some((ceiling, why)) = self.ceiling(rungs) else {
            return false;
        };
        let present = |it: &Rung| it.selection == self.selection;
        let place = rungs.iter().position(present);
        let is_free = !matches!(self.reason, Reason::Narrow { .. } | Reason::Held(_));
        let is_bound = self.request.pin.is_some() || is_free;
        match place {
            Some(place) if place <= ceiling && !is_bound => false,
            Some(place) if place == ceiling => {
                self.reason = why;
                false
            }
            _ => self.take(rungs[ceiling].selection, why, now),
        }
    }

    /// Returns the best layer that the viewer may get, and why.
    fn ceiling(&self, rungs: &[Rung]) -> Option<(usize, Reason)> {
        let best = rungs.len().checked_sub(1)?;
        if let Some(pin) = self.request.pin {
            let named = rungs.iter().rposition(|it| it.selection.layer == pin);
            // The base layer is the best one.
            if let Some(place) = named.or((pin == LayerIndex::BASE).then_some(best)) {
                return Some((place, Reason::Pinned));
            }
        }
        let Some(height) = self.request.height else {
            return Some((best, Reason::Best));
        };
        let is_enough = |it: &Rung| it.height.is_some_and(|rung| rung >= height);
        match rungs.iter().position(is_enough) {
            Some(place) if place < best => Some((place, Reason::Element(height))),
            _ => Some((best, Reason::Best)),
        }
    }

    /// Returns the signs without those of a queue of others, and of jitter: both make trains slower, but not
    /// packets that leave together.
    fn own_signs(&self, signs: PathSigns) -> PathSigns {
        match self.others.stands() || self.climb.jitter.is_large() {
            true => PathSigns {
                train: signs.burst,
                ..signs
            },
            false => signs,
        }
    }

    /// Returns what the path carries, if it is overloaded by the present layer, which costs `cost`.
    fn overload(&mut self, situation: &Situation<'_>, cost: Bitrate) -> Option<Bitrate> {
        let Situation {
            signs, waited, now, ..
        } = *situation;
        let train = signs.train.filter(|it| it.bytes >= TRAIN_SURE);
        // What feedback is missing of says less than the path carries, and makes frames wait.
        let arrived = (!signs.has_gap).then_some(signs.carried);
        let is_own = !self.others.stands();
        let stands = signs.standing >= QUEUE_MAX && is_own;
        let by_trains = train.map(|it| it.rate).or(arrived.filter(|_| stands));
        let is_settled = now.saturating_duration_since(self.since) >= SETTLED;
        let is_losing = self.is_losing(&signs, now);
        let mut carried = None;
        if stands || waited >= WAIT_MAX && is_own {
            carried = by_trains;
        }
        let is_held_back = waited >= WAIT_LONG && signs.packets >= PACKETS_MIN;
        if is_settled && (is_losing || is_held_back) {
            // Trains pass a policer as if it were not there.
            carried = arrived.map(|it| by_trains.map_or(it, |by_trains| it.min(by_trains)));
        }
        let carried = carried.filter(|it| *it < cost);
        let Some(carried) = carried else {
            self.overloaded = None;
            return None;
        };
        let since = *self.overloaded.get_or_insert(now);
        (now.saturating_duration_since(since) >= OVERLOAD_MIN).then_some(carried)
    }

    /// Returns whether losses mean that the path is overloaded.
    fn is_losing(&mut self, signs: &PathSigns, now: Instant) -> bool {
        if !is_losing(signs) {
            self.losing = None;
            return false;
        }
        let since = *self.losing.get_or_insert(now);
        let lasts = now.saturating_duration_since(since);
        if self.others.stands() {
            return lasts >= LOSING_OTHERS_MIN;
        }
        is_policed(signs) && lasts >= LOSING_POLICED_MIN
            || signs.queue >= QUEUE_MAX
            || signs.lost * LOST_HEAVY_ONE_IN >= signs.packets
            || lasts >= LOSING_MIN
    }

    /// Moves down to what the path carries.
    fn fall(&mut self, rungs: &[Rung], place: usize, carried: Bitrate, now: Instant) -> bool {
        let affordable = carried.bps() * FILL_PERCENT / 100;
        let mut lower = rungs[..place].iter();
        let below = lower.rposition(|it| it.cost().bps() <= affordable);
        let reason = Reason::Narrow {
            carried,
            needed: rungs[rungs.len() - 1].cost(),
        };
        let below = below.unwrap_or(0);
        if below == place {
            self.reason = reason;
            return false;
        }
        self.climb.fell(self.since, now);
        self.take(rungs[below].selection, reason, now)
    }

    fn take(&mut self, selection: Selection, reason: Reason, now: Instant) -> bool {
        self.reason = reason;
        if self.selection == selection {
            return false;
        }
        self.selection = selection;
        self.since = now;
        (self.overloaded, self.losing) = (None, None);
        self.others.restart();
        true
    }
}

fn is_losing(signs: &PathSigns) -> bool {
    signs.lost >= LOST_MIN
        && (signs.lost_runs >= LOST_RUNS_MIN || signs.queue >= QUEUE_MAX)
        && signs.lost * LOST_ONE_IN >= signs.packets
}

/// Returns whether the packets that are lost have met no queue.
fn is_policed(signs: &PathSigns) -> bool {
    signs.queue_at_losses < POLICED_QUEUE_MAX
}

#[cfg(test)]
mod tests;
