//! Lower encodings of the video, each from an input of its own, played in step with the main one.

use std::sync::Arc;

use glassline_media::{Kind, Track, TrackIndex};

use super::{Error, SourceContext, SourceControl, SourceControls};
use crate::publish::input::{Input, Spec};

/// Most layers beside the main input: servers take four encodings of a video.
const LAYERS_MAX: usize = 3;

/// Starts the threads of the layers of `spec`, and appends their tracks.
pub(super) fn play(
    spec: &Spec,
    context: &SourceContext,
    tracks: &mut Vec<Track>,
    controls: &mut SourceControls,
) -> Result<(), Error> {
    let has_video = tracks.first().is_some_and(|it| it.kind() == Kind::Video);
    for (place, input) in spec.layers.iter().enumerate() {
        let refused = |why| Error::Layer {
            name: shown(input),
            why,
        };
        if !has_video {
            return Err(refused("the input has no video"));
        }
        if place == LAYERS_MAX {
            return Err(refused("a video has at most three layers beside the input"));
        }
        let of_layer = SourceContext {
            control: Arc::new(SourceControl::new(spec.start)),
            video: TrackIndex(tracks.len()),
            ..context.clone()
        };
        let spec = Spec {
            input: input.clone(),
            audio: None,
            rungs: Vec::new(),
            layers: Vec::new(),
            ..spec.clone()
        };
        let (video, adapts) = super::play(&spec, &of_layer)?;
        if video.is_empty() {
            return Err(refused("the file has no video"));
        }
        controls.add(of_layer.control, adapts, &video);
        tracks.extend(video);
    }
    Ok(())
}

fn shown(input: &Input) -> String {
    match input {
        Input::Files { paths, .. } => {
            let paths = paths.iter().map(|it| it.display().to_string());
            paths.collect::<Vec<_>>().join(",")
        }
        Input::Camera(camera) => glassline_url::shown(&camera.url).to_string(),
        Input::Clip => "demo".to_owned(),
        Input::Pattern { width, height, .. } => format!("test?size={width}x{height}"),
        Input::Pipe { path } => match path {
            Some(path) => path.display().to_string(),
            None => "-".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use glassline_media::{Bitrate, Codec};

    use super::*;
    use crate::publish::source::{Event, Source, open};

    fn pattern(width: u32) -> Input {
        Input::Pattern {
            width,
            height: 64,
            fps: 30,
        }
    }

    async fn opened(input: Input, layers: Vec<Input>) -> Result<Source, Error> {
        let spec = Spec {
            input,
            fps: None,
            once: true,
            live: false,
            audio: None,
            rungs: Vec::new(),
            layers,
            start: Bitrate::from_bps(400_000),
            carries: |track| matches!(track.codec, Codec::H264 | Codec::Opus),
        };
        open(&spec).await
    }

    #[tokio::test]
    async fn layers_play_in_step_with_the_input_and_leave_its_audio_alone() {
        let source = opened(Input::Clip, vec![Input::Clip, pattern(64)]).await;
        let mut source = source.expect("two videos and audio, and a layer more");
        let kinds: Vec<_> = source.tracks.iter().map(Track::kind).collect();
        assert_eq!(kinds, [Kind::Video, Kind::Audio, Kind::Video, Kind::Video]);
        assert!(source.adapts, "the pattern does");
        let mut times = vec![Vec::new(); 4];
        while times[3].len() < 20 || times[2].len() < 20 {
            match source.events.recv().await {
                Some(Event::Unit(unit)) => times[unit.track].push(unit.time),
                other => panic!("{other:?}"),
            }
        }
        source.controls.stop();
        let shared = times[0].len().min(times[2].len());
        assert!(
            shared > 10 && times[0][..shared] == times[2][..shared],
            "{times:?}"
        );
    }

    #[tokio::test]
    async fn layers_that_do_not_fit_are_named() {
        let refused = async |input, layers| {
            let opened = opened(input, layers).await;
            opened.err().map_or_else(String::new, |it| it.to_string())
        };
        let camera = "rtsp://ann:secret@host/cam".parse().expect("a URL");
        let camera = refused(pattern(64), vec![Input::Camera(camera)]).await;
        assert!(camera.contains("--layer takes a file"), "{camera}");
        let many = refused(pattern(64), vec![pattern(64); 4]).await;
        assert!(many.starts_with("--layer test?size=64x64: "), "{many}");
        let missing = Input::Files {
            paths: vec!["/nowhere.mp4".into()],
            fps: None,
        };
        assert!(
            refused(pattern(64), vec![missing])
                .await
                .contains("nowhere.mp4")
        );
    }
}
