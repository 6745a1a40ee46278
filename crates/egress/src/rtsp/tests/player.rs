//! Tests of a player's position in the ring, and of the decision when it skips.

use super::*;
use crate::rtsp::cursor::LagOutcome;

#[test]
fn a_player_gets_each_track_from_an_entry_that_a_decoder_can_start_with() {
    let mut stream = Stream::new(BOUNDS);
    stream.film(0, 2);
    stream.film(80, 2);
    let begin = |anchored| Cursor::begin(&stream.ring, both(), anchored, stream.start).position();
    assert_eq!((begin(true), begin(false)), (2, 4));
    let mut cursor = Cursor::begin_at(1, both(), stream.start);
    stream.report(AUDIO, 150);
    stream.push(AUDIO, 160, true, 50);
    stream.report(AUDIO, 170);
    let first_of = |cursor: &Cursor, track| {
        let entry = cursor.first_of(&stream.ring, track);
        entry.map(|entry| entry.at.duration_since(stream.start))
    };
    assert_eq!(first_of(&cursor, VIDEO), Some(ms(80)));
    assert_eq!(first_of(&cursor, AUDIO), Some(ms(160)));
    let taken: Vec<_> = stream
        .ring
        .since(0)
        .filter(|(_, entry)| cursor.takes(entry))
        .map(|(number, _)| number)
        .collect();
    // Entry 0 is a keyframe, too; the caller begins at the cursor's position.
    assert_eq!(
        taken,
        [0, 1, 2, 3, 5, 6],
        "no report before its track begins"
    );
    assert!(!cursor.is_waiting());
    let mut late = Cursor::begin_at(1, both(), stream.start);
    let taken: Vec<_> = stream.ring.since(1).map(|(_, it)| late.takes(it)).collect();
    assert_eq!(taken, [false, true, true, false, true, true]);
    let mut silent = Cursor::begin_at(0, [VIDEO].into_iter().collect(), stream.start);
    let taken = stream
        .ring
        .since(0)
        .filter(|(_, it)| silent.takes(it))
        .count();
    assert_eq!(taken, 4, "a track that is not set up is not sent");
}

#[test]
fn tracks_come_and_go_while_a_player_plays() {
    let mut stream = Stream::new(BOUNDS);
    stream.film(0, 2);
    stream.push(AUDIO, 80, true, 50);
    let video: TrackSet = [VIDEO].into_iter().collect();
    let mut cursor = Cursor::begin_at(0, video, stream.start);
    let takes = |cursor: &mut Cursor, number| cursor.takes(stream.ring.get(number).expect("there"));
    assert!(takes(&mut cursor, 0));
    assert!(!takes(&mut cursor, 2));
    cursor.add(both());
    assert!(cursor.is_waiting(), "the new track waits");
    assert!(takes(&mut cursor, 1), "the old one goes on");
    assert!(takes(&mut cursor, 2));
    assert!(!cursor.is_waiting());
    cursor.keep([AUDIO].into_iter().collect());
    assert!(!takes(&mut cursor, 0) && takes(&mut cursor, 2));
    cursor.add(both());
    cursor.keep([AUDIO].into_iter().collect());
    assert!(!cursor.is_waiting(), "what is dropped waits for nothing");
    let high = TrackIndex(TRACKS_MAX);
    let set: TrackSet = [high].into_iter().collect();
    assert!(set.is_empty() && !set.contains(high));
    let last = TrackIndex(TRACKS_MAX - 1);
    let set: TrackSet = [last].into_iter().collect();
    assert!(set.contains(last) && !set.contains(VIDEO));
}

#[test]
fn a_late_player_skips_to_a_keyframe_ahead_and_else_goes_on() {
    let mut stream = Stream::new(BOUNDS);
    stream.film(0, 5);
    let mut cursor = Cursor::begin_at(0, both(), stream.start);
    let (on_time, late) = (stream.at(500), stream.at(501));
    assert_eq!(cursor.lag(&stream.ring, on_time), ms(500));
    let checked = cursor.check_lag(&stream.ring, &BUDGET, on_time);
    assert_eq!(checked, LagOutcome::Steady);
    let checked = cursor.check_lag(&stream.ring, &BUDGET, late);
    assert_eq!(checked, LagOutcome::Steady, "no keyframe is ahead");
    assert_eq!(cursor.position(), 0);
    stream.push(AUDIO, 200, true, 50);
    stream.film(480, 2);
    cursor.pass_to(1);
    let mut video = Cursor::begin_at(1, [VIDEO].into_iter().collect(), stream.start);
    let checked = video.check_lag(&stream.ring, &BUDGET, stream.at(600));
    assert_eq!(checked, LagOutcome::Skipped(4), "audio was not to be sent");
    let checked = cursor.check_lag(&stream.ring, &BUDGET, stream.at(600));
    assert_eq!(checked, LagOutcome::Skipped(5));
    assert_eq!(
        (cursor.position(), cursor.skips(), cursor.skipped()),
        (6, 1, 5)
    );
    assert!(cursor.is_waiting());
    assert_eq!(cursor.lag(&stream.ring, stream.at(600)), Duration::ZERO);
    let checked = cursor.check_lag(&stream.ring, &BUDGET, stream.at(1_100));
    assert_eq!(checked, LagOutcome::Steady, "lag counts from the skip");
    let end = stream.ring.end();
    cursor.advance(end, &stream.ring);
    let lag = cursor.lag(&stream.ring, stream.at(5_000));
    assert_eq!(lag, Duration::ZERO, "nothing waits");
}

#[test]
fn a_player_whose_entry_is_gone_goes_on_at_the_keyframe_or_the_end() {
    let mut stream = Stream::new(Bounds {
        span: ms(100),
        ..BOUNDS
    });
    // Entries of video leave by age where no keyframe of the anchor holds them.
    stream.ring.set_anchor(AUDIO);
    stream.film(0, 5);
    stream.ring.set_anchor(VIDEO);
    assert_eq!(stream.ring.first(), 2);
    let mut cursor = Cursor::begin_at(0, both(), stream.start);
    let checked = cursor.check_lag(&stream.ring, &BUDGET, stream.at(160));
    assert_eq!(
        checked,
        LagOutcome::Skipped(5),
        "two are gone, three waited"
    );
    assert_eq!(cursor.position(), 5);
    stream.film(200, 1);
    stream.push(VIDEO, 280, false, 100);
    stream.push(VIDEO, 299, false, 100);
    let mut cursor = Cursor::begin_at(0, both(), stream.start);
    let checked = cursor.check_lag(&stream.ring, &BUDGET, stream.at(299));
    assert_eq!(checked, LagOutcome::Skipped(5));
    assert_eq!(cursor.position(), 5, "the keyframe");
}

#[test]
fn a_player_that_skips_again_and_again_is_too_slow() {
    for catches_up in [true, false] {
        let mut stream = Stream::new(BOUNDS);
        stream.film(0, 1);
        let mut cursor = Cursor::begin_at(0, both(), stream.start);
        let mut outcomes = Vec::new();
        for round in 1..=3_u64 {
            stream.push(VIDEO, round * 1000, true, 100);
            let now = stream.at(round * 1000);
            if catches_up {
                let end = stream.ring.end();
                cursor.advance(end, &stream.ring);
                cursor.pass_to(end - 2);
            }
            let outcome = cursor.check_lag(&stream.ring, &BUDGET, now);
            outcomes.push(outcome);
        }
        let third = if catches_up {
            LagOutcome::Skipped(1)
        } else {
            LagOutcome::TooSlow
        };
        let skipped = LagOutcome::Skipped(1);
        assert_eq!(outcomes, [skipped, skipped, third], "{catches_up}");
    }
}
