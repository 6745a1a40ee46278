//! Sources that return as others, placeholders between them, and encodings of one source.

use glassline_hub::State;
use glassline_media::Layer;

use super::super::rendition::FileName;
use super::*;

/// Returns frames of a camera of this width from `from` until `to`, whose own clock begins at zero.
fn camera_of(width: u8, from: Duration, to: Duration) -> Vec<Sent> {
    let mut frames = camera(steady(ms(40), ms(0), to - from), ms(2000));
    for frame in &mut frames {
        frame.arrives += from;
        if frame.keyframe && frame.track == 0 {
            frame.data = Sent::video(ms(0), Some(width)).data;
        }
    }
    frames
}

/// Returns a film in H.264 with B-frames that begins at `from`.
fn film_without_audio(from: Duration) -> (Vec<Track>, Vec<Sent>) {
    let (tracks, mut frames) = film(ms(9000));
    frames.retain(|it| it.track == 0);
    frames.iter_mut().for_each(|it| it.arrives += from);
    (tracks[..1].to_vec(), frames)
}

fn down() -> State {
    State::Down {
        detail: "no route".to_owned(),
    }
}

fn discontinuities(playlist: &MediaPlaylist) -> u64 {
    let listed = playlist.segments.iter().filter(|it| it.is_discontinuity);
    playlist.discontinuity_sequence + listed.count() as u64
}

#[tokio::test]
async fn a_source_that_returns_with_another_size_or_codec_begins_a_discontinuity() {
    for (pause, has_other_codec) in [(500, false), (3000, false), (500, true), (7000, true)] {
        let case = format!("away for {pause} ms, other codec: {has_other_codec}");
        let mut scene = Scene::new();
        let mut publisher = scene.publish(camera_tracks());
        let frames = camera_of(64, ms(0), ms(8000));
        scene.play(&mut publisher, &frames[..40]);
        scene.watch();
        scene.play(&mut publisher, &frames[40..]);
        let before = discontinuities(scene.playlist("video0"));
        publisher.finish(down());
        let back = ms(8000 + pause);
        scene.pass_until(back);
        let (tracks, frames) = match has_other_codec {
            false => (camera_tracks(), camera_of(96, back, back + ms(9000))),
            true => film_without_audio(back),
        };
        let mut publisher = scene.publish(tracks);
        scene.play(&mut publisher, &frames);
        let errors = scene.errors(OF_SOURCE);
        assert!(errors.is_empty(), "{case}: {errors:#?}");
        let [video, audio] = ["video0", "audio0"].map(|it| scene.playlist(it));
        let behind = [video, audio].map(discontinuities);
        assert_eq!(behind, [before + 1; 2], "{case}: both count together");
        assert_eq!(headers(video).len(), 2, "{case}: one of each source");
        let text = scene.multivariant().expect("a Multivariant Playlist");
        let codec = if has_other_codec { "avc1." } else { "vp08." };
        assert!(text.contains(codec), "{case}: {text}");
        // Audio that is away is silent, and nobody begins with it.
        is_near_end(&scene, "audio0", "video0");
        assert_eq!(text.contains("audio0"), !has_other_codec, "{case}: {text}");
    }
}

/// Returns the names of the initializations of a playlist.
fn headers(playlist: &MediaPlaylist) -> std::collections::BTreeSet<&str> {
    let maps = playlist.segments.iter().filter_map(|it| it.map.as_deref());
    maps.filter_map(|it| it.uri.rsplit('/').next()).collect()
}

/// Returns the date of the end of a playlist, in seconds.
fn end(playlist: &MediaPlaylist) -> f64 {
    let last = playlist.segments.last().expect("a segment");
    let parts = playlist.open.parts.iter().map(|it| it.duration);
    let date = last.date_time.expect("a date").0 as f64 / 1e9;
    date + (last.duration + parts.sum::<Duration>()).as_secs_f64()
}

/// Checks that a playlist has media up to where another one has, and segments of the usual length.
fn is_near_end(scene: &Scene, name: &str, other: &str) {
    let [playlist, other] = [name, other].map(|it| scene.playlist(it));
    let newest = playlist.segments.iter().rev().take(2);
    for segment in newest {
        assert!(!segment.is_gap, "{name}");
        let is_usual = segment.duration > ms(1500) && segment.duration < ms(2500);
        assert!(is_usual, "{name}: {:?}", segment.duration);
    }
    let (found, expected) = (end(playlist), end(other));
    assert!(
        (found - expected).abs() < 0.6,
        "{name}: {found}, {expected}"
    );
}

#[tokio::test]
async fn players_of_video_and_audio_go_on_whatever_the_next_source_has() {
    let away = ms(8000);
    let of_source = |tracks: &'static [usize], is_turned: bool| {
        let mut frames = camera_of(96, away, ms(20_000));
        frames.retain(|it| tracks.contains(&it.track));
        for frame in &mut frames {
            frame.track = tracks
                .iter()
                .position(|it| *it == frame.track)
                .expect("a track");
            if is_turned {
                frame.track = 1 - frame.track;
            }
        }
        let mut described: Vec<_> = tracks
            .iter()
            .map(|it| camera_tracks()[*it].clone())
            .collect();
        if is_turned {
            described.reverse();
        }
        (described, frames)
    };
    for (case, (tracks, frames)) in [
        ("video alone", of_source(&[0], false)),
        ("audio alone", of_source(&[1], false)),
        ("audio before video", of_source(&[0, 1], true)),
    ] {
        let mut scene = Scene::new();
        let mut publisher = scene.publish(camera_tracks());
        let before = camera_of(64, ms(0), away);
        scene.play(&mut publisher, &before[..40]);
        scene.watch();
        scene.play(&mut publisher, &before[40..]);
        publisher.finish(down());
        let count = tracks.len();
        let mut publisher = scene.publish(tracks);
        scene.play(&mut publisher, &frames);
        let errors = scene.errors(&[]);
        assert!(errors.is_empty(), "{case}: {errors:#?}");
        let watched = scene.watched.as_ref().expect("it is watched");
        let names: Vec<_> = watched.followed.keys().collect();
        assert_eq!(names, ["audio0", "video0"], "{case}");
        is_near_end(&scene, "audio0", "video0");
        is_near_end(&scene, "video0", "audio0");
        let text = scene.multivariant().expect("a Multivariant Playlist");
        let announced = ["P/video0", "P/audio0"].map(|it| text.contains(it));
        let announced = announced.iter().filter(|it| **it).count();
        assert_eq!(announced, count, "{case}: {text}");
    }
}

#[tokio::test]
async fn players_of_a_layer_go_on_with_a_source_of_one() {
    let layer = |rid: &str| Layer {
        rid: rid.to_owned(),
        ..Layer::default()
    };
    let mut tracks = camera_tracks();
    tracks[0] = tracks[0].clone().with_layers(vec![layer("l"), layer("h")]);
    let mut scene = Scene::new();
    let mut publisher = scene.publish(tracks);
    let mut frames = Vec::new();
    for frame in camera_of(64, ms(0), ms(8000)) {
        for position in 0..2 {
            let mut frame = frame.clone();
            if frame.track == 0 {
                frame.layer = LayerIndex::of_encoding(position);
            } else if position == 1 {
                continue;
            }
            frames.push(frame);
        }
    }
    scene.play(&mut publisher, &frames[..80]);
    scene.watch();
    scene.play(&mut publisher, &frames[80..]);
    publisher.finish(down());
    let mut publisher = scene.publish(camera_tracks());
    scene.play(&mut publisher, &camera_of(96, ms(8000), ms(20_000)));
    let errors = scene.errors(&[]);
    assert!(errors.is_empty(), "{errors:#?}");
    for name in ["video0-1", "video0-2"] {
        is_near_end(&scene, name, "video0");
        assert_eq!(headers(scene.playlist(name)).len(), 2, "{name}");
    }
    let text = scene.multivariant().expect("a Multivariant Playlist");
    assert!(!text.contains("video0-1"), "nobody begins with it: {text}");
}

#[tokio::test]
async fn players_of_a_rung_go_on_with_a_source_of_tracks_in_another_order() {
    let layer = |rid: &str, is_made_here| Layer {
        rid: rid.to_owned(),
        is_made_here,
        ..Layer::default()
    };
    let mut tracks = camera_tracks();
    tracks[0] = tracks[0]
        .clone()
        .with_layers(vec![layer("l", true), layer("h", false)]);
    let frames = |from, to, is_turned: bool| {
        let mut frames = Vec::new();
        for frame in camera_of(64, from, to) {
            let layers: &[LayerIndex] = match frame.track {
                0 => &[LayerIndex(1), LayerIndex(2)],
                _ => &[LayerIndex::BASE],
            };
            frames.extend(layers.iter().map(|layer| Sent {
                layer: *layer,
                track: frame.track ^ usize::from(is_turned),
                ..frame.clone()
            }));
        }
        frames
    };
    let want = |scene: &Scene| {
        let watched = scene.watched.as_ref().expect("it is watched");
        watched.broadcast.want("video0-1");
    };
    let mut scene = Scene::new();
    let mut publisher = scene.publish(tracks.clone());
    let before = frames(ms(0), ms(8000), false);
    scene.play(&mut publisher, &before[..80]);
    scene.watch_with(Settings {
        // Requests come by the clock of the machine.
        idle_s: 1_000_000,
        ..Settings::default()
    });
    want(&scene);
    scene.play(&mut publisher, &before[80..]);
    publisher.finish(down());
    tracks.reverse();
    let mut publisher = scene.publish(tracks);
    let behind = frames(ms(8000), ms(20_000), true);
    scene.play(&mut publisher, &behind[..80]);
    want(&scene);
    scene.play(&mut publisher, &behind[80..]);
    let errors = scene.errors(OF_SOURCE);
    assert!(errors.is_empty(), "{errors:#?}");
    is_near_end(&scene, "video0-1", "video0-2");
    assert_eq!(headers(scene.playlist("video0-1")).len(), 2);
}

/// Returns the bytes of the newest part of a playlist.
fn newest_part(scene: &Scene, name: &str) -> Vec<u8> {
    let playlist = scene.playlist(name);
    let closed = playlist.segments.iter().flat_map(|it| &it.parts);
    let part = closed.chain(&playlist.open.parts).last().expect("a part");
    let file = part.uri.rsplit('/').next().and_then(FileName::parse);
    let watched = scene.watched.as_ref().expect("it is watched");
    let rendition = watched.broadcast.rendition(name).expect("it is written");
    let file = rendition.file(file.expect("a name")).now_or_never();
    file.expect("it is there").expect("a file").concat()
}

#[tokio::test]
async fn audio_that_pauses_beside_video_is_silent_and_comes_back() {
    // Many sources send audio a little later than the video of its time.
    for lag in [ms(0), ms(300)] {
        let mut scene = Scene::new();
        let mut publisher = scene.publish(camera_tracks());
        let mut frames = camera_of(64, ms(0), ms(24_000));
        let pause = ms(7000)..ms(14_000);
        frames.retain(|it| it.track == 0 || !pause.contains(&it.time));
        let audio = frames.iter_mut().filter(|it| it.track == 1);
        audio.for_each(|it| it.arrives += lag);
        frames.sort_by_key(|it| it.arrives);
        scene.play(&mut publisher, &frames[..40]);
        scene.watch();
        let (until, behind): (Vec<_>, Vec<_>) = frames[40..]
            .iter()
            .cloned()
            .partition(|it| it.arrives < ms(13_000));
        let is_heard = |scene: &Scene| {
            let part = newest_part(scene, "audio0");
            part.ends_with(&Sent::audio(ms(0)).data)
        };
        scene.play(&mut publisher, &until);
        is_near_end(&scene, "audio0", "video0");
        assert!(!is_heard(&scene), "{lag:?}: silence");
        scene.play(&mut publisher, &behind);
        is_near_end(&scene, "audio0", "video0");
        assert!(is_heard(&scene), "{lag:?}: it is back");
        let errors = scene.errors(OF_SOURCE);
        assert!(errors.is_empty(), "{lag:?}: {errors:#?}");
        let audio = scene.playlist("audio0").segments.iter();
        assert_eq!(audio.filter(|it| it.is_gap).count(), 0, "{lag:?}");
    }
}

#[tokio::test]
async fn another_window_of_passes_changes_the_folder_of_files_and_nothing_else() {
    let mut scene = Scene::beginning(pass::WINDOW - ms(6000));
    let mut publisher = scene.publish(camera_tracks());
    let frames = camera_of(64, ms(0), ms(16_000));
    scene.play(&mut publisher, &frames[..40]);
    scene.watch();
    scene.play(&mut publisher, &frames[40..]);
    let errors = scene.errors(&[]);
    assert!(errors.is_empty(), "{errors:#?}");
    let video = scene.playlist("video0");
    let maps = video.segments.iter().filter_map(|it| it.map.as_deref());
    let places: std::collections::BTreeSet<_> = maps.map(|it| &it.uri).collect();
    assert_eq!((headers(video).len(), places.len()), (1, 2), "{places:?}");
    assert!(video.segments.iter().all(|it| !it.is_discontinuity));
}

#[tokio::test]
async fn a_placeholder_stands_between_two_discontinuities() {
    let mut scene = Scene::new();
    let mut publisher = scene.publish(camera_tracks());
    let frames = camera_of(64, ms(0), ms(6000));
    scene.play(&mut publisher, &frames[..40]);
    scene.watch();
    scene.play(&mut publisher, &frames[40..]);
    let before = discontinuities(scene.playlist("video0"));
    publisher.finish(down());
    scene.pass_until(ms(8000));
    let silence = Duration::from_secs(2);
    let now = scene.at(scene.now);
    let begun = scene
        .stream
        .stand_in(camera_tracks(), "placeholder".to_owned(), silence, now);
    let mut placeholder = begun.expect("the source is away");
    let images = (8..14).map(|second| Sent {
        arrives: Duration::from_secs(second),
        ..Sent::video(Duration::from_secs(second - 8), Some(64))
    });
    scene.play(&mut placeholder, &images.collect::<Vec<_>>());
    let mut publisher = scene.publish(camera_tracks());
    scene.play(&mut publisher, &camera_of(64, ms(14_200), ms(22_000)));
    let errors = scene.errors(OF_SOURCE);
    assert!(errors.is_empty(), "{errors:#?}");
    for (name, of_source) in [("video0", ms(260)), ("audio0", ms(216))] {
        let playlist = scene.playlist(name);
        assert_eq!(discontinuities(playlist), before + 2, "{name}");
        assert_eq!(playlist.part_target, Some(of_source), "{name}");
    }
}

#[tokio::test]
async fn who_comes_to_a_placeholder_gets_the_source_with_short_parts() {
    let mut scene = Scene::new();
    let publisher = scene.publish(camera_tracks());
    publisher.finish(down());
    let now = scene.at(scene.now);
    let begun = scene
        .stream
        .stand_in(camera_tracks(), "placeholder".to_owned(), ms(0), now);
    let mut placeholder = begun.expect("the source is away");
    let images = (0..6).map(|second| Sent::video(Duration::from_secs(second), Some(64)));
    let images: Vec<_> = images.collect();
    scene.play(&mut placeholder, &images[..3]);
    scene.watch();
    scene.play(&mut placeholder, &images[3..]);
    let mut publisher = scene.publish(camera_tracks());
    scene.play(&mut publisher, &camera_of(64, ms(5500), ms(12_000)));
    let errors = scene.errors(OF_SOURCE);
    assert!(errors.is_empty(), "{errors:#?}");
    let target = scene.playlist("video0").part_target;
    assert_eq!(target, Some(ms(216)));
}

#[tokio::test]
async fn encodings_of_a_source_are_variants() {
    let layer = |rid: &str| Layer {
        rid: rid.to_owned(),
        ..Layer::default()
    };
    let mut tracks = camera_tracks();
    tracks[0] = tracks[0].clone().with_layers(vec![layer("l"), layer("h")]);
    let mut scene = Scene::new();
    let mut publisher = scene.publish(tracks);
    let mut frames = Vec::new();
    for (position, width) in [32, 64].into_iter().enumerate() {
        for frame in camera_of(width, ms(0), ms(12_000)) {
            // The smaller one has every other frame, and its keyframes elsewhere.
            let is_left_out = position == 0 && frame.time.as_millis() % 80 != 0;
            if frame.track == 0 && !is_left_out {
                let lag = ms(400) * u32::from(position == 0);
                frames.push(Sent {
                    layer: LayerIndex::of_encoding(position),
                    arrives: frame.arrives + lag,
                    time: frame.time + lag,
                    decode_time: frame.decode_time + lag,
                    ..frame
                });
            } else if frame.track == 1 && position == 0 {
                frames.push(frame);
            }
        }
    }
    frames.sort_by_key(|it| it.arrives);
    scene.play(&mut publisher, &frames[..100]);
    scene.watch();
    scene.play(&mut publisher, &frames[100..]);
    let errors = scene.errors(&[]);
    assert!(errors.is_empty(), "{errors:#?}");
    let text = scene.multivariant().expect("a Multivariant Playlist");
    for name in ["video0-1", "video0-2"] {
        assert!(text.contains(&format!("P/{name}.m3u8")), "{text}");
        let playlist = scene.playlist(name);
        assert!(playlist.segments.len() >= 4, "{name}");
    }
    assert!(text.contains("RESOLUTION=64x32"), "{text}");
    assert!(text.contains("RESOLUTION=32x32"), "{text}");
}
