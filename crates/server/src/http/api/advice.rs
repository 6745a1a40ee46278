//! What a publisher should change for its viewers, with the settings of common encoders.

use std::time::Duration;

use glassline_hub::LayerFigures;
use glassline_media::{Codec, Kind, Track};
use schemars::JsonSchema;
use serde::Serialize;

use glassline_ingest::oversized::FRAME_MIB_MAX;

/// Longest interval between keyframes that new viewers should wait for.
const KEYFRAME_INTERVAL_MAX: Duration = Duration::from_secs(4);

/// Interval between keyframes that the settings ask for, in seconds.
const KEYFRAME_INTERVAL_S: f64 = 2.0;

/// Something that the publisher should change.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Advice {
    /// Name of the problem: `b_frames`, `keyframe_interval` or `frame_size`.
    problem: &'static str,
    /// The effect that viewers notice of the problem.
    detail: String,
    /// How to solve the problem, by program.
    settings: Vec<Setting>,
}

/// A setting of an encoder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Setting {
    /// Name of the encoder's program.
    program: &'static str,
    /// The setting, as the program names it.
    setting: String,
}

/// Returns the advice for a publisher of tracks with these figures. `heeds` is set if it makes
/// keyframes when asked; `oversized` of its frames were dropped because they are too large.
pub(super) fn of(tracks: &[(Track, LayerFigures)], heeds: bool, oversized: u64) -> Vec<Advice> {
    let mut videos = tracks.iter().filter(|(it, _)| it.kind() == Kind::Video);
    let Some((track, figures)) = videos.next() else {
        return Vec::new();
    };
    let mut advice = Vec::new();
    if track.video.reordered {
        advice.push(without_b_frames(track.codec));
    }
    if !heeds && let Some(interval) = long_interval(figures) {
        advice.push(with_keyframes(interval, figures.frame_rate));
    }
    if oversized > 0 {
        advice.push(with_smaller_frames(oversized));
    }
    advice
}

fn without_b_frames(codec: Codec) -> Advice {
    let x265 = codec == Codec::H265;
    let x264 = match x265 {
        true => "x265-params=bframes=0",
        false => "bframes=0",
    };
    let gstreamer = match x265 {
        true => "x265enc option-string=bframes=0",
        false => "x264enc bframes=0 tune=zerolatency",
    };
    let settings = [
        (
            "OBS",
            format!("Output → Streaming: Max B-frames 0; with x264: Tune zerolatency, or {x264}"),
        ),
        ("FFmpeg", "-bf 0".to_owned()),
        ("GStreamer", format!("{gstreamer}; nvh264enc bframes=0")),
        (
            "camera",
            "H.264 profile Baseline, or B-frames (GOP structure) off".to_owned(),
        ),
    ];
    Advice {
        problem: "b_frames",
        detail: format!(
            "This {codec} video has B-frames. Browsers show them in the wrong order, so they are \
             refused; RTSP and MoQ players are not."
        ),
        settings: settings
            .map(|(program, setting)| Setting { program, setting })
            .into(),
    }
}

fn with_keyframes(interval: LongInterval, frame_rate: f64) -> Advice {
    let seconds = interval.time.as_secs_f64();
    let bound = match interval.is_over {
        true => "",
        false => "more than ",
    };
    // The rate of a stream that begins is not known yet.
    let frames = match frame_rate >= 1.0 {
        true => (frame_rate * KEYFRAME_INTERVAL_S).round(),
        false => 30.0 * KEYFRAME_INTERVAL_S,
    };
    let settings = [
        (
            "OBS",
            "Output → Streaming: Keyframe Interval 2 s".to_owned(),
        ),
        ("FFmpeg", format!("-g {frames}")),
        ("GStreamer", format!("x264enc key-int-max={frames}")),
        (
            "camera",
            format!("I-frame interval (GOP length) {frames}; smart or dynamic GOP off"),
        ),
    ];
    Advice {
        problem: "keyframe_interval",
        detail: format!(
            "A keyframe comes every {bound}{seconds:.1} s, and this publisher makes none when asked. \
             New viewers start at the last one that is kept, and lost frames stay visible until the \
             next one."
        ),
        settings: settings
            .map(|(program, setting)| Setting { program, setting })
            .into(),
    }
}

fn with_smaller_frames(dropped: u64) -> Advice {
    let settings = [
        (
            "OBS",
            "Output → Streaming: lower Bitrate, or Rate Control CBR",
        ),
        ("FFmpeg", "-maxrate 20M -bufsize 20M, or a higher -crf"),
        ("GStreamer", "x264enc bitrate=20000 vbv-buf-capacity=1000"),
        ("camera", "lower maximum bitrate or resolution"),
    ];
    Advice {
        problem: "frame_size",
        detail: format!(
            "{dropped} frames of more than {FRAME_MIB_MAX} MiB were dropped. Viewers waited for the \
             next keyframe."
        ),
        settings: settings
            .map(|(program, text)| Setting {
                program,
                setting: text.to_owned(),
            })
            .into(),
    }
}

/// An interval between keyframes that is too long.
#[derive(Clone, Copy)]
struct LongInterval {
    time: Duration,
    /// Whether the interval has ended; otherwise it is at least `time`.
    is_over: bool,
}

fn long_interval(figures: &LayerFigures) -> Option<LongInterval> {
    let open = figures.since_keyframe.map(|time| (time, false));
    let over = figures.keyframe_interval.map(|time| (time, true));
    let (time, is_over) = [over, open].into_iter().flatten().max_by_key(|it| it.0)?;
    (time > KEYFRAME_INTERVAL_MAX).then_some(LongInterval { time, is_over })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(interval: u64, since: u64) -> LayerFigures {
        LayerFigures {
            frame_rate: 25.02,
            keyframe_interval: Some(Duration::from_secs(interval)),
            since_keyframe: Some(Duration::from_secs(since)),
            ..LayerFigures::default()
        }
    }

    fn problems(tracks: &[(Track, LayerFigures)], heeds: bool) -> Vec<&'static str> {
        of(tracks, heeds, 0).iter().map(|it| it.problem).collect()
    }

    #[test]
    fn b_frames_and_long_intervals_are_named_with_their_settings() {
        let mut track = Track::new(Codec::H264);
        let audio = (Track::audio(Codec::Opus, 2), figures(60, 60));
        let good = [audio.clone(), (track.clone(), figures(4, 1))];
        assert!(of(&good, false, 0).is_empty());
        assert!(of(&[audio], false, 0).is_empty(), "audio has no keyframes");
        track.video.reordered = true;
        let bad = [(track.clone(), figures(10, 1))];
        assert_eq!(problems(&bad, false), ["b_frames", "keyframe_interval"]);
        assert_eq!(
            problems(&bad, true),
            ["b_frames"],
            "it makes them when asked"
        );
        let all = of(&bad, false, 0);
        let of_program = |problem: &Advice, program| {
            let mut settings = problem.settings.iter();
            let found = settings.find(|it| it.program == program);
            found.map(|it| it.setting.clone()).expect("named")
        };
        assert_eq!(of_program(&all[0], "FFmpeg"), "-bf 0");
        assert_eq!(of_program(&all[1], "FFmpeg"), "-g 50");
        assert!(of_program(&all[1], "OBS").contains("Keyframe Interval 2 s"));
        assert!(all[1].detail.contains("every 10.0 s"), "{}", all[1].detail);
    }

    #[test]
    fn frames_that_were_too_large_are_named_with_their_number() {
        let good = [(Track::new(Codec::H264), figures(2, 1))];
        let advice = of(&good, false, 3);
        assert_eq!(advice[0].problem, "frame_size");
        let detail = &advice[0].detail;
        assert!(detail.contains("3 frames of more than 8 MiB"), "{detail}");
        assert_eq!(advice[0].settings.len(), 4);
    }

    #[test]
    fn an_interval_that_has_not_ended_counts_as_far_as_it_goes() {
        let track = Track::new(Codec::H264);
        let late = [(track, figures(2, 9))];
        let advice = of(&late, false, 0);
        assert!(advice[0].detail.contains("more than 9.0 s"), "{advice:?}");
    }
}
