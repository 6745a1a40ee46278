//! Publishes the source's last keyframe while the source is away, in grey where that can be encoded, or
//! a given image.

use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use glassline_hub::PartingKeyframe;
use glassline_media::{Codec, CodedFrame, MediaTime, Track, TrackIndex};
use glassline_runtime::calendar;
use glassline_transcode::{FrameSize, NoStill, PLACEHOLDER_FPS, Placeholder};

use super::track_map::without_layers;
use super::{Over, StandIn};
use crate::{UnitPacketizer, UnitTiming};

/// Time from one frame to the next.
const INTERVAL: Duration = Duration::from_millis(1000 / PLACEHOLDER_FPS as u64);

/// The placeholder that was made last, and when the source went away before it.
#[derive(Debug, Default)]
pub(super) struct Placeholders {
    made: Option<(Option<Instant>, Arc<[RepeatedFrame]>)>,
}

/// A frame to be repeated.
#[derive(Debug)]
struct RepeatedFrame {
    data: Vec<u8>,
    keyframe: bool,
}

/// The video track that a placeholder is shown on.
struct Screen {
    track: TrackIndex,
    tracks: Vec<Track>,
    /// The source's last keyframe; `None` if the source was never there or has had none.
    parting: Option<PartingKeyframe>,
}

impl StandIn<'_> {
    /// Publishes the placeholder until the source is back, nobody watches, or the fallback begins. If
    /// there is none, waits for a change.
    pub(super) async fn publish_placeholder(&mut self) -> Over {
        let Some(screen) = self.screen() else {
            self.changed.woken().await;
            return Over::Changed;
        };
        let frames = self.frames(&screen).await;
        let mut packetizer = UnitPacketizer::new(&screen.tracks[screen.track]);
        let what = "placeholder".to_owned();
        let silence = self.away.silence;
        let begun = self
            .stream
            .stand_in(screen.tracks, what, silence, Instant::now());
        let Ok(mut publisher) = begun else {
            return Over::NotNeeded;
        };
        let (begin, mut next, mut units) = (Instant::now(), 0, Vec::new());
        for number in 0_u32.. {
            if publisher.keyframe_wanted() {
                let mut later = next..next + frames.len();
                let later = later.find(|at| frames[at % frames.len()].keyframe);
                next = later.unwrap_or(next);
            }
            let frame = &frames[next % frames.len()];
            next += 1;
            let now = Instant::now();
            let time = MediaTime::ZERO + INTERVAL * number;
            let timing = UnitTiming {
                track: screen.track,
                time,
                decode_time: time,
                origin: now,
            };
            packetizer.packetize(&frame.data, frame.keyframe, timing, &mut units);
            for unit in units.drain(..) {
                if publisher.push(unit, now).is_err() {
                    return Over::NotNeeded;
                }
            }
            let due = begin + INTERVAL * (number + 1);
            while Instant::now() < due {
                let _ = tokio::time::timeout_at(due.into(), self.changed.woken()).await;
                if !self.is_needed() {
                    return Over::NotNeeded;
                }
                if self.has_fallback() {
                    return Over::Changed;
                }
            }
        }
        Over::Changed
    }

    /// Returns where a placeholder can be shown: on the source's own tracks, or on a track of its own if
    /// an image is given and the source was never there.
    fn screen(&self) -> Option<Screen> {
        if let Some(parting) = self.stream.parting_keyframe() {
            let tracks: Vec<_> = parting.tracks.iter().map(without_layers).collect();
            let track = parting.track;
            return (track.get() < tracks.len()).then_some(Screen {
                track,
                tracks,
                parting: Some(parting),
            });
        }
        let is_first = self.image.is_some() && self.stream.totals().sources == 0;
        is_first.then(|| Screen {
            track: TrackIndex(0),
            tracks: vec![Track::new(Codec::H264)],
            parting: None,
        })
    }

    /// Returns the frames to repeat; at least one. They are made once each time that the source goes
    /// away.
    async fn frames(&mut self, screen: &Screen) -> Arc<[RepeatedFrame]> {
        let ended = screen.parting.as_ref().map(|it| it.ended);
        if let Some((of, frames)) = &self.placeholders.made
            && *of == ended
        {
            return Arc::clone(frames);
        }
        let coded = screen.parting.as_ref().and_then(|it| it.unit.coded_frame());
        let data = coded.map_or_else(Vec::new, CodedFrame::to_vec);
        let track = &screen.tracks[screen.track];
        let encoded = match (track.codec, self.image, ended) {
            (Codec::H264, Some(image), _) => {
                let (image, size) = (Arc::clone(image), frame_size(track));
                self.encoded(move || Placeholder::of_jpeg(&image, size))
                    .await
            }
            (Codec::H264, None, Some(ended)) => {
                let (keyframe, text) = (data.clone(), offline_since(ended));
                self.encoded(move || Placeholder::of_h264(&keyframe, &text))
                    .await
            }
            _ => None,
        };
        let frames = encoded.unwrap_or_else(|| {
            let keyframe = true;
            Arc::from([RepeatedFrame { data, keyframe }])
        });
        self.placeholders.made = Some((ended, Arc::clone(&frames)));
        frames
    }

    /// Returns the frames that `make` encodes, on a thread for such work; `None` if it fails.
    async fn encoded(
        &self,
        make: impl FnOnce() -> Result<Placeholder, NoStill> + Send + 'static,
    ) -> Option<Arc<[RepeatedFrame]>> {
        let reason = match self.services.encoders.run(make).await {
            Ok(Ok(placeholder)) => {
                let frames = placeholder.frames().iter().map(|frame| RepeatedFrame {
                    data: frame.data.clone(),
                    keyframe: frame.keyframe,
                });
                return Some(frames.collect());
            }
            Ok(Err(reason)) => reason.to_string(),
            Err(panicked) => panicked.to_string(),
        };
        let stream = self.stream.name();
        tracing::warn!(%stream, reason, "the placeholder is the last keyframe as it was");
        None
    }
}

/// Returns the size of a track's frames, if it is known.
fn frame_size(track: &Track) -> Option<FrameSize> {
    let [width, height] =
        [track.video.width, track.video.height].map(|it| usize::try_from(it).ok());
    let size = FrameSize::new(width?, height?);
    (size.pixels() > 0).then_some(size)
}

/// Returns the text for a source whose last frame came at `ended`.
fn offline_since(ended: Instant) -> String {
    let now = calendar::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let minutes = now.saturating_sub(ended.elapsed()).as_secs() / 60;
    let (hours, minutes) = (minutes / 60 % 24, minutes % 60);
    format!("OFFLINE SINCE {hours:02}:{minutes:02} UTC")
}
