use std::sync::Arc;
use std::time::Instant;

use glassline_hub::{PublishError, Publisher, SourceNote, Stream};
use glassline_media::{MediaUnit, Track, TrackIndex};
use glassline_rtp::payload::UnsupportedFormat;
use glassline_rtp::receive::{Received, SourceReceiver};

use crate::ingest::Assembler;

/// Publishes the packets of a playing camera.
#[derive(Debug)]
pub(super) struct Receiver<'a> {
    stream: &'a Arc<Stream>,
    /// What the camera is, and which of its tracks are left out.
    note: SourceNote,
    /// Index of each used track in the camera's description.
    described: Vec<TrackIndex>,
    packets: SourceReceiver,
    assembler: Assembler,
    media_units: Vec<MediaUnit>,
    publisher: Option<Publisher>,
    /// Arrival of the first track's latest packet. The first track decides: a microphone may be
    /// switched off, but a camera whose video stands still is down even if its audio continues.
    pub(super) last_received: Instant,
}

impl<'a> Receiver<'a> {
    /// Prepares to receive the `chosen` tracks, each with its index in the camera's description, and
    /// to publish them as a stream with a note on the camera.
    pub(super) fn new(
        chosen: Vec<(TrackIndex, Track)>,
        by_datagrams: bool,
        (stream, note): (&'a Arc<Stream>, SourceNote),
        now: Instant,
    ) -> Result<Self, UnsupportedFormat> {
        let (described, tracks): (Vec<_>, Vec<_>) = chosen.into_iter().unzip();
        let mut packets = SourceReceiver::new(&tracks);
        if by_datagrams {
            for track in TrackIndex::first(tracks.len()) {
                packets.come_by_datagrams(track);
            }
        }
        Ok(Self {
            stream,
            note,
            described,
            packets,
            assembler: Assembler::new(tracks)?,
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
        let (assembler, out) = (&mut self.assembler, &mut self.media_units);
        let is_media = self
            .packets
            .take(track, control, bytes, received, |track, item| {
                assembler.take(track, item, out);
            });
        if is_media && track == TrackIndex(0) {
            self.last_received = received;
        }
    }

    /// Returns when [`Self::publish`] must be called because a missing packet is overdue.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.packets.deadline()
    }

    /// Gives up missing packets that are overdue, and publishes the units that are complete.
    /// `live_since` is set to the time of the first one.
    pub(super) fn publish(
        &mut self,
        now: Instant,
        live_since: &mut Option<Instant>,
    ) -> Result<(), PublishError> {
        let (assembler, out) = (&mut self.assembler, &mut self.media_units);
        let sink = |track, item: Received<'_>| assembler.take(track, item, out);
        self.packets.expire(now, sink);
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
                    let publisher = self.stream.publish(tracks, now)?;
                    publisher.note(self.note.clone());
                    self.publisher.insert(publisher)
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
