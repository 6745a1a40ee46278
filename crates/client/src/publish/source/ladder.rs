//! Prepared renditions of one video (an ABR ladder), switched at keyframes by the target
//! bitrate.
//!
//! All renditions have keyframes at the same times. At each keyframe of the current
//! rendition, the best one within the target is chosen, and continues at its keyframe of the
//! same time. Audio always comes from the input.

use std::path::PathBuf;
use std::time::Duration;

use glassline_demux::{self as demux, Demuxer, Frame};
use glassline_media::{Bitrate, Kind, MediaTime, Track, TrackIndex};

use super::{Error, SourceContext, SourceCounters, ThreadRole, files};
use crate::publish::input::{Rung, Spec};

/// Largest difference of keyframes that count as simultaneous; rounding and containers'
/// clocks cause small ones.
const SAME_TIME: Duration = Duration::from_millis(5);

/// Plays the input and its renditions; returns the tracks, video first.
pub(super) fn play(
    paths: &[PathBuf],
    spec: &Spec,
    fps: Option<f64>,
    context: &SourceContext,
) -> Result<Vec<Track>, Error> {
    let first = files::open(paths, spec, fps)?;
    let (tracks, numbers) = files::choose(first.tracks(), context, 0, spec.carries)?;
    let audio = first
        .tracks()
        .iter()
        .position(|it| it.kind() == Kind::Audio);
    let audio_number = audio.and_then(|audio| numbers[audio]);
    let top = Rung {
        path: paths[0].clone(),
        rate: None,
    };
    let mut renditions = vec![Rendition::new(&top, first.fork(spec.once), &first)?];
    for rung in &spec.rungs {
        let source = files::open(std::slice::from_ref(&rung.path), spec, fps)?;
        renditions.push(Rendition::new(rung, source, &first)?);
    }
    renditions.sort_by_key(|rendition| rendition.rate);
    let ladder = Ladder {
        current: 0,
        renditions,
        audio: audio_number.map(|number| (first, number)),
        next_audio: None,
        next_frame: None,
    };
    context.spawn("ladder", ThreadRole::Primary, move |context| {
        ladder.run(context)
    })?;
    Ok(tracks)
}

/// One rendition of the input, open for reading.
struct Rendition {
    name: String,
    source: Demuxer,
    rate: Bitrate,
    /// Time added to its timestamps: what was played before.
    shift: Duration,
}

impl Rendition {
    fn new(rung: &Rung, source: Demuxer, first: &Demuxer) -> Result<Self, Error> {
        let name = rung.path.display().to_string();
        let refused = |why: String| Error::Rung {
            name: name.clone(),
            why,
        };
        let codec = |source: &Demuxer| {
            let mut tracks = source.tracks().iter();
            tracks
                .find(|it| it.kind() == Kind::Video)
                .map(|it| it.codec)
        };
        match (codec(&source), codec(first)) {
            (None, _) => return Err(refused("the file has no video".to_owned())),
            (Some(own), Some(others)) if own != others => {
                return Err(refused(format!(
                    "its codec is {own}, the input's is {others}: encode both alike"
                )));
            }
            _ => {}
        }
        let rate = match rung.rate {
            Some(rate) => rate,
            None => measured(&rung.path, &source).ok_or_else(|| {
                refused("its bitrate is unknown: append it, as in low.mp4@500k".into())
            })?,
        };
        Ok(Self {
            name,
            source,
            rate,
            shift: Duration::ZERO,
        })
    }

    /// The next frame of video; `None` at the end.
    fn next_frame(&mut self) -> Result<Option<Frame>, demux::Error> {
        while let Some(mut frame) = self.source.next_frame()? {
            if self.source.tracks()[frame.track].kind() == Kind::Video {
                frame.time = frame.time + self.shift;
                frame.decode_time = frame.decode_time + self.shift;
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }

    /// Seeks to the keyframe that is shown at `time`; returns false if there is none.
    fn enter(&mut self, time: MediaTime) -> Result<bool, demux::Error> {
        let length = self.source.duration();
        let nanos = u128::try_from(time.nanos()).unwrap_or(0);
        let passes = nanos.checked_div(length.as_nanos()).unwrap_or(0);
        let shift = length * u32::try_from(passes).unwrap_or(0);
        let within = time - shift;
        let Some(found) = self.source.keyframe_at_or_before(within + SAME_TIME) else {
            return Ok(false);
        };
        if found.nanos().abs_diff(within.nanos()) > SAME_TIME.as_nanos() as u64 {
            return Ok(false);
        }
        self.source.seek(found)?;
        // The keyframe gets the other rendition's time, even if its own differs a little.
        self.shift = time.saturating_since(found);
        Ok(true)
    }
}

/// Average bitrate: bytes of the file over its length.
fn measured(path: &std::path::Path, source: &Demuxer) -> Option<Bitrate> {
    let bytes = std::fs::metadata(path).ok()?.len();
    let length = source.duration();
    (!length.is_zero()).then(|| Bitrate::over(bytes, length))
}

struct Ladder {
    /// Renditions, lowest bitrate first.
    renditions: Vec<Rendition>,
    current: usize,
    /// Source of the audio, with its track's number.
    audio: Option<(Demuxer, TrackIndex)>,
    next_audio: Option<Frame>,
    /// Next frame, for which the rendition is already chosen.
    next_frame: Option<Frame>,
}

impl Ladder {
    fn run(mut self, context: &SourceContext) -> Result<(), Error> {
        self.current = self.wanted(context.control.target());
        context.play(|| self.next(context))
    }

    /// Index of the best rendition within `target`, else of the lowest.
    fn wanted(&self, target: Bitrate) -> usize {
        let fits = self
            .renditions
            .iter()
            .rposition(|rendition| rendition.rate <= target);
        fits.unwrap_or(0)
    }

    /// The next frame of video or audio, with its track's number.
    fn next(&mut self, context: &SourceContext) -> Result<Option<(TrackIndex, Frame)>, Error> {
        if self.next_frame.is_none() {
            let next = self.renditions[self.current].next_frame()?;
            let Some(video_frame) = next else {
                return Ok(None);
            };
            self.next_frame = Some(match video_frame.keyframe {
                true => self.choose(video_frame, context)?,
                false => video_frame,
            });
        }
        if let Some((source, number)) = &mut self.audio {
            while self.next_audio.is_none() {
                let Some(frame) = source.next_frame()? else {
                    break;
                };
                let is_audio = source.tracks()[frame.track].kind() == Kind::Audio;
                self.next_audio = is_audio.then_some(frame);
            }
            let due = self.next_frame.as_ref().map(|it| it.decode_time);
            if let Some(audio) = self.next_audio.take_if(|it| Some(it.decode_time) < due) {
                return Ok(Some((*number, audio)));
            }
        }
        Ok(self
            .next_frame
            .take()
            .map(|video_frame| (TrackIndex(0), video_frame)))
    }

    /// The keyframe of the rendition that the target asks for, or `video_frame` if that is
    /// the current one.
    fn choose(&mut self, video_frame: Frame, context: &SourceContext) -> Result<Frame, Error> {
        let wanted = self.wanted(context.control.target());
        if wanted == self.current {
            return Ok(video_frame);
        }
        let rendition = &mut self.renditions[wanted];
        if !rendition.enter(video_frame.time)? {
            tracing::debug!(rendition = rendition.name, "no keyframe at the same time");
            return Ok(video_frame);
        }
        let Some(entered) = rendition.next_frame()? else {
            return Ok(video_frame);
        };
        self.current = wanted;
        SourceCounters::add(&context.counters.switches);
        Ok(entered)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::publish::clock::Timeline;
    use crate::publish::input::Input;
    use crate::publish::source::{Event, SourceControl};
    use crate::publish::unit::Unit;
    use glassline_media::Codec;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use tokio::sync::mpsc;

    static CLIP: &[u8] = include_bytes!("../../../../../assets/demo.h264");

    /// The clip as two renditions: one has a unit of padding behind each frame.
    fn renditions() -> (PathBuf, PathBuf) {
        let folder = std::env::temp_dir();
        let file =
            |name: &str| folder.join(format!("glassline-ladder-{}-{name}", std::process::id()));
        let (high, low) = (file("high.h264"), file("low.h264"));
        std::fs::write(&low, CLIP).expect("it can be written");
        let mut splitter = glassline_demux::live::Splitter::new();
        splitter.push(CLIP).expect("a clip");
        splitter.finish().expect("a clip");
        let mut padded = Vec::new();
        while let Some(unit) = splitter.next_unit() {
            padded.extend_from_slice(&unit.data);
            // Filler data (H.264 7.3.2.7).
            padded.extend_from_slice(&[0, 0, 0, 1, 0x0c]);
            padded.extend([0xff; 2000]);
            padded.push(0x80);
        }
        std::fs::write(&high, padded).expect("it can be written");
        (high, low)
    }

    fn spec(rung: &Path) -> Spec {
        Spec {
            input: Input::Clip,
            fps: None,
            once: true,
            live: false,
            audio: None,
            rungs: vec![Rung {
                path: rung.to_owned(),
                rate: Some(Bitrate::from_bps(300_000)),
            }],
            layers: Vec::new(),
            start: Bitrate::from_bps(300_000),
            carries: |track| track.codec == Codec::H264,
        }
    }

    #[test]
    fn renditions_change_at_keyframes_and_time_goes_on() {
        let (high, low) = renditions();
        let (events, mut receiver) = mpsc::channel(1000);
        let context = SourceContext {
            timeline: Timeline::new(Instant::now()),
            events,
            control: Arc::new(SourceControl::new(Bitrate::from_bps(300_000))),
            counters: Arc::default(),
            video: TrackIndex(0),
            began: Arc::new(Instant::now().into()),
        };
        let tracks = play(std::slice::from_ref(&high), &spec(&low), None, &context);
        assert_eq!(tracks.expect("both fit").len(), 1);
        let is_padded = |unit: &Unit| {
            let mut nals = glassline_demux::annexb::nals(&unit.data);
            nals.any(|nal| nal[0] & 0x1f == 12)
        };
        let mut units: Vec<Unit> = Vec::new();
        let mut was = false;
        // Up after a second, and down again.
        while let Some(Event::Unit(unit)) = receiver.blocking_recv() {
            let rate = if (30..90).contains(&units.len()) {
                90_000_000
            } else {
                300_000
            };
            context.control.set_target(Bitrate::from_bps(rate));
            let is = is_padded(&unit);
            assert!(
                is == was || unit.keyframe,
                "a change in frame {}",
                units.len()
            );
            was = is;
            units.push(unit);
            if units.len() > 100 && context.counters.switches.load(Ordering::Relaxed) == 2 {
                break;
            }
        }
        context.control.stop();
        assert_eq!(context.counters.switches.load(Ordering::Relaxed), 2);
        for pair in units.windows(2) {
            let step = pair[1].time.saturating_since(pair[0].time).as_micros();
            // More only where the machine stood still.
            assert!(step >= 33_000, "{step} us");
        }
        std::fs::remove_file(high).expect("ours");
        std::fs::remove_file(low).expect("ours");
    }
}
