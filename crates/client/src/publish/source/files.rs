//! Files and the built-in clip, played in real time.

use std::path::{Path, PathBuf};

use glassline_demux::{self as demux, Demuxer};
use glassline_media::{Kind, Track, TrackIndex};

use super::{Error, SourceContext, ThreadRole};
use crate::publish::input::Spec;

static CLIP_VIDEO: &[u8] = include_bytes!("../../../../../assets/demo.h264");
static CLIP_AUDIO: &[u8] = include_bytes!("../../../../../assets/demo.ogg");

pub(super) fn open(paths: &[PathBuf], spec: &Spec, fps: Option<f64>) -> Result<Demuxer, Error> {
    let inputs = paths.iter().map(|path| demux::Input::file(path));
    let mut inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    // Tracks are announced video first.
    inputs.sort_by_key(|input| !input.format.has_video());
    let options = demux::Options {
        fps: spec.fps.or(fps),
        once: spec.once,
    };
    let source = Demuxer::new(inputs, &options)?;
    warn(&source);
    Ok(source)
}

pub(super) fn open_audio(path: &Path, once: bool) -> Result<Demuxer, Error> {
    let options = demux::Options { fps: None, once };
    let source = demux::open(&[path.to_owned()], &options)?;
    let has_audio = source.tracks().iter().any(|it| it.kind() == Kind::Audio);
    if !has_audio || source.tracks().len() > 1 {
        let name = path.display().to_string();
        return Err(Error::NoAudio { name });
    }
    Ok(source)
}

pub(super) fn clip(spec: &Spec) -> Result<Demuxer, Error> {
    let source = demux::from_bytes(CLIP_VIDEO, CLIP_AUDIO)?;
    Ok(if spec.once { source.fork(true) } else { source })
}

pub(super) fn warn(source: &Demuxer) {
    for warning in source.warnings() {
        tracing::warn!("{warning}");
    }
}

/// Plays `source` on a thread of its own, its tracks numbered from `first` on; returns the
/// tracks that are sent.
pub(super) fn play(
    mut source: Demuxer,
    context: &SourceContext,
    first: usize,
    carries: fn(&Track) -> bool,
) -> Result<Vec<Track>, Error> {
    let (tracks, numbers) = choose(source.tracks(), context, first, carries)?;
    let role = if first == 0 {
        ThreadRole::Primary
    } else {
        ThreadRole::Auxiliary
    };
    context.spawn("files", role, move |context| {
        context.play(|| {
            while let Some(frame) = source.next_frame()? {
                if let Some(track) = numbers[frame.track] {
                    return Ok(Some((track, frame)));
                }
            }
            Ok(None)
        })
    })?;
    Ok(tracks)
}

/// Chooses the tracks that are sent, of a layer its video; returns them, and each input track's number
/// among them.
pub(super) fn choose(
    tracks: &[Track],
    context: &SourceContext,
    first: usize,
    carries: fn(&Track) -> bool,
) -> Result<(Vec<Track>, Vec<Option<TrackIndex>>), Error> {
    let mut chosen = Vec::new();
    let mut numbers = Vec::new();
    let mut refused = None;
    for track in tracks {
        if context.is_layer() && track.kind() != Kind::Video {
            numbers.push(None);
        } else if carries(track) {
            numbers.push(Some(TrackIndex(first + chosen.len())));
            chosen.push(track.clone());
        } else {
            numbers.push(None);
            refused = refused.or(Some(track.codec));
            tracing::warn!(codec = %track.codec, "leaving a track out: the destination does not carry its codec");
        }
    }
    match refused {
        Some(codec) if chosen.is_empty() => Err(Error::Codec { codec }),
        _ => Ok((chosen, numbers)),
    }
}
