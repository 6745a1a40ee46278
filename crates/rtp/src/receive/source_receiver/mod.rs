use std::time::Instant;

use glassline_media::{Track, TrackIndex};

use super::TrackPipeline;
use crate::Packet;
use crate::reorder::ReceivedPacket;
use crate::rtcp;

/// Receives the tracks of a source: reads RTP and RTCP, puts packets in order and finds sender
/// reports.
///
/// ```text
/// RTP of a track ─► TrackPipeline ─► Received::Packet
/// RTCP ─► sender report ──────────► Received::Report
/// ```
///
/// Memory is bounded by the reordering of each track.
#[derive(Debug)]
pub struct SourceReceiver {
    pipelines: Vec<TrackPipeline>,
}

/// A part of what a source sent, for the track's next stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// The next packet of the track in sequence order.
    Packet(ReceivedPacket<'a>),
    /// The source sampled a timestamp at this time (RFC 3550 §6.4.1).
    Report {
        /// NTP time in units of 2⁻³² s.
        ntp: u64,
        /// RTP timestamp of the sample, as on the wire.
        timestamp: u32,
    },
}

impl SourceReceiver {
    /// Creates the state of `tracks`, whose packets come within a connection until
    /// [`Self::come_by_datagrams`] is called.
    pub fn new(tracks: &[Track]) -> Self {
        let pipelines = tracks.iter().map(|it| TrackPipeline::new(it.clock_rate));
        Self {
            pipelines: pipelines.collect(),
        }
    }

    /// Returns the pipeline of a track; `None` for an unknown track.
    pub fn pipeline(&self, track: TrackIndex) -> Option<&TrackPipeline> {
        self.pipelines.get(track.get())
    }

    /// Returns the pipeline of a track, to change its state; `None` for an unknown track.
    pub fn pipeline_mut(&mut self, track: TrackIndex) -> Option<&mut TrackPipeline> {
        self.pipelines.get_mut(track.get())
    }

    /// Returns the pipelines of all tracks, to change their state.
    pub fn pipelines_mut(&mut self) -> impl Iterator<Item = (TrackIndex, &mut TrackPipeline)> {
        TrackIndex::enumerate(&mut self.pipelines)
    }

    /// Notes the payload types that a track's description has. Packets of other types are no media,
    /// unless the source sends none of these.
    pub fn expect_payload_types(&mut self, track: TrackIndex, types: impl IntoIterator<Item = u8>) {
        if let Some(pipeline) = self.pipelines.get_mut(track.get()) {
            pipeline.expect_payload_types(types);
        }
    }

    /// Forgets a track, which is not received. The tracks behind it move up by one.
    pub fn leave_out(&mut self, track: TrackIndex) {
        if track.get() < self.pipelines.len() {
            self.pipelines.remove(track.get());
        }
    }

    /// Notes that the packets of a track come by UDP, where they overtake each other.
    pub fn come_by_datagrams(&mut self, track: TrackIndex) {
        if let Some(pipeline) = self.pipelines.get_mut(track.get()) {
            pipeline.come_by_datagrams();
        }
    }

    /// Takes the RTP packet `bytes` of `track`, or an RTCP packet if `control` is set. Hands `sink`
    /// the packets that are in order now, or the sender reports.
    ///
    /// Returns whether `bytes` is media of a known track. Data that is neither RTP nor RTCP is
    /// dropped, as on any port.
    pub fn take(
        &mut self,
        track: TrackIndex,
        control: bool,
        bytes: &[u8],
        now: Instant,
        mut sink: impl FnMut(TrackIndex, Received<'_>),
    ) -> bool {
        let Some(pipeline) = self.pipelines.get_mut(track.get()) else {
            return false;
        };
        if is_control(control, bytes, pipeline) {
            for packet in rtcp::parse(bytes).flatten() {
                if let rtcp::Packet::SenderReport(report) = packet {
                    let (ntp, timestamp) = (report.ntp.0, report.rtp_timestamp);
                    sink(track, Received::Report { ntp, timestamp });
                    pipeline.on_sender_report(&report, now);
                }
            }
            return false;
        }
        let Ok(packet) = Packet::parse(bytes) else {
            return false;
        };
        pipeline.take(&packet, now, |packet| sink(track, Received::Packet(packet)))
    }

    /// Gives up missing packets that are overdue, and hands `sink` those behind them.
    pub fn expire(&mut self, now: Instant, mut sink: impl FnMut(TrackIndex, Received<'_>)) {
        for (track, pipeline) in TrackIndex::enumerate(&mut self.pipelines) {
            pipeline.expire(now, |packet| sink(track, Received::Packet(packet)));
        }
    }

    /// Returns when [`Self::expire`] must be called because a missing packet is overdue.
    pub fn deadline(&self) -> Option<Instant> {
        let deadlines = self.pipelines.iter().filter_map(TrackPipeline::deadline);
        deadlines.min()
    }
}

/// Returns whether `bytes` is RTCP (RFC 5761 §4). Some cameras send RTCP between RTP packets, or RTP
/// where RTCP belongs (`control`): the types in the packets tell.
fn is_control(control: bool, bytes: &[u8], pipeline: &TrackPipeline) -> bool {
    const CONTROL_TYPES: std::ops::RangeInclusive<u8> = 192..=223;
    let Some(kind) = bytes.get(1) else {
        return control;
    };
    let is_described = pipeline.describes(kind & 0x7f);
    match CONTROL_TYPES.contains(kind) {
        true => control || !is_described,
        false => control && !is_described,
    }
}

#[cfg(test)]
mod tests;
