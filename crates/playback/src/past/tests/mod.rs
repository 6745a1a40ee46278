mod of_servers;

use std::sync::mpsc;
use std::time::{Instant, UNIX_EPOCH};

use glassline_hub::Wake;
use glassline_ingest::library::{NextFrame, Play, SourceError};
use glassline_media::{Kind, MediaUnit};

use super::*;
use crate::tests::{Recorded, at};

fn place(seconds: f64) -> MediaTime {
    position(at(seconds))
}

/// A frame of video as a test compares it, in seconds of the test.
#[derive(Clone, Copy, Debug)]
struct Seen {
    position: f64,
    decode_ns: i64,
    keyframe: bool,
    after_loss: bool,
}

/// The frames of a recorded stream, begun at a second of the test.
struct PlayedPast(Box<dyn FrameSource>, Vec<Track>);

impl PlayedPast {
    async fn begin(recorded: &Recorded, seconds: f64) -> Self {
        Self::of(&recorded.playback, recorded.subject(), seconds).await
    }

    async fn of(playback: &Playback, of: Subject, seconds: f64) -> Self {
        let from = playback.past(of, at(seconds));
        let past = from.await.expect("footage").past;
        let beginning = tokio::task::spawn_blocking(move || {
            let tracks = past.tracks.clone();
            let mut source = past.frames(true);
            let key = source.beginning(place(seconds), false).expect("footage");
            source.seek(key.expect("a keyframe")).expect("the keyframe");
            Self(source, tracks)
        });
        beginning.await.expect("no panic")
    }

    fn next(&mut self) -> Option<Seen> {
        loop {
            match self.0.next_frame().expect("good files") {
                NextFrame::Frame { frame, position } => {
                    if self.1[frame.track.get()].kind() != Kind::Video {
                        continue;
                    }
                    let zero = place(0.0);
                    return Some(Seen {
                        position: (position.nanos() - zero.nanos()) as f64 / 1e9,
                        decode_ns: frame.decode_time.nanos(),
                        keyframe: frame.keyframe,
                        after_loss: frame.after_loss,
                    });
                }
                NextFrame::Later => panic!("nothing is written to the files"),
                NextFrame::End => return None,
            }
        }
    }

    fn rest(&mut self) -> Vec<Seen> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

/// Asserts that frames are decoded one after the other, without a gap.
fn is_seamless(frames: &[Seen]) {
    for pair in frames.windows(2) {
        let step_ms = (pair[1].decode_ns - pair[0].decode_ns) / 1_000_000;
        assert!((0..=200).contains(&step_ms), "{step_ms} ms: {pair:?}");
    }
}

#[tokio::test]
async fn files_follow_one_another_and_gaps_are_skipped() {
    let recorded = Recorded::of(&[(0, 6), (60, 4)]);
    let mut source = PlayedPast::begin(&recorded, 3.2).await;
    let frames = source.rest();
    let first = frames[0];
    assert!(
        first.keyframe && first.position <= 3.2 && first.position > 2.0,
        "{first:?}"
    );
    is_seamless(&frames);
    let behind = frames
        .iter()
        .position(|it| it.position > 30.0)
        .expect("the second run");
    assert!(frames[behind].after_loss && frames[behind].keyframe);
    assert_eq!(frames.iter().filter(|it| it.after_loss).count(), 1);
    let last = frames.last().expect("frames");
    assert!((63.5..64.2).contains(&last.position), "{last:?}");
    let played = (last.decode_ns - first.decode_ns) as f64 / 1e9;
    assert!((played - (10.0 - first.position)).abs() < 0.3, "{played} s");
}

#[tokio::test]
async fn playing_begins_where_footage_begins_and_says_so_where_there_is_none() {
    let recorded = Recorded::of(&[(10, 4), (60, 4)]);
    for (asked, begins) in [(0.0, 10.0), (30.0, 60.0), (60.0, 60.0)] {
        let first = PlayedPast::begin(&recorded, asked)
            .await
            .next()
            .expect("a frame");
        assert!((first.position - begins).abs() < 0.2, "{asked}: {first:?}");
    }
    let missing = recorded.playback.past(recorded.subject(), at(100.0)).await;
    assert!(matches!(missing, Err(NoFootage::Nothing)), "{missing:?}");
    let mut source = PlayedPast::begin(&recorded, 60.0).await;
    let error = source
        .0
        .beginning(place(100.0), false)
        .expect_err("nothing is there");
    let SourceError::Nothing(why) = error else {
        panic!("{error}");
    };
    assert!(
        why.starts_with("nothing of 'cam' is recorded from 2023-11-14T22:15:00"),
        "{why}"
    );
    let last = source.0.beginning(place(100.0), true).expect("backwards");
    assert!(
        last.is_some_and(|it| it > place(61.0) && it < place(64.0)),
        "{last:?}"
    );
}

#[tokio::test]
async fn keyframes_are_found_across_a_gap_in_both_directions() {
    let recorded = Recorded::of(&[(0, 4), (100, 4)]);
    let mut source = PlayedPast::begin(&recorded, 0.0).await.0;
    let next = source
        .keyframe_after(place(3.9))
        .expect("good files")
        .expect("one");
    assert!(next >= place(99.9) && next < place(100.2), "{next:?}");
    let before = source
        .keyframe_at_or_before(place(99.0))
        .expect("good files")
        .expect("one");
    assert!(before > place(1.0) && before < place(4.0), "{before:?}");
    let before_all = MediaTime::from_nanos(place(0.0).nanos() - 1_000_000_000);
    let played = source
        .played_between(place(3.0), place(101.0))
        .expect("good files");
    assert!((played.as_secs_f64() - 2.0).abs() < 0.3, "{played:?}");
    assert_eq!(
        source.keyframe_after(place(104.5)).expect("good files"),
        None
    );
    assert_eq!(
        source
            .keyframe_at_or_before(before_all)
            .expect("good files"),
        None
    );
}

#[tokio::test]
async fn a_file_that_is_deleted_or_damaged_during_playback_is_a_gap() {
    let recorded = Recorded::of(&[(0, 12)]);
    let subject = recorded.subject();
    let range = crate::always();
    let files = subject.catalogue.files(&subject.stream, range);
    let files = files.expect("an index");
    assert!(files.len() > 3, "{files:?}");
    let mut source = PlayedPast::begin(&recorded, 0.0).await;
    source.next().expect("a frame");
    std::fs::remove_file(&files[1].path).expect("the second file");
    std::fs::write(&files[2].path, b"no MP4").expect("the third file");
    let frames = source.rest();
    is_seamless(&frames);
    let second_of = |it: SystemTime| it.duration_since(at(0.0)).expect("later").as_secs_f64();
    let gap = second_of(files[1].start) + 0.3..second_of(files[2].end()) - 0.3;
    assert!(!frames.iter().any(|it| gap.contains(&it.position)));
    assert!(frames.last().is_some_and(|it| it.position > 11.5));
}

/// Tells a test of each unit.
struct UnitNews(mpsc::Sender<()>);

impl Wake for UnitNews {
    fn wake(&self) {
        // The test may have ended.
        let _ = self.0.send(());
    }
}

#[tokio::test]
async fn a_session_plays_keyframes_fast_backwards_and_ends() {
    const SCALE: f64 = 8.0;
    let recorded = Recorded::of(&[(0, 8), (60, 4)]);
    let from = recorded.playback.past(recorded.subject(), at(0.0)).await;
    let opened = recorded
        .playback
        .open_past(from.expect("footage").past, [127, 0, 0, 1].into());
    let reading = opened.expect("a place").reading;
    let (tell, told) = mpsc::channel();
    let mut subscription = reading.stream().subscribe(Arc::new(UnitNews(tell)));
    let (begun, mut units) = (Instant::now(), Vec::<Arc<MediaUnit>>::new());
    reading.play(Play {
        from: Some(at(63.5).duration_since(UNIX_EPOCH).expect("later")),
        until: Some(at(4.0).duration_since(UNIX_EPOCH).expect("later")),
        scale: -SCALE,
        ..Play::default()
    });
    while !reading.is_over() {
        told.recv_timeout(Duration::from_secs(30)).expect("it ends");
        subscription.poll(&mut units);
    }
    let started = reading.started().expect("begun").expect("footage");
    assert_eq!((started.scale, started.speed), (-SCALE, 1.0));
    let began = instant_of(started.from);
    assert!(began <= at(63.5) && began > at(62.0), "{began:?}");
    assert!(units.iter().all(|it| it.keyframe), "keyframes alone");
    // From 63.5 s back over the gap to 4 s, that are 7.5 s of footage.
    let shown = units[units.len() - 1].time.saturating_since(units[0].time);
    let expected = 7.5 / SCALE;
    assert!((shown.as_secs_f64() - expected).abs() < 0.5, "{shown:?}");
    assert!(begun.elapsed() >= shown, "in real time");
}

#[tokio::test]
async fn the_past_of_an_address_has_a_bound() {
    let recorded = Recorded::of(&[(0, 2)]);
    let past = Past::with_tracks(recorded.subject(), Vec::new());
    let client: IpAddr = [192, 0, 2, 1].into();
    let open = || recorded.playback.open_past(past.clone(), client);
    let held: Vec<_> = (0..SESSIONS_PER_ADDRESS).map(|_| open()).collect();
    assert!(held.iter().all(Result::is_ok));
    assert!(matches!(open(), Err(NoFootage::Crowded)));
    drop(held);
    assert!(open().is_ok(), "places are given back");
}
