//! Renditions that somebody asks for while another source is there than the one that offered them.

use glassline_media::Layer;

use super::*;

/// Settings of a stream whose requests come by the clock of the machine.
fn settings() -> Settings {
    Settings {
        idle_s: 1_000_000,
        ..Settings::default()
    }
}

/// Returns the frames of [`camera`] from `from` until `to` that are of these tracks, in their order.
fn frames(tracks: &[usize], from: Duration, to: Duration) -> Vec<Sent> {
    let mut frames = camera(steady(ms(40), ms(0), to - from), ms(2000));
    frames.retain(|it| tracks.contains(&it.track));
    for frame in &mut frames {
        frame.arrives += from;
        let place = tracks.iter().position(|it| *it == frame.track);
        frame.track = place.expect("a track");
    }
    frames
}

/// Has a source sent `frames`, and the rendition asked for in their midst.
fn play_and_ask(scene: &mut Scene, tracks: Vec<Track>, frames: &[Sent], name: &str) {
    let mut publisher = scene.publish(tracks);
    let (before, behind) = frames.split_at(frames.len() / 2);
    scene.play(&mut publisher, before);
    let watched = scene.watched.as_ref().expect("it is watched");
    watched.broadcast.want(name);
    scene.play(&mut publisher, behind);
    publisher.finish(glassline_hub::State::Down {
        detail: "no route".to_owned(),
    });
}

/// Begins a scene whose source has `tracks` and ends after eight seconds.
fn offering(tracks: Vec<Track>, sent: &[Sent]) -> Scene {
    let mut scene = Scene::new();
    let mut publisher = scene.publish(tracks);
    scene.play(&mut publisher, &sent[..80]);
    scene.watch_with(settings());
    assert!(scene.multivariant().is_some(), "it offers what there is");
    scene.play(&mut publisher, &sent[80..]);
    publisher.finish(glassline_hub::State::Down {
        detail: "no route".to_owned(),
    });
    scene
}

/// Checks that the newest media of one playlist is not behind that of another.
fn keeps_up(scene: &Scene, name: &str, other: &str) {
    let end = |name: &str| {
        let playlist = scene.playlist(name);
        let last = playlist.segments.last().expect("a segment");
        assert!(!last.is_gap, "{name}");
        let parts = playlist.open.parts.iter().map(|it| it.duration);
        let date = Duration::from_nanos(last.date_time.expect("a date").0 as u64);
        date + last.duration + parts.sum::<Duration>()
    };
    let (found, expected) = (end(name), end(other));
    assert!(found.abs_diff(expected) < ms(600), "{name}: {found:?}");
}

#[tokio::test]
async fn aac_that_is_asked_for_without_audio_is_silent_until_there_is_some() {
    let aac = Track::audio(Codec::Aac, 2).with_format_parameters("config=1190");
    let [video, opus] = [0, 1].map(|it| camera_tracks()[it].clone());
    for (case, others) in [
        ("no audio", vec![video.clone()]),
        ("another codec", vec![video.clone(), aac]),
        ("the codec that AAC is made of", vec![video.clone(), opus]),
    ] {
        let mut scene = offering(camera_tracks(), &frames(&[0, 1], ms(0), ms(8000)));
        let kept: &[usize] = if others.len() == 1 { &[0] } else { &[0, 1] };
        let sent = frames(kept, ms(8000), ms(20_000));
        play_and_ask(&mut scene, others, &sent, "audio0-aac");
        keeps_up(&scene, "audio0-aac", "video0");
        let sent = frames(&[0, 1], ms(20_000), ms(30_000));
        play_and_ask(&mut scene, camera_tracks(), &sent, "audio0-aac");
        keeps_up(&scene, "audio0-aac", "video0");
        let errors = scene.errors(&[]);
        assert!(errors.is_empty(), "{case}: {errors:#?}");
    }
}

#[tokio::test]
async fn a_rung_that_is_asked_for_behind_its_source_is_the_only_layer_of_the_next() {
    let layer = |rid: &str, is_made_here| Layer {
        rid: rid.to_owned(),
        is_made_here,
        ..Layer::default()
    };
    let mut tracks = camera_tracks();
    let layers = vec![layer("l", true), layer("h", false)];
    tracks[0] = tracks[0].clone().with_layers(layers);
    let mut sent = frames(&[0, 1], ms(0), ms(8000));
    let videos = sent.iter_mut().filter(|it| it.track == 0);
    videos.for_each(|it| it.layer = LayerIndex(2));
    let mut scene = offering(tracks, &sent);
    let sent = frames(&[0, 1], ms(8000), ms(20_000));
    play_and_ask(&mut scene, camera_tracks(), &sent, "video0-1");
    keeps_up(&scene, "video0-1", "audio0");
    let errors = scene.errors(&[]);
    assert!(errors.is_empty(), "{errors:#?}");
}

#[tokio::test]
async fn a_playlist_is_waited_for_while_a_source_may_bring_it() {
    let mut scene = Scene::new();
    let publisher = scene.publish(camera_tracks());
    scene.watch_with(settings());
    let waits = |scene: &Scene, name: &str| {
        let broadcast = &scene.watched.as_ref().expect("it is watched").broadcast;
        broadcast.want(name);
        let awaited = broadcast.awaited(name, ms(12_000)).now_or_never();
        match awaited {
            None => true,
            Some(found) => {
                assert!(found.is_none(), "{name}: nothing was sent");
                false
            }
        }
    };
    for (name, is_of_source) in [
        ("video0", true),
        ("audio0", true),
        ("audio0-aac", true),
        ("video1", false),
        ("video0-1", false),
        ("nonsense", false),
    ] {
        assert_eq!(waits(&scene, name), is_of_source, "{name}");
    }
    publisher.finish(glassline_hub::State::Down {
        detail: "no route".to_owned(),
    });
    assert!(waits(&scene, "video0-1"), "the next source may have it");
}
