use std::sync::Arc;
use std::time::Instant;

use glassline_hub::{PublishError, Publisher, Stream};
use glassline_media::{MediaUnit, Track, TrackIndex};
use glassline_rtp::Packet as Rtp;
use glassline_rtp::payload::UnsupportedFormat;
use glassline_rtp::rtcp;

use crate::ingest::rtsp::TrackPipeline;
use crate::ingest::{Assembler, Packet};

/// Publishes the packets of a playing camera.
#[derive(Debug)]
pub(super) struct Receiver<'a> {
    stream: &'a Arc<Stream>,
    /// Index of each used track in the camera's description.
    described: Vec<TrackIndex>,
    pipelines: Vec<TrackPipeline>,
    assembler: Assembler,
    media_units: Vec<MediaUnit>,
    publisher: Option<Publisher>,
    /// Arrival of the first track's latest packet. The first track decides: a microphone may be
    /// switched off, but a camera whose video stands still is down even if its audio continues.
    pub(super) last_received: Instant,
}

impl<'a> Receiver<'a> {
    /// Prepares to receive the `chosen` tracks, each with its index in the camera's description.
    pub(super) fn new(
        chosen: Vec<(TrackIndex, Track)>,
        by_datagrams: bool,
        stream: &'a Arc<Stream>,
        now: Instant,
    ) -> Result<Self, UnsupportedFormat> {
        let mut pipelines = Vec::with_capacity(chosen.len());
        for (_, track) in &chosen {
            let mut pipeline = TrackPipeline::new(track.clock_rate);
            if by_datagrams {
                pipeline.come_by_datagrams();
            }
            pipelines.push(pipeline);
        }
        Ok(Self {
            stream,
            described: chosen.iter().map(|(index, _)| *index).collect(),
            pipelines,
            assembler: Assembler::new(chosen.into_iter().map(|(_, track)| track).collect())?,
            media_units: Vec::new(),
            publisher: None,
            last_received: now,
        })
    }

    pub(super) fn is_live(&self) -> bool {
        self.publisher.is_some()
    }

    /// Takes an RTP packet of the camera's track `described`, or an RTCP packet if `control` is set.
    pub(super) fn take(
        &mut self,
        described: TrackIndex,
        control: bool,
        bytes: &[u8],
        received: Instant,
    ) {
        let mut used = self.described.iter();
        let Some(track) = used.position(|it| *it == described).map(TrackIndex) else {
            return;
        };
        if control {
            return self.take_reports(track, bytes, received);
        }
        // Data that is not RTP is dropped, as on any port.
        let Ok(packet) = Rtp::parse(bytes) else {
            return;
        };
        if track == TrackIndex(0) {
            self.last_received = received;
        }
        let (assembler, out) = (&mut self.assembler, &mut self.media_units);
        self.pipelines[track].take(&packet, received, |packet| {
            assembler.push(&Packet::of(track, packet), out);
        });
    }

    fn take_reports(&mut self, track: TrackIndex, bytes: &[u8], received: Instant) {
        for packet in rtcp::parse(bytes).flatten() {
            if let rtcp::Packet::SenderReport(report) = packet {
                let (ntp, timestamp) = (report.ntp.0, report.rtp_timestamp);
                self.assembler.sender_report(track, ntp, timestamp);
                self.pipelines[track].on_sender_report(&report, received);
            }
        }
    }

    /// Returns when [`Self::publish`] must be called because a missing packet is overdue.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let deadlines = self.pipelines.iter().filter_map(TrackPipeline::deadline);
        deadlines.min()
    }

    /// Gives up missing packets that are overdue, and publishes the units that are complete.
    /// `live_since` is set to the time of the first one.
    pub(super) fn publish(
        &mut self,
        now: Instant,
        live_since: &mut Option<Instant>,
    ) -> Result<(), PublishError> {
        let (assembler, out) = (&mut self.assembler, &mut self.media_units);
        for (track, pipeline) in TrackIndex::enumerate(&mut self.pipelines) {
            pipeline.expire(now, |packet| {
                assembler.push(&Packet::of(track, packet), out);
            });
        }
        if let Some(publisher) = &mut self.publisher
            && let Some(tracks) = self.assembler.take_redescribed()
        {
            publisher.describe(tracks)?;
        }
        for media_unit in self.media_units.drain(..) {
            let publisher = match &mut self.publisher {
                Some(publisher) => publisher,
                // Nobody can watch before the first keyframe, so the stream is not live until then.
                None if self.assembler.starts(&media_unit) => {
                    let tracks = self.assembler.tracks().to_vec();
                    self.publisher.insert(self.stream.publish(tracks, now)?)
                }
                None => continue,
            };
            publisher.push(media_unit, now)?;
            if live_since.is_none() {
                let (stream, tracks) = (self.stream.name(), self.assembler.tracks().len());
                tracing::info!(%stream, tracks, "camera live");
                *live_since = Some(now);
            }
        }
        Ok(())
    }
}
