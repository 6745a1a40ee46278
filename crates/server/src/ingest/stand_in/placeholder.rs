//! Publishes the source's last keyframe while the source is away, in grey where that can be encoded.

use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use glassline_hub::PartingKeyframe;
use glassline_media::{Codec, CodedFrame, MediaTime, Track};
use glassline_transcode::{PLACEHOLDER_FPS, Placeholder};

use super::track_map::without_layers;
use super::{Over, StandIn};
use crate::ingest::{UnitPacketizer, UnitTiming};
use crate::runtime::calendar;

/// Time from one frame to the next.
const INTERVAL: Duration = Duration::from_millis(1000 / PLACEHOLDER_FPS as u64);

/// The placeholder that was made last, which serves until the source was there again.
#[derive(Debug, Default)]
pub(super) struct Placeholders {
    made: Option<(Instant, Arc<[RepeatedFrame]>)>,
}

/// A frame to be repeated.
#[derive(Debug)]
struct RepeatedFrame {
    data: Vec<u8>,
    keyframe: bool,
}

impl StandIn<'_> {
    /// Publishes the placeholder until the source is back, nobody watches, or the fallback begins. If
    /// there is none, waits for a change.
    pub(super) async fn publish_placeholder(&mut self) -> Over {
        let Some(parting) = self.stream.parting_keyframe() else {
            self.changed.woken().await;
            return Over::Changed;
        };
        let tracks: Vec<_> = parting.tracks.iter().map(without_layers).collect();
        let Some(track) = tracks.get(parting.track.get()).cloned() else {
            self.changed.woken().await;
            return Over::Changed;
        };
        let frames = self.frames(&parting, &track).await;
        let what = "placeholder".to_owned();
        let Ok(mut publisher) = self.stream.stand_in(tracks, what, Instant::now()) else {
            return Over::NotNeeded;
        };
        let mut packetizer = UnitPacketizer::new(&track);
        let (begin, mut next, mut units) = (Instant::now(), 0, Vec::new());
        for number in 0_u32.. {
            if publisher.keyframe_wanted() {
                let later =
                    (next..next + frames.len()).find(|at| frames[at % frames.len()].keyframe);
                next = later.unwrap_or(next);
            }
            let frame = &frames[next % frames.len()];
            next += 1;
            let now = Instant::now();
            let timing = UnitTiming {
                track: parting.track,
                time: MediaTime::ZERO + INTERVAL * number,
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

    /// Returns the frames to repeat; at least one. They are made once each time that the source goes
    /// away.
    async fn frames(&mut self, parting: &PartingKeyframe, track: &Track) -> Arc<[RepeatedFrame]> {
        if let Some((ended, frames)) = &self.placeholders.made
            && *ended == parting.ended
        {
            return Arc::clone(frames);
        }
        let coded = parting.unit.coded_frame();
        let data = coded.map_or_else(Vec::new, CodedFrame::to_vec);
        let grey = match track.codec {
            Codec::H264 => self.grey(&data, parting.ended).await,
            _ => None,
        };
        let frames = grey.unwrap_or_else(|| {
            let keyframe = true;
            Arc::from([RepeatedFrame { data, keyframe }])
        });
        self.placeholders.made = Some((parting.ended, Arc::clone(&frames)));
        frames
    }

    /// Returns the keyframe in grey with the time at which the source went away; `None` if it cannot
    /// be decoded.
    async fn grey(&self, keyframe: &[u8], ended: Instant) -> Option<Arc<[RepeatedFrame]>> {
        let _permit = self.services.encoders.acquire().await;
        let keyframe = keyframe.to_vec();
        let text = offline_since(ended);
        let making = move || Placeholder::of_h264(&keyframe, &text);
        let made = tokio::task::spawn_blocking(making).await;
        let reason = match made {
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
        tracing::warn!(%stream, reason, "the placeholder is the last keyframe as it was, not in grey");
        None
    }
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
