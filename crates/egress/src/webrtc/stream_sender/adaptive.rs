//! A viewer's layer by what its path carries.
//!
//! ```text
//! transport feedback ─► adapt_layers ─► LayerChoice ─► choose ─► TrackSender moves
//!                                           └► padding beside the media, in flush
//! ```
//!
//! Only a viewer of a track with several layers, or with temporal layers, has this state; others pay
//! nothing. The temporal layers of the lowest layer are the lowest choices.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{Stream, TemporalRates};
use glassline_media::{Bitrate, Kind, LayerAbsence, LayerIndex, Temporal, TrackLayer};
use glassline_webrtc::{SenderIndex, Session};
use smallvec::SmallVec;

use super::StreamSender;
use crate::webrtc::layer_choice::{
    LayerChoice, LayerRequest, PADDING_PACKET, Reason, Rung, Selection, Situation,
};
use crate::webrtc::outbox::{Batch, Sink};
use crate::webrtc::track_sender::{LayerMove, TrackSender};

/// Interval at which the padding of a probe leaves.
pub(super) const PADDING_INTERVAL: Duration = Duration::from_millis(5);
/// Shortest interval of decisions.
const DECISIONS: Duration = Duration::from_millis(40);
/// Interval at which the rates of layers are measured anew.
const MEASUREMENTS: Duration = Duration::from_secs(1);
/// Interval of measurements while a single layer is known, as at the beginning of a stream.
const FIRST_MEASUREMENTS: Duration = Duration::from_millis(200);
/// Time for which the path may be busy with the frames since a layer's keyframe.
const CATCH_UP: Duration = Duration::from_millis(300);
/// Time that a viewer whose path carries too little waits for a new keyframe of the lower layer.
const PATIENCE: Duration = Duration::from_millis(600);

/// The layer that a viewer gets, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerReport {
    /// The layer that the viewer gets.
    pub layer: TrackLayer,
    /// Number of the layer's temporal layers that the viewer gets; `None` for all.
    pub temporal_layers: Option<u8>,
    /// The sender of the session by which the layer goes.
    pub sender: SenderIndex,
    /// The reason why the viewer gets this layer.
    pub reason: Reason,
    /// When the layer was chosen.
    pub since: Instant,
    /// Measured rate of what the path carries.
    pub estimate: Option<Bitrate>,
}

/// The choice of the video's layer and its temporal layers.
#[derive(Debug)]
pub(super) struct Adaptive {
    /// Place of the track among the sender's tracks.
    place: usize,
    choice: LayerChoice,
    /// Layers that are alive, those with lower rates first.
    rungs: SmallVec<[Rung; 4]>,
    measured: Instant,
    decided: Instant,
    /// When the viewer began to move to the layer that it still waits for.
    moving: Option<Instant>,
    estimate: Option<Bitrate>,
}

impl Adaptive {
    /// Returns the number of temporal layers that the viewer gets; `None` for all.
    fn temporal_layers(&self) -> Option<u8> {
        let temporal = self.choice.temporal();
        (temporal < Temporal::LAYER_MAX).then_some(temporal + 1)
    }

    /// Returns whether the path carries less than the best that the viewer may get, or is not proven to carry
    /// that.
    pub(super) fn is_held_back(&self) -> bool {
        matches!(
            self.choice.reason(),
            Reason::Narrow { .. } | Reason::Held(_)
        )
    }

    /// Measures the layers that are alive, up to the best one of `stream`.
    fn measure(&mut self, track: TrackLayer, stream: &Stream, now: Instant) {
        self.measured = now;
        let best = stream.preferred(track.track);
        let tracks = stream.tracks();
        let Some(described) = tracks.get(track.track.get()) else {
            return;
        };
        let before = std::mem::take(&mut self.rungs);
        let figures = |layer| stream.figures(TrackLayer { layer, ..track }, now);
        for (place, known) in described.layers.iter().enumerate() {
            if known.other_codec.is_some() {
                continue;
            }
            let layer = LayerIndex::of_encoding(place);
            let fresh = match &known.absence {
                // It comes once it is read.
                Some(LayerAbsence::Paused) => known.bitrate.unwrap_or_default(),
                Some(LayerAbsence::Failed(_)) => Bitrate::default(),
                None => figures(layer).bitrate,
            };
            if fresh.bps() > 0 || layer == best.layer {
                let height = known.size.map(|(_, height)| u32::from(height));
                self.push(Selection::whole(layer), fresh, height, &before);
            }
        }
        if described.layers.is_empty() {
            let layer = LayerIndex::BASE;
            self.push(
                Selection::whole(layer),
                figures(layer).bitrate,
                None,
                &before,
            );
        }
        self.rungs.sort_by_key(|it| it.rate);
        let is_best = |it: &Rung| it.selection.layer == best.layer;
        match self.rungs.iter().position(is_best) {
            // Right after its beginning, a layer has no rate.
            Some(place) if self.rungs[place].rate.bps() > 0 => self.rungs.truncate(place + 1),
            _ => self.rungs.retain(|it| is_best(it)),
        }
        if let Some(lowest) = self.rungs.first().map(|it| it.selection.layer) {
            self.divide(lowest, figures(lowest).temporal_rates, &before);
        }
    }

    /// Puts the parts of the lowest layer below it.
    fn divide(&mut self, layer: LayerIndex, rates: TemporalRates, before: &[Rung]) {
        let Some((_, parts)) = rates.of_layers().split_last() else {
            return;
        };
        for (temporal, rate) in (0..).zip(parts) {
            self.push(Selection { layer, temporal }, *rate, None, before);
        }
        self.rungs.rotate_right(parts.len());
    }

    /// Appends a choice, whose rate is the mean of a fresh measurement and those before.
    fn push(&mut self, selection: Selection, fresh: Bitrate, height: Option<u32>, before: &[Rung]) {
        let is_known = |it: &&Rung| it.selection == selection && it.rate.bps() > 0;
        let old = before.iter().find(is_known);
        let bps = old.map_or(fresh.bps(), |old| (old.rate.bps() + fresh.bps()) / 2);
        self.rungs.push(Rung {
            selection,
            rate: Bitrate::from_bps(bps),
            height,
        });
    }
}

impl StreamSender {
    /// Begins to choose the video's layer by the path, if the stream has several and the session measures
    /// the path. A stream may get layers while the viewer is connected.
    pub fn adapt(&mut self, session: &mut Session, stream: &Stream, now: Instant) {
        if !self.has_started || self.adaptive.is_some() {
            return;
        }
        let coming = |it: &TrackSender| it.target().unwrap_or(it.source);
        let is_layered = |of: &TrackLayer| of.layer != LayerIndex::BASE && !self.fixed.contains(of);
        let mut tracks = self.tracks.iter();
        let found = tracks.position(|it| it.kind() == Kind::Video && is_layered(&coming(it)));
        let Some(place) = found else {
            return;
        };
        if session.begin_congestion_control(now) {
            let track = coming(&self.tracks[place]);
            let adaptive = self.begin_to_adapt(place, now);
            adaptive.measure(track, stream, now);
        }
    }

    /// Begins to choose among the temporal layers of a video with a single encoding, once a frame of them
    /// came.
    #[inline]
    pub(super) fn adapt_to_temporal_layers(&mut self, session: &mut Session, now: Instant) {
        if self.adaptive.is_some() {
            return;
        }
        let is_found =
            |it: &TrackSender| it.has_temporal_layers() && !self.fixed.contains(&it.source);
        let found = self.tracks.iter().position(is_found);
        if let Some(place) = found
            && session.begin_congestion_control(now)
        {
            self.begin_to_adapt(place, now);
        }
    }

    /// Begins with the present layer of a track, and with nothing measured.
    #[cold]
    fn begin_to_adapt(&mut self, place: usize, now: Instant) -> &mut Adaptive {
        let track = &self.tracks[place];
        let layer = track.target().unwrap_or(track.source).layer;
        let mut choice = LayerChoice::new(layer, now);
        choice.request = self.request;
        self.adaptive.insert(Box::new(Adaptive {
            place,
            choice,
            rungs: SmallVec::new(),
            measured: now,
            decided: now,
            moving: None,
            estimate: None,
        }))
    }

    /// Takes what the latest transport feedback says. Returns whether the viewer should get another layer:
    /// call [`choose`](Self::choose) once the layers of [`wanted`](Self::wanted) are read.
    pub fn adapt_layers(&mut self, session: &mut Session, stream: &Stream, now: Instant) -> bool {
        self.yield_protection(session, now);
        let Some(adaptive) = &mut self.adaptive else {
            return false;
        };
        if now.saturating_duration_since(adaptive.decided) < DECISIONS {
            return false;
        }
        let Some(signs) = session.path_signs(now) else {
            return false;
        };
        adaptive.decided = now;
        let track = &mut self.tracks[adaptive.place];
        // Above the lowest layer, the next lower one is better.
        let lowest = adaptive.rungs.first().map(|it| it.selection.layer);
        track.may_leave_out(lowest.is_none_or(|it| it == track.source.layer));
        let interval = match adaptive.rungs.len() {
            0 | 1 => FIRST_MEASUREMENTS,
            _ => MEASUREMENTS,
        };
        if now.saturating_duration_since(adaptive.measured) >= interval {
            adaptive.measure(track.source, stream, now);
        }
        adaptive.estimate = Some(signs.train.map_or(signs.carried, |it| it.rate));
        let may_probe = session.senders()[track.sender.0].may_probe();
        let is_other = adaptive.choice.decide(&Situation {
            rungs: &adaptive.rungs,
            signs,
            waited: track.front_waited(now),
            sent: session.numbered_bytes(),
            may_probe,
            now,
        });
        self.has_padding |= adaptive.choice.has_padding();
        if is_other && let Reason::Held(rate) = adaptive.choice.reason() {
            // The layer must not wait until the controller has found the same.
            session.prove_rate(rate, now);
        }
        let is_narrow = matches!(adaptive.choice.reason(), Reason::Narrow { .. });
        match track.target() {
            _ if is_other => adaptive.moving = Some(now),
            None => adaptive.moving = None,
            Some(_) => {
                let since = *adaptive.moving.get_or_insert(now);
                if is_narrow && now.saturating_duration_since(since) >= PATIENCE {
                    adaptive.moving = Some(now);
                    return self.retry(session, stream, now);
                }
            }
        }
        is_other
    }

    /// Begins with the frames since the keyframe of a lower layer, although the path needs long for
    /// them, because no new keyframe came.
    #[cold]
    fn retry(&mut self, session: &Session, stream: &Stream, now: Instant) -> bool {
        let Some(adaptive) = &self.adaptive else {
            return false;
        };
        let (place, layer) = (adaptive.place, adaptive.choice.layer());
        let track = &mut self.tracks[place];
        if track.target().is_some_and(|it| it.layer == layer) {
            track.switch_to(LayerMove {
                drops_waiting: true,
                ..LayerMove::to(layer)
            });
            self.enter(place, session, stream, now);
        }
        false
    }

    /// Returns the layer of `stream` that the viewer's path calls for, or the best one, which may not be read
    /// yet.
    pub fn wanted(&self, stream: &Stream) -> Option<TrackLayer> {
        let Some(adaptive) = &self.adaptive else {
            let pinned = |it: &TrackSender| self.pinned(it.source, stream);
            let targets = self.tracks.iter().filter_map(TrackSender::target);
            return targets.chain(self.tracks.iter().filter_map(pinned)).next();
        };
        Some(TrackLayer {
            layer: adaptive.choice.layer(),
            ..self.tracks[adaptive.place].source
        })
    }

    /// Returns the move of a track to the layer that the viewer should get now; `None` if the track stays
    /// as it is.
    pub(super) fn chosen(
        &mut self,
        place: usize,
        stream: &Stream,
        now: Instant,
    ) -> Option<LayerMove> {
        let source = self.tracks[place].source;
        if self.fixed.contains(&source) {
            return None;
        }
        let adaptive = self.adaptive.as_mut().filter(|it| it.place == place);
        let Some(adaptive) = adaptive else {
            return Some(self.named_or_best(source, stream));
        };
        adaptive.measure(source, stream, now);
        adaptive.choice.settle(&adaptive.rungs, now);
        let layer = adaptive.choice.layer();
        self.tracks[place].limit_temporal_layers(adaptive.choice.temporal());
        let is_narrow = matches!(adaptive.choice.reason(), Reason::Narrow { .. });
        let rate = match (adaptive.choice.reason(), adaptive.estimate) {
            (Reason::Narrow { carried, .. }, _) => Some(carried),
            (Reason::Held(held), estimate) => Some(estimate.map_or(held, |it| it.max(held))),
            _ => None,
        };
        let free = LayerMove::to(layer);
        let carried = |rate: Bitrate| {
            let bytes = u128::from(rate.bps() / 8) * CATCH_UP.as_millis() / 1_000;
            usize::try_from(bytes).unwrap_or(usize::MAX)
        };
        Some(LayerMove {
            catch_up_bytes: rate.map_or(free.catch_up_bytes, |it| {
                carried(it).min(free.catch_up_bytes)
            }),
            drops_waiting: is_narrow,
            ..free
        })
    }

    /// Returns the move to the layer that the viewer named, or to the best one. Until the named one has
    /// frames, the viewer gets others.
    fn named_or_best(&self, source: TrackLayer, stream: &Stream) -> LayerMove {
        let comes = |it: TrackLayer| !stream.since_keyframe(it).is_empty();
        let pinned = self.pinned(source, stream);
        match (pinned, self.has_started) {
            (Some(pinned), has_started) if has_started || comes(pinned) => LayerMove {
                is_awaited: comes(pinned),
                ..LayerMove::to(pinned.layer)
            },
            (_, true) => LayerMove::to(stream.preferred(source.track).layer),
            (_, false) => LayerMove::to(stream.beginning(source.track).layer),
        }
    }

    /// Returns the layer of a track that the viewer asked for, where that is not the best one, and `stream`
    /// has it.
    fn pinned(&self, source: TrackLayer, stream: &Stream) -> Option<TrackLayer> {
        let pin = self.request.pin?;
        let place = usize::from(pin.0).checked_sub(1)?;
        let mut tracks = self.tracks.iter();
        let is_video = tracks.any(|it| it.kind() == Kind::Video && it.source == source);
        let is_free = is_video && !self.fixed.contains(&source);
        let tracks = stream.tracks();
        let described = tracks.get(source.track.get())?.layers.get(place)?;
        (is_free && described.is_available()).then_some(TrackLayer {
            layer: pin,
            ..source
        })
    }

    /// Sets what the viewer wishes of its video. Returns whether another layer is to be chosen.
    pub fn set_request(&mut self, request: LayerRequest, now: Instant) -> bool {
        let is_other_pin = self.request.pin != request.pin;
        self.request = request;
        let Some(adaptive) = &mut self.adaptive else {
            return is_other_pin && self.has_started;
        };
        adaptive.choice.request = request;
        adaptive.choice.settle(&adaptive.rungs, now)
    }

    /// Takes what the viewer asked for before media began. Returns whether another layer is to be chosen.
    pub fn settle_request(&mut self, stream: &Stream, now: Instant) -> bool {
        match &mut self.adaptive {
            Some(adaptive) => adaptive.choice.settle(&adaptive.rungs, now),
            None => {
                let mut sources = self.tracks.iter().map(|it| it.source);
                sources.any(|it| self.pinned(it, stream).is_some_and(|pinned| pinned != it))
            }
        }
    }

    /// Returns the layer that the viewer gets, and why; `None` where there is nothing to choose.
    pub fn layer_report(&self) -> Option<LayerReport> {
        let adaptive = self.adaptive.as_ref()?;
        Some(LayerReport {
            layer: self.tracks[adaptive.place].source,
            temporal_layers: adaptive.temporal_layers(),
            sender: self.tracks[adaptive.place].sender,
            reason: adaptive.choice.reason(),
            since: adaptive.choice.since(),
            estimate: adaptive.estimate,
        })
    }

    /// Returns whether padding leaves beside the media now.
    #[inline]
    pub(super) fn is_probing(&self) -> bool {
        let adaptive = self.adaptive.as_ref().filter(|_| self.has_padding);
        adaptive.is_some_and(|it| it.choice.is_probing())
    }

    /// Seals the padding that is due, behind the media of the same batch. `follows`: whether media has just
    /// left.
    #[cold]
    pub(super) fn send_padding<S: Sink>(
        &mut self,
        session: &mut Session,
        batch: &mut Batch<'_, S>,
        follows: bool,
        now: Instant,
    ) {
        let Some(adaptive) = &mut self.adaptive else {
            return;
        };
        let (sent, next) = (session.numbered_bytes(), session.next_transport_number());
        let mut bytes = adaptive.choice.padding(sent, next, follows, now);
        self.has_padding = adaptive.choice.has_padding();
        let (place, repeats) = (adaptive.place, adaptive.choice.is_probing());
        let sender: SenderIndex = self.tracks[place].sender;
        self.tracks[place].keep_left(repeats);
        while bytes > 0 {
            let repeated = match repeats {
                true => self.repeat(place, session, batch, now),
                false => 0,
            };
            bytes = match repeated {
                0 => {
                    batch.push(|out| session.seal_probe(sender, now, out).unwrap_or_default());
                    bytes.saturating_sub(PADDING_PACKET)
                }
                repeated => bytes.saturating_sub(repeated),
            };
        }
    }

    /// Seals a packet that has just left once more, in place of padding. Returns its size; 0 if there is
    /// none.
    fn repeat<S: Sink>(
        &mut self,
        place: usize,
        session: &mut Session,
        batch: &mut Batch<'_, S>,
        now: Instant,
    ) -> u64 {
        let track = &mut self.tracks[place];
        let Some(left) = track.left() else {
            return 0;
        };
        let ((index, sequence), unit) = (left.step(), Arc::clone(&left.unit));
        let leg = left.leg;
        let (Some(leg), Some(payload)) = (track.leg(leg), unit.payload(index)) else {
            return 0;
        };
        let payload = self
            .moved
            .payload(track.codec(), payload, leg.number_shift());
        let (timestamp, marker) = (track.timestamp(&unit, &leg), unit.marker(index));
        let mut bytes = 0;
        batch.push(|out| {
            let sealed = session.seal_retransmission(
                track.sender,
                sequence,
                timestamp,
                marker,
                payload,
                now,
                out,
            );
            bytes = sealed.unwrap_or_default();
            bytes
        });
        bytes as u64
    }
}
