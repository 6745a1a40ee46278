//! Audio for missing packets: while a packet is late, in place of a lost one, and while the
//! sender is silent.

use std::time::Instant;

use super::Buffer;
use crate::codec::Decoder;
use crate::expand::Expansion;

impl<D: Decoder> Buffer<D> {
    /// Adds at least one frame to the waiting audio, ideally `wanted`.
    pub(super) fn fill(&mut self, now: Instant, wanted: usize) {
        if !self.is_begun {
            return self.expand(wanted);
        }
        self.drop_late_packets();
        match self.queue.first() {
            Some((at, _)) if at <= self.next => self.decode(),
            Some((at, _)) => {
                let gap = usize::try_from(at - self.next).expect("it is later");
                self.fill_gap(gap, wanted, now);
            }
            None => self.expand_without_packets(wanted),
        }
    }

    /// Conceals or recovers part of the `gap` frames that are missing before the first packet
    /// in hand.
    fn fill_gap(&mut self, gap: usize, wanted: usize, now: Instant) {
        let (_, first) = self.queue.first().expect("the caller saw it");
        let last = self.last.and_then(|last| last.sequence);
        let follows = last.zip(first.sequence).is_some_and(|(last, next)| {
            // No packet with audio is between them.
            last < next && self.order.between(last, next) == 0
        });
        let is_silence = follows || self.last.is_some_and(|last| last.begins_silence);
        if is_silence {
            return self.play_comfort_noise(gap, wanted, now);
        }
        // The packet was not late but lost: the audio played meanwhile replaces it.
        let stood = self.gaps.stalled.min(gap);
        self.gaps.stalled -= stood;
        self.next += stood as i64;
        if gap == first.frames && self.recover(gap, stood) || stood == gap {
            return;
        }
        let gap = gap - stood;
        // A little at a time, since the packet may still arrive.
        let step = self.format().frames(2.5).max(wanted).min(gap);
        self.remember_concealed(step);
        self.conceal(step);
        self.next += step as i64;
    }

    /// Recovers the `gap` frames before the first packet in hand from its redundancy (FEC),
    /// and plays all but the first `stood` of them. Returns false if the packet has no
    /// redundancy.
    fn recover(&mut self, gap: usize, stood: usize) -> bool {
        let Some((at, first)) = self.queue.first() else {
            return false;
        };
        self.decoded.clear();
        if !self.decoder.recover(&first.payload, gap, &mut self.decoded) {
            return false;
        }
        // The delay of the recovered audio counts like a packet's.
        let came = self.since(first.arrival);
        let delay = came - (at - gap as i64) as f64 * self.frame_ms();
        self.target.arrived(came, delay);
        self.next = at;
        self.counts.recovered += 1;
        self.ceiling.on_loss();
        self.ceiling.bound_decoded(&mut self.decoded);
        let channels = self.format().channels();
        let decoded = std::mem::take(&mut self.decoded);
        if let Some(rest) = decoded.get(stood * channels..).filter(|it| !it.is_empty()) {
            self.join(rest, None);
        }
        self.decoded = decoded;
        true
    }

    /// Plays comfort noise for a sender that was silent for `gap` frames; the silence may be
    /// made longer or shorter to reach the target delay.
    fn play_comfort_noise(&mut self, gap: usize, wanted: usize, now: Instant) {
        let error = self.error_ms(now).unwrap_or(0.0);
        let frames = (error * f64::from(self.format().rate()) / 1e3) as i64;
        self.next += frames.min(gap as i64);
        let left = usize::try_from(frames.max(0)).expect("not negative");
        let gap = gap.saturating_sub(left);
        let step = wanted.min(gap);
        self.comfort(step);
        self.next += step as i64;
    }

    /// Continues the audio while no packet is in hand.
    fn expand_without_packets(&mut self, wanted: usize) {
        if self.last.is_some_and(|last| last.begins_silence) {
            self.comfort(wanted);
            self.next += wanted as i64;
            return;
        }
        self.counts.frames_concealed += wanted as u64;
        self.expand(wanted);
        let most = self
            .format()
            .frames(self.config.stall_max.as_secs_f64() * 1e3);
        if self.gaps.stalled + wanted > most {
            self.next += wanted as i64;
        }
        self.gaps.stalled += wanted;
    }

    /// Whether audio is being expanded because no packet is in hand.
    pub(super) fn is_expanding(&self) -> bool {
        self.gaps.stalled > 0 && self.queue.end().is_none_or(|end| end <= self.next)
    }

    /// Conceals `frames` frames with the codec's concealment, else by expanding.
    pub(super) fn conceal(&mut self, frames: usize) {
        self.counts.frames_concealed += frames as u64;
        self.decoded.clear();
        if self.decoder.conceal(frames, &mut self.decoded) {
            self.decoded
                .resize(frames * self.playout_buffer.format().channels(), 0.0);
            self.ceiling.bound_concealed(&mut self.decoded);
            let decoded = std::mem::take(&mut self.decoded);
            self.join(&decoded, None);
            self.decoded = decoded;
        } else {
            self.expand(frames);
        }
    }

    fn comfort(&mut self, frames: usize) {
        self.counts.frames_comfort += frames as u64;
        self.decoded.clear();
        if self.decoder.comfort(frames, &mut self.decoded) {
            self.decoded
                .resize(frames * self.playout_buffer.format().channels(), 0.0);
            let decoded = std::mem::take(&mut self.decoded);
            self.join(&decoded, None);
            self.decoded = decoded;
        } else {
            self.expand(frames);
        }
    }

    /// Appends `frames` frames of expanded audio.
    pub(super) fn expand(&mut self, frames: usize) {
        let expansion = self
            .expansion
            .get_or_insert_with(|| Expansion::after(&self.playout_buffer));
        let mut more = Vec::new();
        expansion.generate(frames, &mut more);
        self.playout_buffer.append(&more);
    }

    /// Remembers that the next `frames` frames of media time are being concealed.
    fn remember_concealed(&mut self, frames: usize) {
        let end = self.next + frames as i64;
        match self.gaps.concealed.back_mut() {
            Some(last) if last.end == self.next => last.end = end,
            _ => self.gaps.concealed.push_back(self.next..end),
        }
        if self.gaps.concealed.len() > 32 {
            self.gaps.concealed.pop_front();
        }
    }

    /// Charges the target for a packet that arrived for media times which were concealed: it
    /// was late, not lost.
    pub(super) fn was_concealed(&mut self, from: i64, to: i64) {
        let mut late = 0;
        for span in &self.gaps.concealed {
            late += (span.end.min(to) - span.start.max(from)).max(0);
        }
        if late > 0 {
            self.target.was_late(late as f64 * self.frame_ms());
            // Each concealed span is charged once.
            self.gaps
                .concealed
                .retain(|span| span.end <= from || span.start >= to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;
    use crate::codec::{Format, L16};

    #[test]
    fn what_was_concealed_is_remembered_in_32_spans_and_charged_once() {
        let format = Format::new(8_000, 1).expect("mono");
        let mut buffer = Buffer::new(Config::default(), L16::new(format));
        for span in 0..40 {
            buffer.next = 1_000 * span;
            // In two pieces, which are one span.
            buffer.remember_concealed(40);
            buffer.next += 40;
            buffer.remember_concealed(40);
        }
        let spans: Vec<_> = buffer.gaps.concealed.iter().cloned().collect();
        let wanted: Vec<_> = (8..40).map(|it| 1_000 * it..1_000 * it + 80).collect();
        assert_eq!(spans, wanted);
        let mut charge = |from, to| {
            let mut fresh = buffer.target.clone();
            // What was charged before is forgiven.
            fresh.passed(1e6);
            buffer.target = fresh;
            let before = buffer.target.charged();
            buffer.was_concealed(from, to);
            (
                buffer.target.charged() - before,
                buffer.gaps.concealed.len(),
            )
        };
        // Next to a span; half of one, which goes whole; two at once.
        assert_eq!(charge(9_080, 10_000), (0.0, 32));
        assert_eq!(charge(10_040, 10_500), (5.0, 31));
        assert_eq!(charge(10_040, 10_500), (0.0, 31));
        assert_eq!(charge(11_000, 12_080), (20.0, 29));
        assert_eq!(charge(12_900, 13_040), (5.0, 28));
    }
}
