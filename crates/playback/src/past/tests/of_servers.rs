//! The past of two servers, played by one.

use std::sync::atomic::Ordering;

use super::*;
use crate::tests::of_servers::{Mood, SecondServer};

/// Plays what `first` and `second` have, from a second of the test on, and returns what `play` makes of it.
async fn played<T: Send + 'static>(
    first: &Recorded,
    second: &Arc<SecondServer>,
    seconds: f64,
    play: impl FnOnce(&mut PlayedPast) -> T + Send + 'static,
) -> T {
    let mut source = PlayedPast::of(&first.playback, first.with(second), seconds).await;
    // Readings may wait for other servers on threads of their own alone.
    let playing = tokio::task::spawn_blocking(move || play(&mut source));
    playing.await.expect("no panic")
}

#[tokio::test]
async fn what_two_servers_recorded_is_played_as_one_and_nothing_of_it_twice() {
    // A gap of 13 s, three seconds that both servers have, and one of which the second has all.
    for (second_start, seconds, expected) in [(20, 5, 12.0), (4, 5, 9.0), (0, 9, 9.0)] {
        let (first, second) = (
            Recorded::of(&[(0, 7)]),
            Recorded::of(&[(second_start, seconds)]),
        );
        let second = SecondServer::new(Some(&second), Mood::Answers);
        let frames = played(&first, &second, 0.0, PlayedPast::rest).await;
        is_seamless(&frames);
        // Of 25 frames a second; the second server may go on a tenth of a second before the end of the first
        // one's part.
        let most = expected * 25.0 + 3.0;
        assert!(frames.len() as f64 <= most, "{} frames", frames.len());
        let (begin, end) = (&frames[0], &frames[frames.len() - 1]);
        let length = (end.decode_ns - begin.decode_ns) as f64 / 1e9;
        assert!(
            (length - expected).abs() < 1.2,
            "{second_start}: {length} s"
        );
    }
}

#[tokio::test]
async fn a_server_without_recordings_plays_those_of_another_in_few_questions() {
    let (first, second) = (Recorded::of(&[(1000, 2)]), Recorded::of(&[(0, 12)]));
    let second = SecondServer::new(Some(&second), Mood::Answers);
    let frames = played(&first, &second, 1.0, |source| {
        source.0.seek(place(5.0)).expect("footage");
        (0..100).map_while(|_| source.next()).collect::<Vec<_>>()
    });
    let frames = frames.await;
    is_seamless(&frames);
    assert!(frames.len() == 100 && frames[0].position <= 5.0);
    // A frame is no question: of each of the two files there are the fragments and a block or two.
    let asked = second.asked.load(Ordering::Relaxed);
    assert!(asked < 40, "{asked} questions");
}

#[tokio::test]
async fn a_server_that_hangs_delays_a_session_once_and_is_named() {
    let first = Recorded::of(&[(0, 9)]);
    let second = SecondServer::new(None, Mood::Hangs);
    let begun = Instant::now();
    let frames = played(&first, &second, 0.0, PlayedPast::rest).await;
    is_seamless(&frames);
    assert!(frames.len() > 200);
    // It is asked around the beginning and around the end at the same time, for 2 s.
    let waited = begun.elapsed();
    assert!(waited < Duration::from_secs(4), "{waited:?}");
    let of = first.with(&second);
    let missing = first.playback.past(of, at(100.0)).await;
    let missing = missing.expect_err("nothing").to_string();
    assert!(
        missing.contains("the server 'second' did not answer: no answer within 2 s"),
        "{missing}"
    );
}

#[tokio::test]
async fn a_server_that_goes_away_is_left_out_or_named_where_nobody_else_has_the_rest() {
    for (has_more, ends_with) in [
        (true, None),
        (false, Some("the server 'second': no answer")),
    ] {
        let runs: &[_] = if has_more {
            &[(0, 2), (60, 4)]
        } else {
            &[(0, 2)]
        };
        let (first, second) = (Recorded::of(runs), Recorded::of(&[(3, 12)]));
        let second = SecondServer::new(Some(&second), Mood::Answers);
        let gone = Arc::clone(&second);
        let (last, error) = played(&first, &second, 0.0, move |source| {
            let mut last = source.next().expect("a frame");
            loop {
                match source.0.next_frame() {
                    Ok(NextFrame::Frame { position, .. }) => {
                        last.position = (position.nanos() - place(0.0).nanos()) as f64 / 1e9;
                        if last.position > 5.0 {
                            *gone.mood.lock().expect("no panic") = Mood::Refuses;
                        }
                    }
                    Ok(NextFrame::Later) => panic!("nothing is written to the files"),
                    Ok(NextFrame::End) => return (last.position, None),
                    Err(error) => return (last.position, Some(error.to_string())),
                }
            }
        })
        .await;
        assert_eq!(last > 60.0, has_more, "{last} s");
        match (ends_with, error) {
            (None, None) => {}
            (Some(expected), Some(error)) => assert!(error.contains(expected), "{error}"),
            other => panic!("{other:?}"),
        }
    }
}
