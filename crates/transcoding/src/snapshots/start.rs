//! The coded frames of which a snapshot is decoded.

use std::sync::Arc;

use glassline_hub::{State, Stream};
use glassline_media::{Codec, CodedFrame, Kind, LayerIndex, MediaUnit, TrackIndex, TrackLayer};
use glassline_rtp::payload::{Recovery, is_recovery_point, recovery};
use glassline_runtime::TaskWaker;
use glassline_transcode::{DecodedKeyframe, NoStill, RECOVERY_FRAMES_MAX, still_of};

use super::cache::{Keyframe, KeyframeId};
use super::{NoSnapshot, Snapshot};

/// Frames behind the right one that are decoded, too: the decoder holds pictures back, and more of them
/// where the source reorders.
const BEHIND: usize = 2;
const BEHIND_OF_REORDERED: usize = 4;

/// The frames from a unit on at which a decoder can start, to the one whose picture is right: one
/// keyframe, or a recovery point with what follows.
#[derive(Clone, Debug)]
pub(super) struct Start {
    pub(super) of: KeyframeId,
    codec: Codec,
    units: Vec<Arc<MediaUnit>>,
    track: TrackLayer,
    recovery: Recovery,
    /// Number of frames behind the right one that are needed.
    behind: usize,
}

impl Start {
    /// Returns the newest start of a layer of the stream's first video track whose picture is right, or else the
    /// newest one; requests a keyframe if there is none.
    pub(super) fn newest(stream: &Stream, layer: LayerIndex) -> Result<Self, NoSnapshot> {
        if stream.state() == State::Idle {
            return Err(NoSnapshot::Idle);
        }
        let layout = stream.layout();
        let tracks = stream.tracks();
        let mut videos =
            TrackIndex::enumerate(tracks.iter()).filter(|(_, it)| it.kind() == Kind::Video);
        let (track, described) = videos.next().ok_or(NoSnapshot::NoVideo)?;
        let (index, track) = (
            TrackLayer { track, layer },
            described.of_layer(layer).unwrap_or(described),
        );
        if track.codec != Codec::Jpeg {
            still_of(track)?;
        }
        let Some(newest) = stream.latest_keyframe(index) else {
            stream.request_keyframe_of(index);
            return Err(NoSnapshot::NoKeyframe);
        };
        let start = |units: Vec<Arc<MediaUnit>>| Self {
            of: KeyframeId {
                layout,
                index: units[0].index,
            },
            codec: track.codec,
            recovery: recovery_of(track.codec, &units[0]),
            units,
            track: index,
            behind: match track.video.reordered {
                true => BEHIND_OF_REORDERED,
                false => BEHIND,
            },
        };
        if !is_recovery_point(track.codec, &newest) {
            return Ok(start(vec![newest]));
        }
        let units = stream.since(index, 0);
        let starts = (0..units.len()).rev().filter(|at| units[*at].keyframe);
        let mut starts = starts.map(|at| start(units[at..].to_vec()));
        // Of those that are not complete, the oldest will be first.
        let mut oldest = None;
        let complete = starts.find(|start| {
            oldest = Some(start.clone());
            start.is_complete()
        });
        complete.or(oldest).ok_or(NoSnapshot::NoKeyframe)
    }

    /// Waits until the frames are there with which the picture is right.
    ///
    /// # Errors
    /// Returns [`NoSnapshot`] if they cannot come.
    pub(super) async fn complete(&mut self, stream: &Arc<Stream>) -> Result<(), NoSnapshot> {
        let arrival = Arc::new(TaskWaker::default());
        let mut subscription = stream.subscribe(Arc::clone(&arrival) as _);
        subscription.read(&[self.track]);
        loop {
            if stream.layout() != self.of.layout {
                return Err(NoSnapshot::NoKeyframe);
            }
            let next = self.units.last().map_or(self.of.index, |it| it.index) + 1;
            self.units.extend(stream.since(self.track, next));
            if self.is_complete() {
                return Ok(());
            }
            let needed = self.needed().unwrap_or(self.units.len());
            if needed > RECOVERY_FRAMES_MAX + self.behind || !stream.is_published() {
                return Err(NoSnapshot::Refreshing);
            }
            arrival.woken().await;
        }
    }

    /// Returns whether the frames are there with which a picture is right.
    pub(super) fn is_complete(&self) -> bool {
        self.needed()
            .is_some_and(|needed| self.units.len() >= needed)
    }

    /// Returns the number of frames that are decoded; `None` if nobody knows yet.
    fn needed(&self) -> Option<usize> {
        match self.recovery {
            Recovery::Keyframe => Some(1),
            _ => Some(self.right()? + 1 + self.behind),
        }
    }

    /// Returns the place of the frame whose picture is right; `None` if nobody knows yet.
    fn right(&self) -> Option<usize> {
        match self.recovery {
            Recovery::Keyframe => Some(0),
            Recovery::Frames(frames) => usize::try_from(frames).ok(),
            Recovery::Refresh => {
                let mut behind = self.units.iter().skip(1);
                behind.position(|unit| unit.keyframe)
            }
        }
    }

    /// Decodes the picture that is right. A frame of Motion JPEG is an image already, and stays in its
    /// size.
    pub(super) fn decode(&self) -> Keyframe {
        let Some(coded) = self.coded() else {
            let reason = "the source sends packets, not frames".to_owned();
            return Keyframe::Broken(NoStill::Decoder { reason });
        };
        if self.codec == Codec::Jpeg {
            let image = coded.into_iter().next().unwrap_or_default();
            return Keyframe::Image(Arc::new(Snapshot::of(image.into())));
        }
        let decoded = match self.recovery {
            Recovery::Keyframe => DecodedKeyframe::of_h264(&coded[0]),
            _ => DecodedKeyframe::of_recovery(&coded, self.right().unwrap_or_default()),
        };
        match decoded {
            Ok(frame) => Keyframe::Decoded(Arc::new(frame)),
            Err(why) => Keyframe::Broken(why),
        }
    }

    /// Returns the frames that are decoded; `None` if the source sends packets.
    fn coded(&self) -> Option<Vec<Vec<u8>>> {
        let units = self.units.iter().take(self.needed().unwrap_or(1));
        let coded = units.map(|unit| Some(unit.coded_frame()?.to_vec()));
        coded.collect()
    }
}

fn recovery_of(codec: Codec, unit: &MediaUnit) -> Recovery {
    if !is_recovery_point(codec, unit) {
        return Recovery::Keyframe;
    }
    let coded = unit.coded_frame().map(CodedFrame::to_vec);
    recovery(codec, &coded.unwrap_or_default())
}
