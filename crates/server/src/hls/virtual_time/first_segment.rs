//! The time from the first request for a stream until its playlists have media.

use super::*;

/// Longest time until the playlists have media of a stream that runs. A frame is shown within 1.5 s then,
/// although players load three files first.
const SOON: Duration = Duration::from_millis(500);

/// Has a stream written from `asked` on. Returns the time until all playlists have a segment.
fn until_playable(frames: &[Sent], asked: Duration) -> (Duration, Scene) {
    let mut scene = Scene::new();
    let mut publisher = scene.publish(camera_tracks());
    let (before, behind): (Vec<_>, Vec<_>) =
        frames.iter().cloned().partition(|it| it.arrives <= asked);
    scene.play(&mut publisher, &before);
    scene.pass_until(asked);
    scene.now = asked;
    scene.watch();
    for frame in behind {
        scene.play(&mut publisher, &[frame]);
        let watched = scene.watched.as_ref().expect("it is watched");
        if watched.followed.len() == 2 && scene.multivariant().is_some() {
            return (scene.now - asked, scene);
        }
    }
    panic!("there is no segment");
}

#[tokio::test]
async fn the_first_segment_begins_with_the_keyframe_that_the_hub_has() {
    for group in [1, 2, 4, 10] {
        let group = Duration::from_secs(group);
        let frames = camera(steady(ms(40), ms(0), group * 2 + ms(9000)), group);
        for phase in [0.01, 0.3, 0.6, 0.99] {
            let asked = group + group.mul_f64(phase);
            let (waited, scene) = until_playable(&frames, asked);
            println!("keyframes each {group:?}, asked at {phase}: {waited:?}");
            assert!(waited <= SOON, "{group:?} at {phase}: {waited:?}");
            let first = &scene.playlist("video0").segments[0];
            assert!(first.parts[0].is_independent);
            let behind = scene.playlist("video0").duration();
            assert!(behind + ms(500) >= asked - group, "{behind:?}");
        }
    }
}

#[tokio::test]
async fn of_a_source_that_has_just_begun_a_few_frames_are_awaited() {
    for rate in [5, 25, 60] {
        let times = steady(Duration::from_secs(1) / rate, ms(1000), ms(8000));
        let mut frames = camera(times, ms(2000));
        frames.retain(|it| it.arrives >= ms(1000));
        let (waited, scene) = until_playable(&frames, ms(900));
        println!("{rate} frames a second: {waited:?}");
        assert!(waited <= ms(1000), "{rate} a second: {waited:?}");
        let target = scene.playlist("video0").part_target;
        let expected = if rate == 25 { ms(260) } else { ms(216) };
        assert_eq!(target, Some(expected), "{rate} a second");
    }
}

#[tokio::test]
async fn video_does_not_wait_for_audio_that_is_announced_and_does_not_come() {
    let mut frames = camera(steady(ms(40), ms(0), ms(9000)), ms(2000));
    frames.retain(|it| it.track == 0);
    let mut scene = Scene::new();
    let mut publisher = scene.publish(camera_tracks());
    let (before, behind) = frames.split_at(100);
    scene.play(&mut publisher, before);
    scene.watch();
    scene.play(&mut publisher, behind);
    let watched = scene.watched.as_ref().expect("it is watched");
    let patience = Duration::from_secs(60);
    let began = Instant::now();
    let playlist = watched.broadcast.multivariant(patience, "P", "").await;
    let waited = began.elapsed();
    assert!(playlist.is_some_and(|it| it.contains("P/video0.m3u8")));
    assert!(waited < ms(10_000), "{waited:?}");
}
