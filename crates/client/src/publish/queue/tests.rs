use super::*;
use bytes::Bytes;
use glassline_media::MediaTime;
use proptest::prelude::*;

const VIDEO: usize = 0;
const AUDIO: usize = 1;

/// A queue with a clock.
struct Bench {
    queue: SendQueue,
    start: Instant,
    now: Instant,
}

impl Bench {
    fn new(delay_ms: u64, bytes_max: u64) -> Self {
        let start = Instant::now();
        let config = Config {
            delay_max: Duration::from_millis(delay_ms),
            bytes_max,
        };
        Self {
            queue: SendQueue::new(config, &[Kind::Video, Kind::Audio]),
            start,
            now: start,
        }
    }

    fn at(&mut self, ms: u64) {
        self.now = self.start + Duration::from_millis(ms);
    }

    fn push(&mut self, track: usize, keyframe: bool, bytes: usize) {
        let since = self.now - self.start;
        self.queue.push(
            self.now,
            Unit {
                track: TrackIndex(track),
                time: MediaTime::ZERO + since,
                keyframe,
                data: Bytes::from(vec![0; bytes]),
                made: self.now,
            },
        );
    }

    /// The next action as (track, group, first, milliseconds), or a reset's group.
    fn next(&mut self) -> Option<Result<(usize, u64, bool, i64), u64>> {
        Some(match self.queue.next(self.now)? {
            SendAction::Send { group, first, unit } => Ok((
                unit.track.get(),
                group,
                first,
                unit.time.nanos() / 1_000_000,
            )),
            SendAction::Reset { track, group } => {
                assert_eq!(track, TrackIndex(VIDEO));
                Err(group)
            }
        })
    }
}

#[test]
fn audio_goes_first_and_frames_in_order() {
    let mut it = Bench::new(1000, 1 << 20);
    it.push(VIDEO, true, 5000);
    it.at(20);
    it.push(AUDIO, true, 100);
    it.at(33);
    it.push(VIDEO, false, 1000);
    it.at(40);
    it.push(AUDIO, true, 100);
    assert_eq!(it.queue.bytes(), 6200);
    assert_eq!(it.queue.delay(it.now), Duration::from_millis(40));
    assert_eq!(it.next(), Some(Ok((AUDIO, 0, true, 20))));
    assert_eq!(it.next(), Some(Ok((AUDIO, 1, true, 40))));
    assert_eq!(it.next(), Some(Ok((VIDEO, 0, true, 0))));
    assert_eq!(it.next(), Some(Ok((VIDEO, 0, false, 33))));
    assert_eq!(it.next(), None);
    assert_eq!(
        (it.queue.bytes(), it.queue.dropped()),
        (0, Dropped::default())
    );
}

#[test]
fn nothing_is_sent_before_the_first_keyframe() {
    let mut it = Bench::new(1000, 1 << 20);
    it.push(VIDEO, false, 10);
    assert!(it.queue.take_keyframe_request());
    it.push(AUDIO, true, 10);
    it.push(VIDEO, true, 10);
    assert_eq!(it.next(), Some(Ok((AUDIO, 0, true, 0))));
    assert_eq!(it.next(), Some(Ok((VIDEO, 0, true, 0))));
    assert_eq!(it.queue.dropped().broken_units, 1);
}

#[test]
fn a_late_group_is_reset_whole_and_the_newer_one_begins() {
    let mut it = Bench::new(1000, 1 << 20);
    it.push(VIDEO, true, 10);
    it.at(100);
    it.push(VIDEO, false, 10);
    assert_eq!(it.next(), Some(Ok((VIDEO, 0, true, 0))));
    it.at(200);
    it.push(VIDEO, false, 10);
    it.at(500);
    it.push(VIDEO, true, 10);
    it.at(600);
    it.push(VIDEO, false, 10);
    it.at(1101);
    assert_eq!(it.next(), Some(Err(0)));
    assert_eq!(it.next(), Some(Ok((VIDEO, 1, true, 500))));
    assert_eq!(it.next(), Some(Ok((VIDEO, 1, false, 600))));
    assert!(!it.queue.take_keyframe_request(), "a newer one was there");
    let dropped = it.queue.dropped();
    assert_eq!(
        (dropped.late_units, dropped.resets, dropped.bytes),
        (2, 1, 20)
    );
}

#[test]
fn without_a_newer_group_a_keyframe_is_asked_for_and_waited_for() {
    let mut it = Bench::new(500, 1 << 20);
    it.push(VIDEO, true, 10);
    it.next();
    it.at(100);
    it.push(VIDEO, false, 10);
    it.at(601);
    assert_eq!(it.next(), Some(Err(0)));
    assert!(it.queue.take_keyframe_request());
    assert!(!it.queue.take_keyframe_request(), "told once");
    it.push(VIDEO, false, 10);
    assert_eq!(it.next(), None);
    assert!(
        it.queue.take_keyframe_request(),
        "and again when it does not come"
    );
    it.push(VIDEO, true, 10);
    assert_eq!(it.next(), Some(Ok((VIDEO, 1, true, 601))));
    let dropped = it.queue.dropped();
    assert_eq!((dropped.late_units, dropped.broken_units), (1, 1));
}

#[test]
fn a_stopped_network_keeps_the_newest_and_a_bound() {
    let mut it = Bench::new(1000, 1 << 20);
    for frame in 0..3000u64 {
        it.at(frame * 33);
        it.push(VIDEO, frame % 15 == 0, 1000);
        it.push(AUDIO, true, 100);
        assert!(it.queue.delay(it.now) <= Duration::from_millis(1000));
        assert!(it.queue.bytes() < 35 * 1100);
    }
    // The network is back: what comes is of the last second, from a keyframe on.
    let first = std::iter::from_fn(|| it.next()).find_map(|action| match action {
        Ok((VIDEO, _, first, ms)) => Some((first, ms)),
        _ => None,
    });
    let (first, ms) = first.expect("a frame");
    assert!(first && ms >= 2999 * 33 - 1000, "{ms}");
    assert_eq!(it.queue.dropped().resets, 0, "nothing had begun");
}

#[test]
fn too_many_bytes_cost_the_oldest_group_of_frames() {
    let mut it = Bench::new(10_000, 3000);
    it.push(AUDIO, true, 100);
    it.push(VIDEO, true, 1000);
    it.at(10);
    it.push(VIDEO, false, 1000);
    it.at(20);
    it.push(VIDEO, true, 1000);
    assert_eq!(it.next(), Some(Ok((AUDIO, 0, true, 0))));
    assert_eq!(it.next(), Some(Ok((VIDEO, 1, true, 20))));
    let dropped = it.queue.dropped();
    assert_eq!((dropped.full_units, dropped.bytes), (2, 2000));
}

#[test]
fn a_unit_larger_than_the_bound_does_not_stay() {
    let mut it = Bench::new(1000, 100);
    it.push(VIDEO, true, 101);
    assert_eq!((it.next(), it.queue.bytes()), (None, 0));
    assert!(it.queue.take_keyframe_request());
}

#[test]
fn another_transport_begins_with_a_keyframe() {
    let mut it = Bench::new(1000, 1 << 20);
    it.push(VIDEO, true, 10);
    it.next();
    it.push(VIDEO, false, 10);
    it.push(AUDIO, true, 5);
    it.queue.restart();
    assert!(it.queue.take_keyframe_request());
    it.push(VIDEO, false, 10);
    it.push(VIDEO, true, 10);
    assert_eq!(it.next(), Some(Ok((AUDIO, 0, true, 0))));
    assert_eq!(it.next(), Some(Ok((VIDEO, 1, true, 0))));
    assert_eq!((it.queue.dropped().broken_units, it.queue.bytes()), (2, 0));
}

#[test]
fn it_says_when_something_becomes_late() {
    let mut it = Bench::new(1000, 1 << 20);
    assert_eq!(it.queue.poll_timeout(), None);
    it.push(VIDEO, true, 10);
    let due = it.queue.poll_timeout().expect("a unit waits");
    it.queue.enforce(due - Duration::from_millis(1));
    assert_eq!(it.queue.dropped().units(), 0);
    it.queue.enforce(due);
    assert_eq!(it.queue.dropped().units(), 1);
    assert_eq!(it.queue.poll_timeout(), None);
}

proptest! {
    /// Whatever happens: bytes add up, bounds hold, groups come whole from their first
    /// unit on, numbers rise, and a group that was given up never comes back.
    #[test]
    fn groups_come_in_order_or_not_at_all(
        steps in prop::collection::vec((0u8..4, 0u64..300, 1usize..400, any::<bool>()), 1..200),
    ) {
        let mut it = Bench::new(700, 5000);
        let (mut pushed, mut sent, mut ms) = (0u64, 0u64, 0u64);
        let mut last: [Option<u64>; 2] = [None; 2];
        for (what, later, bytes, keyframe) in steps {
            ms += later;
            it.at(ms);
            match what {
                0 => it.push(AUDIO, true, bytes),
                1 | 2 => it.push(VIDEO, keyframe, bytes),
                _ => match it.queue.next(it.now) {
                    Some(SendAction::Send { group, first, unit }) => {
                        sent += unit.data.len() as u64;
                        let last = &mut last[unit.track];
                        prop_assert_eq!(first, Some(group) != *last);
                        prop_assert!(last.is_none_or(|last| last <= group));
                        prop_assert!(!first || unit.keyframe);
                        *last = Some(group);
                    }
                    Some(SendAction::Reset { group, .. }) => {
                        prop_assert!(last[VIDEO].is_some_and(|last| group <= last));
                        last[VIDEO] = Some(group.max(last[VIDEO].unwrap_or(0)));
                    }
                    None => {}
                },
            }
            if what < 3 {
                pushed += bytes as u64;
            }
            let dropped = it.queue.dropped();
            prop_assert_eq!(pushed, sent + dropped.bytes + it.queue.bytes());
            prop_assert!(it.queue.bytes() <= 5000);
            it.queue.enforce(it.now);
            prop_assert!(it.queue.delay(it.now) <= Duration::from_millis(700));
        }
    }
}

#[test]
fn the_lowest_layer_is_sent_first_and_the_best_is_lost_where_not_all_fit() {
    let now = Instant::now();
    let at = |ms: u64| now + Duration::from_millis(ms);
    let config = Config::of(Rule::Coupled);
    let kinds = [Kind::Video, Kind::Audio, Kind::Video];
    let mut queue = SendQueue::new(config, &kinds);
    for frame in 0..60_u64 {
        for track in 0..3 {
            queue.push(
                at(frame * 40),
                Unit {
                    track: TrackIndex(track),
                    time: MediaTime::ZERO + Duration::from_millis(frame * 40),
                    keyframe: track == 1 || frame % 25 == 0,
                    data: vec![0; 100].into(),
                    made: at(frame * 40),
                },
            );
        }
        // Two of three units fit.
        let sent = [0, 1].map(|_| match queue.next(at(frame * 40)) {
            Some(SendAction::Send { unit, .. }) => unit.track.get(),
            _ => usize::MAX,
        });
        if frame < 30 {
            assert_eq!(sent, [1, 2], "audio, then the low layer");
        }
    }
    let dropped = queue.dropped();
    assert!(dropped.late_units > 0, "{dropped:?}");
}
