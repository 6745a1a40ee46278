//! Decoding and playout: audio is decoded, joined to concealed audio, and reported when it is
//! played.

use std::time::{Duration, Instant};

use super::packet::{PLAYED_MAX, PendingPacket, Played};
use super::{Buffer, Last};
use crate::codec::Decoder;
use crate::pitch;
use crate::stamps::Operation;

/// Part of the speech level below which audio is background.
const SILENCE_SHARE: f32 = 0.1;
/// Root mean square below which audio is background at any speech level.
const SILENCE_LEVEL: f32 = 0.000_5;

impl<D: Decoder> Buffer<D> {
    /// Decodes the first packet in hand, which is due.
    pub(super) fn decode(&mut self) {
        let Some((at, queued)) = self.queue.take_first() else {
            return;
        };
        self.end_stall(at, queued.sequence);
        self.decoded.clear();
        let result = self.decoder.decode(&queued.payload, &mut self.decoded);
        let channels = self.format().channels();
        self.decoded.resize(queued.frames * channels, 0.0);
        if result.is_err() {
            self.counts.undecodable += 1;
            self.conceal(queued.frames);
            self.next = self.next.max(at + queued.frames as i64);
            return;
        }
        self.ceiling.bound_decoded(&mut self.decoded);
        self.update_level();
        let gone = usize::try_from(self.next - at).unwrap_or(0);
        let gone = gone.min(queued.frames);
        if gone > 0 {
            self.was_concealed(at, self.next);
        }
        let pending = (gone < queued.frames).then_some(PendingPacket {
            sequence: queued.sequence.map(|it| it as u16),
            timestamp: queued.ticks,
            arrival: queued.arrival,
            operation: match (queued.sequence, gone > 0 || self.gaps.was_late) {
                (None, _) => Operation::Repeated,
                (_, true) => Operation::Late,
                (_, false) => Operation::Normal,
            },
        });
        let decoded = std::mem::take(&mut self.decoded);
        self.join(&decoded[gone * channels..], pending);
        self.decoded = decoded;
        self.next = at + queued.frames as i64;
        self.last = Some(Last {
            sequence: queued.sequence,
            begins_silence: self.decoder.begins_silence(&queued.payload),
        });
        if queued.sequence.is_none() {
            self.counts.repeated += 1;
        }
    }

    /// Plays waiting audio into `out` and records the packets that begin in it.
    pub(super) fn play(&mut self, now: Instant, out: &mut [f32]) {
        let format = self.format();
        let (pending, played) = (&mut self.records.pending, &mut self.records.played);
        self.playout_buffer.play(out, |frames| {
            let Some(packet) = pending.pop_front() else {
                return;
            };
            if played.len() == PLAYED_MAX {
                played.pop_front();
            }
            let offset = Duration::from_secs_f64(format.ms(frames) / 1e3);
            played.push_back(Played {
                sequence: packet.sequence,
                timestamp: packet.timestamp,
                arrival: packet.arrival,
                wait: now.saturating_duration_since(packet.arrival) + offset,
                offset,
                operation: packet.operation,
            });
        });
    }

    /// Decides, when a packet ends a stall, whether it was late or others before it are lost.
    pub(super) fn end_stall(&mut self, at: i64, sequence: Option<u64>) {
        let stalled = std::mem::take(&mut self.gaps.stalled);
        self.gaps.was_late = false;
        let last = self.last.and_then(|last| last.sequence);
        let missing = match (last, sequence) {
            (Some(last), Some(sequence)) => self.order.between(last, sequence),
            _ => 0,
        };
        self.counts.lost += missing;
        if missing > 0 && !self.decoder.is_stateless() {
            self.ceiling.on_loss();
        }
        if stalled > 0 && missing == 0 && at <= self.next {
            self.target.was_late(self.format().ms(stalled));
            self.gaps.was_late = true;
        }
    }

    /// Appends decoded audio to the playout buffer, crossfading if concealment came before
    /// it, and marks where its packet begins.
    pub(super) fn join(&mut self, decoded: &[f32], pending: Option<PendingPacket>) {
        match self.expansion.take() {
            Some(expansion) if !decoded.is_empty() => {
                let (joined, longer) = expansion.join(decoded, self.is_background(decoded));
                self.mark_packet(pending, longer);
                self.counts.frames_concealed += longer as u64;
                if std::mem::take(&mut self.gaps.was_late) {
                    self.target.was_late(self.format().ms(longer));
                }
                self.playout_buffer.append(&joined);
            }
            kept => {
                self.expansion = kept;
                self.mark_packet(pending, 0);
                self.playout_buffer.append(decoded);
            }
        }
    }

    /// Marks the beginning of a packet, `frames` frames behind the end of the playout buffer.
    pub(super) fn mark_packet(&mut self, pending: Option<PendingPacket>, frames: usize) {
        if let Some(pending) = pending {
            self.playout_buffer.mark(frames);
            self.records.pending.push_back(pending);
        }
    }

    /// Whether the waiting audio is background.
    pub(super) fn is_quiet(&self) -> bool {
        self.is_background(
            self.playout_buffer
                .span(0, self.playout_buffer.waiting() as isize),
        )
    }

    /// Whether `samples` are background.
    pub(super) fn is_background(&self, samples: &[f32]) -> bool {
        pitch::level(samples) < (self.level * SILENCE_SHARE).max(SILENCE_LEVEL)
    }

    /// Updates the speech level with decoded audio: it rises at once and falls within
    /// seconds.
    pub(super) fn update_level(&mut self) {
        let frames = self.decoded.len() / self.format().channels();
        let fades = (-self.format().ms(frames) / 3_000.0).exp() as f32;
        let level = pitch::level(&self.decoded);
        if level.is_finite() {
            self.level = level.min(1.0).max(self.level * fades);
        }
    }
}
