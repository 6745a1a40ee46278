use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::{Codec, Histogram, Kind};
use glassline_rtp::Header;
use glassline_rtp::reorder::ReceivedPacket;
use glassline_webrtc::Received;

use super::flow::{FrameGaps, Recent};
use super::{Conduct, Endpoint, Flow, Id, Mode, Progress, State, Viewer};
use receiver::Receiver;

mod receiver;
#[cfg(test)]
mod tests;

/// Everything known about one viewer's success.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) state: State,
    pub(super) failure: Option<String>,
    /// When the POST began.
    pub(super) started: Option<Instant>,
    /// Datagrams that the session dropped, by reason.
    pub(super) dropped: BTreeMap<&'static str, u64>,
    /// Datagrams that the kernel refused to send.
    pub(super) unsent: u64,
    /// Packets requested again (NACK).
    pub(super) nacked: u64,
    connected: Option<Instant>,
    first_packet: Option<Instant>,
    first_keyframe: Option<Instant>,
    protection: Option<&'static str>,
    /// Receivers in the order in which the session numbers them.
    receivers: Vec<Receiver>,
    gaps: FrameGaps,
    frames: Frames,
    /// Whether a decoder would need a keyframe now.
    keyframe_wanted: bool,
    /// Delays of frames since the last query.
    delays: Recent,
}

/// Counts of a viewer's video frames.
#[derive(Clone, Copy, Debug, Default)]
struct Frames {
    whole: u64,
    keyframes: u64,
    damaged: u64,
}

impl Counts {
    /// Notes that the handshake is done, or that the server said that it plays. `protection`
    /// names the SRTP profile or TLS.
    pub(super) fn connect(&mut self, now: Instant, protection: Option<&'static str>) {
        self.state = self.state.max(State::Connected);
        self.connected.get_or_insert(now);
        self.protection = protection;
    }

    /// Ends the viewer; the first reason is kept.
    pub(super) fn end(&mut self, reason: String) {
        self.state = State::Ended;
        self.failure.get_or_insert(reason);
    }

    /// Records the delay of a frame from capture to arrival.
    pub(super) fn record_delay(&mut self, delay: Duration) {
        self.delays.push(delay);
    }

    /// Moves the delays since the last query into a histogram.
    pub(super) fn take_delays(&mut self, into: &mut Histogram) {
        self.delays.take(into);
    }

    /// Moves the gaps since the last query into a histogram.
    pub(super) fn take_gaps(&mut self, into: &mut Histogram) {
        self.gaps.take_recent(into);
    }

    /// Adds the next receiver, in the session's order. `codec` is `None` for one whose
    /// packets are only counted.
    pub(super) fn expect(&mut self, kind: Kind, codec: Option<Codec>, clock_rate: u32) {
        self.receivers.push(Receiver::new(kind, codec, clock_rate));
    }

    /// Counts the content of a datagram of `bytes` bytes.
    pub(super) fn take(&mut self, now: Instant, received: &Received<'_>, bytes: usize) {
        let (index, sequence, repaired, header) = match received {
            Received::Rtp {
                receiver,
                sequence,
                repaired,
                packet,
                ..
            } => (receiver.0, *sequence, *repaired, &packet.header),
            Received::Counted {
                receiver,
                sequence,
                repaired,
                header,
            } => (receiver.0, *sequence, *repaired, header),
            _ => return,
        };
        let Some(receiver) = self.receivers.get_mut(index) else {
            return;
        };
        self.first_packet.get_or_insert(now);
        if self.state < State::Playing {
            self.state = State::Playing;
        }
        receiver.count(sequence, repaired, header, bytes);
        let is_taken_apart = match received {
            Received::Rtp { packet, .. } => receiver.push(ReceivedPacket {
                sequence,
                timestamp: header.timestamp,
                marker: header.marker,
                payload: packet.payload,
                received: now,
            }),
            _ => false,
        };
        match is_taken_apart {
            true => self.collect(index, now),
            false => self.count_frame(index, header, now),
        }
    }

    /// Gives up gaps that will not be filled.
    pub(super) fn expire(&mut self, now: Instant) {
        for index in 0..self.receivers.len() {
            if self.receivers[index].expire(now) {
                self.collect(index, now);
            }
        }
    }

    /// When [`Self::expire`] next has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let receivers = self.receivers.iter();
        receivers.filter_map(Receiver::deadline).min()
    }

    /// Index of the receiver whose decoder needs a keyframe; returned once each time the need
    /// arises.
    pub(super) fn take_keyframe_wanted(&mut self) -> Option<usize> {
        if !std::mem::take(&mut self.keyframe_wanted) {
            return None;
        }
        let mut receivers = self.receivers.iter();
        receivers.position(|receiver| receiver.kind() == Kind::Video)
    }

    /// Counts a packet that is not depacketized: audio, or a clear header only.
    fn count_frame(&mut self, index: usize, header: &Header, now: Instant) {
        let video_frames = self.has_video();
        match self.receivers[index].kind() {
            Kind::Video if header.marker => {
                self.frames.whole += 1;
                self.gaps.on_frame(now);
            }
            Kind::Audio if !video_frames => self.gaps.on_frame(now),
            _ => {}
        }
    }

    /// Counts the frames that the depacketizer has completed.
    fn collect(&mut self, index: usize, now: Instant) {
        while let Some(unit) = self.receivers[index].poll() {
            self.frames.whole += 1;
            self.gaps.on_frame(now);
            if unit.is_keyframe() {
                self.frames.keyframes += 1;
                self.first_keyframe.get_or_insert(now);
            } else if unit.after_loss {
                self.keyframe_wanted = true;
            }
        }
        let damaged = self.receivers.iter().map(Receiver::damaged).sum();
        self.keyframe_wanted |= damaged > self.frames.damaged;
        self.frames.damaged = damaged;
    }

    fn has_video(&self) -> bool {
        let mut receivers = self.receivers.iter();
        receivers.any(|receiver| receiver.kind() == Kind::Video)
    }

    fn flow(&self, kind: Kind) -> Flow {
        let receivers = self.receivers.iter();
        receivers
            .filter(|receiver| receiver.kind() == kind)
            .fold(Flow::default(), |sum, receiver| sum.and(receiver.flow()))
    }

    fn after_start(&self, at: Option<Instant>) -> Option<Duration> {
        let (at, started) = (at?, self.started?);
        Some(at.saturating_duration_since(started))
    }

    pub(super) fn progress(&self, id: Id, mode: Mode, conduct: Conduct) -> Progress {
        Progress {
            id,
            mode,
            conduct,
            state: self.state,
            failure: self.failure.as_deref().map(Arc::from),
            connect_time: self.after_start(self.connected),
            join_time: self.after_start(self.first_packet),
            video: self.flow(Kind::Video),
            audio: self.flow(Kind::Audio),
            frames: self.frames.whole,
            damaged: self.frames.damaged,
            nacked: self.nacked,
            hls: None,
        }
    }

    pub(super) fn snapshot(&self, id: Id, endpoint: Endpoint) -> Viewer {
        Viewer {
            id,
            endpoint,
            state: self.state,
            failure: self.failure.clone(),
            connect_time: self.after_start(self.connected),
            join_time: self.after_start(self.first_packet),
            frame_time: self.after_start(self.first_keyframe),
            protection: self.protection,
            video: self.flow(Kind::Video),
            audio: self.flow(Kind::Audio),
            frames: self.frames.whole,
            keyframes: self.frames.keyframes,
            damaged: self.frames.damaged,
            gaps: self.gaps.gaps().clone(),
            dropped: self
                .dropped
                .iter()
                .map(|(why, count)| (*why, *count))
                .collect(),
            unsent: self.unsent,
            nacked: self.nacked,
        }
    }
}
