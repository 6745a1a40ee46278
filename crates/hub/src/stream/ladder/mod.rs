//! The layers that the server makes of a stream's video: the ladder of a source with a single encoding.
//!
//! ```text
//! source ─► base layer ─┬─ the same units ─► layer 1: the source's own encoding
//!                       └─► encoder ───────► layers 2, 3, …: the rungs, while somebody reads them
//! ```
//!
//! A rung is a rendition of the track. Its publisher is whoever encodes it; while there is none, the rung
//! is paused, as the layer of a camera that nobody watches is.

use std::sync::Arc;

use glassline_media::{
    Codec, Kind, Layer, LayerAbsence, LayerIndex, MediaUnit, Track, TrackIndex, TrackLayer,
    VideoParameters,
};

use super::layers::LayersRead;
use super::{Inner, Stream};
use crate::ladder::{Ladder, LadderRung};
use crate::layout::TrackLayout;

/// Name of the layer that is the source's own encoding.
const SOURCE_RID: &str = "source";

/// Layer of the source's own encoding.
const SOURCE: LayerIndex = LayerIndex(1);

/// Constrained Baseline at level 3.1, which is what receivers of another codec than the source's negotiate.
const BASELINE: [u8; 4] = [0x67, 0x42, 0xc0, 0x1f];

/// Fewest columns of a picture that the encoder takes.
const WIDTH_MIN: u32 = 16;

/// The rungs that a stream's present source has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LadderPlan {
    /// Layout that has the track.
    pub layout: TrackLayout,
    /// Track of the video.
    pub track: TrackIndex,
    /// The rungs, the largest first; at least one.
    pub rungs: Vec<PlannedRung>,
}

/// A rung with the size of its pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedRung {
    /// Layer of the track.
    pub layer: LayerIndex,
    /// Columns of the picture.
    pub width: u16,
    /// Height and bitrate.
    pub rung: LadderRung,
}

/// The need for the rungs of a stream.
#[derive(Clone, Debug)]
pub struct LadderNeed {
    /// The rungs of the present ladder.
    pub plan: Arc<LadderPlan>,
    /// The layers of the track that receivers read.
    pub read: LayersRead,
}

/// The ladder of a stream, as it is wished for and as the present source can have it.
#[derive(Debug, Default)]
pub(super) struct StreamLadder {
    /// Choice in the configuration of the source; `None` without one.
    of_source: Option<Ladder>,
    /// Choice for all sources.
    general: Ladder,
    plan: Option<Arc<LadderPlan>>,
    /// The reason why the rungs cannot be had.
    failure: Option<String>,
}

impl LadderPlan {
    /// Returns the rungs of `ladder` below the first video of `tracks`; `None` if there are none, or the
    /// source has layers itself.
    fn of(ladder: Ladder, tracks: &[Track], layout: TrackLayout) -> Option<Self> {
        if ladder.is_off() {
            return None;
        }
        let mut videos = TrackIndex::enumerate(tracks).filter(|(_, it)| it.kind() == Kind::Video);
        let (track, described) = videos.next()?;
        let (width, height) = (described.video.width, described.video.height);
        if !described.layers.is_empty() || width == 0 || height == 0 {
            return None;
        }
        let smaller = ladder.rungs().filter(|it| u32::from(it.height) < height);
        let rungs = smaller.enumerate().filter_map(|(place, rung)| {
            let columns = width.checked_mul(rung.height.into())? / height;
            let columns = (columns.max(WIDTH_MIN) + 1) & !1;
            Some(PlannedRung {
                layer: LayerIndex::of_encoding(place + 1),
                width: u16::try_from(columns).ok()?,
                rung,
            })
        });
        let rungs: Vec<_> = rungs.collect();
        (!rungs.is_empty()).then_some(Self {
            layout,
            track,
            rungs,
        })
    }

    /// Returns the rung that is `layer`, with its place.
    fn position(&self, of: TrackLayer) -> Option<usize> {
        let mut rungs = self.rungs.iter();
        rungs.position(|it| of.track == self.track && it.layer == of.layer)
    }

    /// Returns the layer of the source's own encoding.
    const fn source(&self) -> TrackLayer {
        TrackLayer {
            track: self.track,
            layer: SOURCE,
        }
    }
}

impl StreamLadder {
    fn wished(&self) -> Ladder {
        self.of_source.unwrap_or(self.general)
    }

    /// Returns whether `layer` is a rung.
    pub(super) fn has(&self, of: TrackLayer) -> bool {
        self.plan
            .as_ref()
            .is_some_and(|it| it.position(of).is_some())
    }

    /// Returns whether `plan` is in force.
    pub(super) fn is_present(&self, plan: &Arc<LadderPlan>) -> bool {
        self.plan.as_ref().is_some_and(|it| Arc::ptr_eq(it, plan))
    }

    /// Returns the layer of which a source without layers is asked for a keyframe, if `of` is asked for.
    pub(super) fn asked(&self, of: TrackLayer) -> LayerIndex {
        let is_source = self.plan.as_ref().is_some_and(|it| it.source() == of);
        match is_source {
            true => LayerIndex::BASE,
            false => of.layer,
        }
    }

    /// Returns a unit of the base layer as one of the source's own layer, if the stream has a ladder.
    pub(super) fn doubled(&self, unit: &MediaUnit) -> Option<MediaUnit> {
        let plan = self.plan.as_ref()?;
        (unit.track_layer() == plan.track.into()).then(|| {
            let mut doubled = unit.clone();
            doubled.layer = SOURCE;
            doubled
        })
    }
}

impl Inner {
    /// Returns `tracks`, as their publisher describes them, with the rungs of the ladder. A ladder that
    /// differs from the one before begins anew.
    pub(super) fn with_rungs(&mut self, tracks: Arc<[Track]>) -> Arc<[Track]> {
        let (layout, before) = (self.layout.number(), self.made.ladder.plan.take());
        let plan = LadderPlan::of(self.made.ladder.wished(), &tracks, layout);
        let is_same = before.as_deref() == plan.as_ref();
        self.made.ladder.plan = match is_same {
            true => before.clone(),
            false => plan.map(Arc::new),
        };
        if !is_same {
            self.made.ladder.failure = None;
            self.drop_rungs();
        }
        let Some(plan) = self.made.ladder.plan.clone() else {
            if before.is_some() && self.subscribers.preference.clear() {
                self.subscribers.wake_all();
            }
            return tracks;
        };
        let mut all = tracks.to_vec();
        let video = &mut all[plan.track];
        video.layers = self.describe_rungs(&plan, video);
        if self.subscribers.preference.set(plan.source()) {
            self.subscribers.wake_all();
        }
        all.into()
    }

    /// Describes the source's own encoding and the rungs below `video`.
    fn describe_rungs(&self, plan: &LadderPlan, video: &Track) -> Vec<Layer> {
        let side = |side: u32| u16::try_from(side).unwrap_or(u16::MAX);
        let source = Layer {
            rid: SOURCE_RID.to_owned(),
            size: Some((side(video.video.width), side(video.video.height))),
            ..Layer::default()
        };
        let rungs = plan.rungs.iter().map(|planned| {
            let of = TrackLayer {
                track: plan.track,
                layer: planned.layer,
            };
            let is_encoded = matches!(self.rendition(of), Some(it) if it.is_present());
            let paused = || match &self.made.ladder.failure {
                Some(why) => LayerAbsence::Failed(why.clone()),
                None => LayerAbsence::Paused,
            };
            let (width, height) = (planned.width, planned.rung.height);
            let baseline = || {
                Track::h264(VideoParameters {
                    sps: BASELINE.to_vec(),
                    width: width.into(),
                    height: height.into(),
                    ..VideoParameters::default()
                })
            };
            Layer {
                rid: format!("{height}p"),
                size: Some((width, height)),
                bitrate: Some(planned.rung.rate),
                absence: (!is_encoded).then(paused),
                other_codec: (video.codec != Codec::H264).then(|| Box::new(baseline())),
                is_made_here: true,
            }
        });
        std::iter::once(source).chain(rungs).collect()
    }

    /// Describes the tracks anew, because the state of a rung or the ladder is another one.
    pub(super) fn describe_ladder(&mut self) {
        if self.tracks.is_empty() {
            return;
        }
        let published: Vec<_> = self.tracks.iter().map(Track::as_published).collect();
        let tracks = self.with_rungs(published.into());
        self.redescribe(tracks);
    }
}

impl Stream {
    /// Sets the ladder that the configuration of the source chooses; `None` for the one of all sources.
    pub fn set_ladder(&self, choice: Option<Ladder>) {
        self.change_ladder(|ladder| std::mem::replace(&mut ladder.of_source, choice) != choice);
    }

    /// Sets the ladder of streams whose source chooses none.
    pub(crate) fn set_general_ladder(&self, general: Ladder) {
        self.change_ladder(|ladder| std::mem::replace(&mut ladder.general, general) != general);
    }

    fn change_ladder(&self, change: impl FnOnce(&mut StreamLadder) -> bool) {
        let mut inner = self.inner.lock();
        if !change(&mut inner.made.ladder) {
            return;
        }
        inner.describe_ladder();
        drop(inner);
        self.source_watchers.wake();
    }

    /// Returns the rungs of the stream and the layers that are read; `None` if the stream has no ladder. The
    /// stream's [watchers](Self::watch) are woken when receivers begin to read another layer.
    pub fn ladder_need(&self) -> Option<LadderNeed> {
        let inner = self.inner.lock();
        let plan = Arc::clone(inner.made.ladder.plan.as_ref()?);
        let read = inner.subscribers.layers_read(plan.track);
        Some(LadderNeed { plan, read })
    }

    /// States why the rungs of `plan` cannot be had; `None` once they can.
    pub fn set_ladder_failure(&self, plan: &Arc<LadderPlan>, failure: Option<String>) {
        let mut inner = self.inner.lock();
        if inner.made.ladder.is_present(plan) && inner.made.ladder.failure != failure {
            inner.made.ladder.failure = failure;
            inner.describe_ladder();
        }
    }
}

#[cfg(test)]
mod tests;
