//! Playback from any place, at any scale.

use super::*;

#[tokio::test]
async fn a_fork_begins_with_the_keyframe_before_and_pauses() {
    let folder = Folder::new();
    let (library, _hub) = folder.library(Limits::default());
    let media_file = found(&library, "clip.h264").await;
    let keys = keyframes(&folder.0);
    let expected = keys.iter().rfind(|key| key.nanos() <= 3_200_000_000);
    let private = media_file.fork(None).expect("room");
    let mut client = Client::of(private.stream());
    private.play(Play {
        from: at(3_200),
        ..Play::default()
    });
    let started = begun(&private);
    assert_eq!(
        started.from,
        expected.expect("one").saturating_since(MediaTime::ZERO)
    );
    assert_eq!((started.scale, started.speed), (1.0, 1.0));
    client.count(4);
    assert!(client.media_units[0].keyframe);
    assert_eq!(client.media_units[0].time, started.time);
    assert_eq!(started.first_packets, [0]);
    // No unit comes while it is paused, and it continues with the next frame.
    let position = private.pause();
    let paused = client.poll();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(client.poll(), paused, "it holds");
    let last = client
        .media_units
        .last()
        .map(|media_unit| (media_unit.index, media_unit.time));
    let (index, time) = last.expect("some came");
    private.play(Play::default());
    client.count(paused + 2);
    let resumed = begun(&private);
    let next = &client.media_units[paused];
    assert_eq!(next.index, index + 1);
    assert_eq!(
        (next.time, next.first_packet),
        (resumed.time, resumed.first_packets[0])
    );
    let step = resumed.from.saturating_sub(position);
    assert!(step.as_millis().abs_diff(33) <= 1, "{step:?} of the file");
    let pause = next.time.saturating_since(time);
    assert!(
        pause >= Duration::from_millis(200),
        "{pause:?} on the stream"
    );
}

#[tokio::test]
async fn a_seek_goes_on_on_the_same_timeline() {
    let folder = Folder::new();
    let (library, _hub) = folder.library(Limits::default());
    let private = found(&library, "clip.h264")
        .await
        .fork(Some(Play::default()));
    let private = private.expect("room");
    let mut client = Client::of(private.stream());
    assert_eq!(begun(&private).from, Duration::ZERO);
    client.count(4);
    private.play(Play {
        from: at(8_000),
        ..Play::default()
    });
    let started = begun(&private);
    // The reading thread may have begun before this one looks.
    let is_new = |it: &Arc<MediaUnit>| it.first_packet >= started.first_packets[0];
    client.until("the new", |all| {
        all.iter().filter(|it| is_new(it)).count() >= 3
    });
    let before = client.media_units.iter().position(is_new).expect("it came");
    let (last, first) = (&client.media_units[before - 1], &client.media_units[before]);
    assert!(first.keyframe && first.index == last.index + 1);
    assert_eq!(
        (first.time, first.first_packet),
        (started.time, started.first_packets[0])
    );
    let step = first.time.saturating_since(last.time);
    assert!(
        step > Duration::ZERO && step < Duration::from_secs(3),
        "{step:?}"
    );
    assert!(started.from > Duration::from_secs(5) && started.from <= Duration::from_secs(8));
}

#[tokio::test]
async fn scales_show_keyframes_in_order_at_the_time_they_are_shown() {
    let folder = Folder::new();
    let (library, _hub) = folder.library(Limits::default());
    let media_file = found(&library, "clip.h264").await;
    let keys: Vec<_> = keyframes(&folder.0).into_iter().map(millis).collect();
    assert!(keys.len() >= 4, "{keys:?}");
    let played = |scale: f64, from| {
        let private = media_file.fork(None).expect("room");
        let mut client = Client::of(private.stream());
        private.play(Play {
            from: at(from),
            scale,
            ..Play::default()
        });
        let started = begun(&private);
        client.until("it ends", |_| private.is_over());
        client.poll();
        assert!(
            client.media_units.iter().all(|it| it.keyframe),
            "keyframes only"
        );
        assert!((started.scale - scale).abs() < 1e-9);
        let times = client.media_units.iter().map(|it| millis(it.time));
        (started.from.as_millis(), times.collect::<Vec<_>>())
    };
    let spaced = |keys: &[i64], scale: i64| {
        let first = keys[0];
        let shown = keys.iter().map(|key| (key - first).abs() / scale);
        shown.collect::<Vec<_>>()
    };
    let close = |got: &[i64], wanted: &[i64]| {
        let pairs = got.iter().zip(wanted);
        got.len() == wanted.len() && pairs.clone().all(|(a, b)| a.abs_diff(*b) <= 1)
    };
    let (from, times) = played(4.0, 0);
    assert_eq!(from, 0);
    assert!(close(&times, &spaced(&keys, 4)), "{times:?} {keys:?}");
    let (from, times) = played(-4.0, 9_900);
    let backwards: Vec<_> = keys.iter().rev().copied().collect();
    assert_eq!(from, u128::from(backwards[0].unsigned_abs()));
    assert!(
        close(&times, &spaced(&backwards, 4)),
        "{times:?} {backwards:?}"
    );
}

#[tokio::test]
async fn half_the_scale_shows_every_frame_for_twice_as_long() {
    let folder = Folder::new();
    let (library, _hub) = folder.library(Limits::default());
    let media_file = found(&library, "clip.h264").await;
    let play = Play {
        from: at(0),
        scale: 0.5,
        ..Play::default()
    };
    let private = media_file.fork(Some(play)).expect("room");
    begun(&private);
    let mut client = Client::of(private.stream());
    client.count(3);
    let step = client.media_units[2]
        .time
        .saturating_since(client.media_units[1].time);
    assert!(step.as_micros().abs_diff(66_667) < 10, "{step:?}");
    assert_eq!(client.media_units[2].index, client.media_units[1].index + 1);
    // A higher speed sends sooner and shows the same.
    private.play(Play {
        from: at(0),
        speed: 8.0,
        until: at(1_000),
        ..Play::default()
    });
    let began = Instant::now();
    until("it ends", || private.is_over());
    assert!(
        began.elapsed() < Duration::from_millis(900),
        "{:?}",
        began.elapsed()
    );
    client.poll();
    let video_frames = &client.media_units[client.media_units.len() - 30..];
    let shown = video_frames[29].time.saturating_since(video_frames[0].time);
    assert!(shown.as_millis().abs_diff(967) <= 1, "{shown:?}");
}

#[tokio::test]
async fn audio_has_no_scale() {
    let folder = Folder::new();
    let (library, _hub) = folder.library(Limits::default());
    let media_file = found(&library, "clip.ogg").await;
    let play = Play {
        from: at(9_800),
        scale: -4.0,
        ..Play::default()
    };
    let private = media_file.fork(Some(play)).expect("room");
    let started = begun(&private);
    assert!((started.scale - 1.0).abs() < 1e-9);
    assert_eq!(started.from, Duration::from_millis(9_800));
    until("it ends", || private.is_over());
    assert!(matches!(private.stream().state(), State::Ended { .. }));
    // The file can be played again.
    private.play(Play {
        from: at(0),
        ..Play::default()
    });
    assert_eq!(begun(&private).from, Duration::ZERO);
    assert_eq!(private.stream().state().as_str(), "live");
}
