//! Offers what streams publish to their viewers, one viewer after the other.
//!
//! ```text
//!  keyframe ───► viewer 1 2 3 … k │ k+1 … n     a round
//!  next frame ─► viewer 1 2 3 … k ┘             at once, to those that had their turn
//!  both ───────────────────────────► k+1 … n    the rest of the round
//! ```
//!
//! With many viewers, a keyframe takes longer than a frame lasts. Units that are published meanwhile
//! do not wait for the end of the round. Viewers that had their turn get them at once, and the others
//! get them together with the keyframe.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_egress::webrtc::is_spread;
use glassline_hub::{Stream, TrackLayout};
use glassline_media::{MediaUnit, Track};
use glassline_runtime::Key;

use super::{Worker, arm};
use crate::sessions::peer::ShardContext;

/// Time after which a round lets other units pass for the first time, and again. Shorter rounds end
/// before the next frame comes.
const LOOK_INTERVAL: Duration = Duration::from_millis(6);

/// Units of one stream on the way to its viewers.
#[derive(Debug)]
struct Round {
    stream: Arc<Stream>,
    /// Units in the order in which each viewer gets them, with the time at which the shard read them.
    units: Vec<(Arc<MediaUnit>, Instant)>,
    /// Viewers in the order of their turns. A copy, because a viewer that is served in between may
    /// leave.
    viewers: Vec<Key>,
    /// Number of viewers that had their turn.
    passed: usize,
    began: Instant,
    /// Time from which on other units may pass; `None` in a round within another one.
    look_at: Option<Instant>,
    /// Time that other units took of this round.
    lent: Duration,
}

impl Round {
    /// Returns whether other units may pass at `now`. They get a third of the time at most, so that the
    /// last viewers have their turn even where frames come faster than the shard sends them.
    fn may_look(&self, now: Instant) -> bool {
        self.look_at.is_some_and(|at| at <= now)
            && self.lent * 3 <= now.saturating_duration_since(self.began)
    }
}

impl Worker {
    /// Reads every stream once and offers the new units to the stream's viewers.
    pub(super) fn publish(&mut self) {
        let mut index = 0;
        while index < self.streams.len() {
            if let Some(mut round) = self.read(index) {
                round.look_at = Some(round.began + LOOK_INTERVAL);
                self.run(&mut round);
            }
            index += 1;
        }
    }

    /// Reads the stream at `index` and closes viewers that new tracks do not suit. Returns a round of
    /// the new units, if there are any.
    fn read(&mut self, index: usize) -> Option<Round> {
        self.serving.end();
        let now = Instant::now();
        let subscription = &mut self.streams[index];
        let units = &mut self.scratch.units;
        subscription.read(units, now);
        let (changed, layout) = (subscription.take_changed(), subscription.layout());
        let is_preference_new = subscription.take_preference();
        let is_trim_due = subscription.trim_at.is_some_and(|at| at <= now);
        if units.is_empty() && changed.is_none() && !is_preference_new {
            return None;
        }
        if units.iter().any(|unit| is_spread(unit.packet_count())) {
            subscription.let_others_begin();
        }
        let round = Round {
            stream: Arc::clone(subscription.stream()),
            units: units.drain(..).map(|unit| (unit, now)).collect(),
            viewers: subscription.viewers.clone(),
            passed: 0,
            began: now,
            look_at: None,
            lent: Duration::ZERO,
        };
        if let Some(tracks) = changed {
            self.close_unfit(&round.viewers, &tracks, layout, now);
        }
        if is_preference_new {
            self.choose_layers(index, now);
        } else if is_trim_due {
            self.trim_layers(index, now);
        }
        Some(round)
    }

    /// Closes the sessions of viewers that cannot play the stream's new tracks: those who negotiated
    /// an older layout, and all if the video has B-frames.
    fn close_unfit(&mut self, keys: &[Key], tracks: &[Track], layout: TrackLayout, now: Instant) {
        for key in keys {
            let Some(peer) = self.peers.get_mut(*key) else {
                continue;
            };
            self.serving.begin(*key);
            if peer.close_if_superseded(layout, now, &self.counters)
                || peer.close_if_reordered(tracks, now, &self.counters)
            {
                self.serve(*key, now);
            }
        }
    }

    /// Offers the units of `round` to the viewers that had no turn yet.
    ///
    /// A keyframe leaves in chunks. A viewer that has begun with the keyframe goes first when its
    /// next chunk is due. With many viewers, one after the other then has the whole keyframe,
    /// instead of all of them at the very end.
    fn run(&mut self, round: &mut Round) {
        let mut now = round.began;
        while let Some(key) = round.viewers.get(round.passed).copied() {
            round.passed += 1;
            if let Some(next) = round.viewers.get(round.passed)
                && let Some(next) = self.peers.get_mut(*next)
            {
                std::hint::black_box(next.prefetch());
            }
            let Some(peer) = self.peers.get_mut(key) else {
                continue;
            };
            self.serving.begin(key);
            for (unit, read_at) in &round.units {
                peer.offer(unit, *read_at, &self.counters);
            }
            let mut context = ShardContext {
                key,
                outbox: &mut self.outbox,
                counters: &self.counters,
                leaving: &mut self.scratch.leaving,
                control: &mut self.scratch.control,
                latencies: &self.shared.latencies,
            };
            peer.flush(now, &mut context);
            arm(peer, key, now, &mut self.timers, &self.outbox);
            if self.outbox.is_ripe() {
                now = self.dispatch();
                if self.timers.next().is_some_and(|at| at <= now) {
                    self.expire();
                    now = Instant::now();
                }
                if round.may_look(now) {
                    self.let_pass(round, now);
                    now = Instant::now();
                }
            }
        }
        self.dispatch();
    }

    /// Offers units that were published during `round`: those of its stream to the viewers that had
    /// their turn, and those of other streams to all of their viewers. The rest of the round has the
    /// stream's units, too.
    fn let_pass(&mut self, round: &mut Round, now: Instant) {
        if self.waker.is_pending() {
            let mut index = 0;
            while index < self.streams.len() {
                if let Some(mut other) = self.read(index) {
                    if Arc::ptr_eq(&other.stream, &round.stream) {
                        other.viewers = round.viewers[..round.passed].to_vec();
                        round.units.extend_from_slice(&other.units);
                    }
                    self.run(&mut other);
                }
                index += 1;
            }
        }
        let passed = Instant::now();
        round.lent += passed.saturating_duration_since(now);
        round.look_at = Some(passed + LOOK_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::super::IDLE;
    use super::super::fuzzing::{Scene, in_scene};
    use super::super::tests::{connect, push};
    use super::*;

    fn received(scene: &mut Scene) -> [u64; 2] {
        scene.workers[0].dispatch();
        [0, 1].map(|client| {
            scene.receive(client);
            scene.received(client)
        })
    }

    #[test]
    fn a_unit_that_comes_during_a_round_does_not_wait_for_the_last_viewers() {
        in_scene(|scene| {
            let viewers = [connect(scene, 0, 0), connect(scene, 1, 0)];
            let [first, second] = received(scene);
            push(scene, 1, 1);
            let worker = &mut scene.workers[0];
            worker
                .waker
                .wait(&mut worker.poll, &mut worker.events, IDLE);
            let mut round = worker.read(0).expect("a unit");
            round.viewers = viewers[..1].to_vec();
            worker.run(&mut round);
            assert_eq!(received(scene), [first + 1, second]);
            round.viewers = viewers.to_vec();
            let now = Instant::now();
            assert!(!round.may_look(now), "a short round");
            round.look_at = Some(now);
            assert!(round.may_look(now));
            scene.workers[0].let_pass(&mut round, now);
            assert_eq!(received(scene), [first + 1, second], "nothing new");
            push(scene, 2, 1);
            scene.workers[0].let_pass(&mut round, now);
            assert_eq!(
                received(scene),
                [first + 2, second],
                "the first viewer has both"
            );
            scene.workers[0].run(&mut round);
            assert_eq!(
                received(scene),
                [first + 2, second + 2],
                "in order, both at once"
            );
            scene.workers[0].publish();
            assert_eq!(received(scene), [first + 2, second + 2], "nothing twice");
        });
    }

    #[test]
    fn units_that_pass_a_round_get_a_third_of_the_time() {
        in_scene(|scene| {
            connect(scene, 0, 0);
            push(scene, 1, 1);
            let mut round = scene.workers[0].read(0).expect("a unit");
            let ms = |ms| round.began + Duration::from_millis(ms);
            let at = [ms(30), ms(31)];
            round.look_at = Some(round.began);
            round.lent = Duration::from_millis(10);
            assert!(round.may_look(at[0]));
            round.lent = Duration::from_millis(11);
            assert!(!round.may_look(at[1]));
            round.look_at = None;
            round.lent = Duration::ZERO;
            assert!(!round.may_look(at[1]), "a round within another one");
        });
    }

    #[test]
    fn each_large_frame_begins_with_another_viewer() {
        in_scene(|scene| {
            let viewers = [connect(scene, 0, 0), connect(scene, 1, 0)];
            let order = |scene: &mut Scene, packets: usize| {
                push(scene, 1, packets);
                scene.workers[0].read(0).expect("a unit").viewers
            };
            assert_eq!(order(scene, 29), viewers, "a frame that leaves at once");
            let [first, second] = viewers;
            assert_eq!(order(scene, 30), [second, first]);
            assert_eq!(order(scene, 1), [second, first], "the order stays");
            assert_eq!(order(scene, 60), [first, second]);
        });
    }
}
