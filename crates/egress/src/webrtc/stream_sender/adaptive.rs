//! A viewer's layer by what its path carries.
//!
//! ```text
//! transport feedback ─► adapt_layers ─► LayerChoice ─► choose ─► TrackSender moves
//!                                           └► padding beside the media, in flush
//! ```
//!
//! Only a viewer of a track with several layers has this state; others pay nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::Stream;
use glassline_media::{Bitrate, Kind, LayerAbsence, LayerIndex, TrackLayer};
use glassline_webrtc::{SenderIndex, Session};
use smallvec::SmallVec;

use super::StreamSender;
use crate::webrtc::layer_choice::{
    LayerChoice, LayerRequest, PADDING_PACKET, Reason, Rung, Situation,
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
    /// The reason why the viewer gets this layer.
    pub reason: Reason,
    /// When the layer was chosen.
    pub since: Instant,
    /// Measured rate of what the path carries.
    pub estimate: Option<Bitrate>,
}

/// The choice of the video's layer.
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
    /// Measures the layers that are alive, up to the best one of `stream`.
    fn measure(&mut self, track: TrackLayer, stream: &Stream, now: Instant) {
        self.measured = now;
        let best = stream.preferred(track.track);
        let tracks = stream.tracks();
        let layers = tracks.get(track.track.get()).map(|it| &it.layers[..]);
        let before = std::mem::take(&mut self.rungs);
        for (place, known) in layers.unwrap_or_default().iter().enumerate() {
            if known.other_codec.is_some() {
                continue;
            }
            let layer = LayerIndex::of_encoding(place);
            let fresh = match &known.absence {
                // It comes once it is read.
                Some(LayerAbsence::Paused) => known.bitrate.unwrap_or_default(),
                _ => stream.figures(TrackLayer { layer, ..track }, now).bitrate,
            };
            let fresh = fresh.bps();
            if fresh == 0 && layer != best.layer {
                continue;
            }
            let old = before
                .iter()
                .find(|it| it.layer == layer && it.rate.bps() > 0);
            let bps = old.map_or(fresh, |old| (old.rate.bps() + fresh) / 2);
            self.rungs.push(Rung {
                layer,
                rate: Bitrate::from_bps(bps),
                height: known.size.map(|(_, height)| u32::from(height)),
            });
        }
        self.rungs.sort_by_key(|it| it.rate);
        let place = self.rungs.iter().position(|it| it.layer == best.layer);
        match place {
            // Right after its beginning, a layer has no rate.
            Some(place) if self.rungs[place].rate.bps() > 0 => self.rungs.truncate(place + 1),
            _ => self.rungs.retain(|it| it.layer == best.layer),
        }
    }
}

impl StreamSender {
    /// Begins to choose the video's layer by the path, if the stream has several and the session measures
    /// the path.
    pub(super) fn adapt(&mut self, session: &mut Session, stream: &Stream, now: Instant) {
        let is_layered = |of: &TrackLayer| of.layer != LayerIndex::BASE && !self.fixed.contains(of);
        let mut tracks = self.tracks.iter();
        let found = tracks.position(|it| it.kind() == Kind::Video && is_layered(&it.source));
        let Some(place) = found.filter(|_| self.adaptive.is_none()) else {
            return;
        };
        if !session.begin_congestion_control(now) {
            return;
        }
        let track = self.tracks[place].source;
        let mut adaptive = Adaptive {
            place,
            choice: LayerChoice::new(track.layer, now),
            rungs: SmallVec::new(),
            measured: now,
            decided: now,
            moving: None,
            estimate: None,
        };
        adaptive.measure(track, stream, now);
        adaptive.choice.request = self.request;
        self.adaptive = Some(Box::new(adaptive));
    }

    /// Takes what the latest transport feedback says. Returns whether the viewer should get another layer:
    /// call [`choose`](Self::choose) once the layers of [`wanted`](Self::wanted) are read.
    pub fn adapt_layers(&mut self, session: &Session, stream: &Stream, now: Instant) -> bool {
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
        let lowest = adaptive.rungs.first().map(|it| it.layer);
        track.leave_out(lowest.is_none_or(|it| it == track.source.layer));
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

    /// Returns the layer that the viewer's path calls for, or the best one, which may not be read yet.
    pub fn wanted(&self) -> Option<TrackLayer> {
        let Some(adaptive) = &self.adaptive else {
            return self.tracks.iter().find_map(TrackSender::target);
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
            let layer = match self.has_started {
                true => stream.preferred(source.track),
                false => stream.beginning(source.track),
            };
            return Some(LayerMove::to(layer.layer));
        };
        adaptive.measure(source, stream, now);
        adaptive.choice.settle(&adaptive.rungs, now);
        let layer = adaptive.choice.layer();
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

    /// Sets what the viewer wishes of its video. Returns whether another layer is to be chosen.
    pub fn set_request(&mut self, request: LayerRequest, now: Instant) -> bool {
        self.request = request;
        let Some(adaptive) = &mut self.adaptive else {
            return false;
        };
        adaptive.choice.request = request;
        adaptive.choice.settle(&adaptive.rungs, now)
    }

    /// Returns the layer that the viewer gets, and why; `None` where there is nothing to choose.
    pub fn layer_report(&self) -> Option<LayerReport> {
        let adaptive = self.adaptive.as_ref()?;
        Some(LayerReport {
            layer: self.tracks[adaptive.place].source,
            reason: adaptive.choice.reason(),
            since: adaptive.choice.since(),
            estimate: adaptive.estimate,
        })
    }

    /// Returns whether padding leaves beside the media now.
    #[inline]
    pub(super) fn is_probing(&self) -> bool {
        self.adaptive
            .as_ref()
            .is_some_and(|it| it.choice.is_probing())
    }

    /// Seals the padding that is due, behind the media of the same batch.
    #[cold]
    pub(super) fn send_padding<S: Sink>(
        &mut self,
        session: &mut Session,
        batch: &mut Batch<'_, S>,
        now: Instant,
    ) {
        let Some(adaptive) = &mut self.adaptive else {
            return;
        };
        let (sent, next) = (session.numbered_bytes(), session.next_transport_number());
        let mut bytes = adaptive.choice.padding(sent, next, now);
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
        let (Some(leg), Some(payload)) = (track.leg(leg).copied(), unit.payload(index)) else {
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
