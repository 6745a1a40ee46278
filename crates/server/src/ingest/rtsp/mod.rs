//! Publishes the media that an RTSP client sends with ANNOUNCE and RECORD.
//!
//! Packets arrive here decrypted and in any order, from whichever connection or port. Feedback to
//! the publisher leaves on the same way.
//!
//! ```text
//! packets of a track ─► SourceReceiver: order ─► Assembler ─► Publisher ─► hub
//!                       reports, PLI ◄── Feedback ◄─┘ statistics           keyframe wanted ◄─┘
//! ```

mod feedback;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{Hub, Publisher, SourceNote, State, StreamName};
use glassline_media::{Kind, MediaUnit, Ssrc, TrackIndex};
use glassline_rtp::receive::{Received, SourceReceiver};
use glassline_rtsp::sdp::{Description, Format};
use glassline_rtsp::server::Refusal;

use crate::ingest::Assembler;
use crate::ingest::oversized::OversizedFrames;
use crate::ingest::publishing::{Ended, KEYFRAME, NameClaim, check_claim, go_live};
use crate::runtime::Counter;
use feedback::Feedback;

/// Time without packets after which a publisher counts as gone.
const SILENCE: Duration = Duration::from_secs(10);

/// The SSRC and canonical name under which the server reports to a publisher (RFC 3550 §6.4 and
/// §6.5.1).
#[derive(Clone, Debug)]
pub(crate) struct Reporter {
    pub(crate) ssrc: Ssrc,
    pub(crate) cname: String,
}

/// One thread's counts of packets from publishers and feedback to them.
#[derive(Debug, Default)]
pub struct RecordCounters {
    /// Keyframe requests sent to publishers.
    pub keyframe_requests: Counter,
    /// Packets of publishers that were duplicates, or too late to be put in order.
    pub late: Counter,
}

/// The media that a client publishes, from its ANNOUNCE on.
#[derive(Debug)]
pub(crate) struct Recording {
    hub: Arc<Hub>,
    /// Name of the stream. The stream is made with the first unit: a client that only announces
    /// takes no name and no slot.
    name: StreamName,
    /// The right to the name among several servers; `None` on a server alone.
    claim: Option<Box<dyn NameClaim>>,
    /// For each announced track its index among the tracks that are used; `None` for one that is
    /// not.
    used_indices: Vec<Option<TrackIndex>>,
    /// What the announcement has besides the used tracks.
    note: SourceNote,
    /// The receiving state of the used tracks.
    packets: SourceReceiver,
    feedback: Feedback,
    assembler: Assembler,
    oversized: OversizedFrames,
    media_units: Vec<MediaUnit>,
    publisher: Option<Publisher>,
    began: Instant,
    last_received: Instant,
    /// Whether RECORD was requested.
    pub(crate) is_on: bool,
    pub(crate) bytes: u64,
}

impl Recording {
    /// Prepares to publish the announced tracks as the stream `name`, whose present source makes way
    /// if there is a `claim`.
    ///
    /// # Errors
    /// Returns the refusal to answer with: the description has no usable media, the stream is
    /// published already, or the hub is full.
    pub(crate) fn announce(
        hub: &Arc<Hub>,
        (name, claim): (StreamName, Option<Box<dyn NameClaim>>),
        reporter: Reporter,
        description: &Description,
        now: Instant,
    ) -> Result<Self, Refusal> {
        let (mut taken, mut left_out) = (Vec::new(), Vec::new());
        for (index, media) in TrackIndex::enumerate(&description.tracks) {
            let usable = media.format().map(Format::track);
            match usable {
                Some(Ok(track)) if track.kind() != Kind::Text => taken.push((index, track)),
                Some(Ok(track)) => {
                    let (name, codec) = (&media.name, track.codec);
                    left_out.push(format!("{name} {codec}: text is not published"));
                }
                None => left_out.push(format!("{}: without a format", media.name)),
                Some(Err(unusable)) => {
                    tracing::info!(stream = %name, %unusable, "announced track left out");
                    left_out.push(format!("{} {unusable}", media.name));
                }
            }
        }
        // As with every source, video comes first.
        taken.sort_by_key(|(_, track)| track.kind() != Kind::Video);
        if taken.is_empty() {
            return Err(Refusal::UnsupportedMedia);
        }
        let mut used_indices = vec![None; description.tracks.len()];
        for (used, (index, _)) in TrackIndex::enumerate(&taken) {
            used_indices[*index] = Some(used);
        }
        let announced = description.tracks[taken[0].0].feedback;
        let feedback = Feedback::new(reporter, announced);
        let tracks: Vec<_> = taken.into_iter().map(|(_, track)| track).collect();
        let mut packets = SourceReceiver::new(&tracks);
        for (media, used) in description.tracks.iter().zip(&used_indices) {
            if let Some(used) = used {
                packets.expect_payload_types(*used, media.payload_types());
            }
        }
        let assembler = Assembler::new(tracks).map_err(|_| Refusal::UnsupportedMedia)?;
        let present = hub.lookup(&name).map_err(|error| {
            tracing::warn!(path = %name, %error, "stream cannot be published");
            Refusal::NotEnoughBandwidth
        })?;
        let is_live = present.is_some_and(|stream| matches!(stream.state(), State::Live { .. }));
        if is_live && claim.is_none() {
            return Err(Refusal::Busy);
        }
        Ok(Self {
            hub: Arc::clone(hub),
            name,
            claim,
            used_indices,
            note: SourceNote {
                protocol: "rtsp",
                left_out,
            },
            packets,
            feedback,
            assembler,
            oversized: OversizedFrames::default(),
            media_units: Vec::new(),
            publisher: None,
            began: now,
            last_received: now,
            is_on: false,
            bytes: 0,
        })
    }

    /// Returns the name of the stream.
    pub(crate) fn name(&self) -> &StreamName {
        &self.name
    }

    /// Returns whether anything was published.
    pub(crate) fn is_live(&self) -> bool {
        self.publisher.is_some()
    }

    /// Returns the number of announced tracks.
    pub(crate) fn tracks(&self) -> usize {
        self.used_indices.len()
    }

    /// Begins to publish, because the client sent RECORD.
    pub(crate) fn start(&mut self, now: Instant) {
        self.is_on = true;
        self.feedback.start(now);
        self.began = now;
        self.last_received = now;
    }

    /// Takes an RTP packet of announced track `track`, or an RTCP packet if `control` is set.
    pub(crate) fn take(&mut self, track: TrackIndex, control: bool, bytes: &[u8], now: Instant) {
        let Some(used) = self.used_indices.get(track.get()).copied().flatten() else {
            return;
        };
        if !self.is_on {
            return;
        }
        self.last_received = now;
        self.bytes += bytes.len() as u64;
        let (assembler, out) = (&mut self.assembler, &mut self.media_units);
        self.packets.take(used, control, bytes, now, |track, item| {
            assembler.take(track, item, out);
        });
    }

    /// Notes that packets of announced track `track` come by UDP.
    pub(crate) fn comes_by_datagrams(&mut self, track: TrackIndex) {
        if let Some(used) = self.used_indices.get(track.get()).copied().flatten() {
            self.packets.come_by_datagrams(used);
        }
    }

    /// Gives up missing packets that are overdue.
    pub(crate) fn expire(&mut self, now: Instant) {
        let (assembler, out) = (&mut self.assembler, &mut self.media_units);
        let sink = |track, item: Received<'_>| assembler.take(track, item, out);
        self.packets.expire(now, sink);
    }

    /// Returns when [`Self::expire`] must be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.packets.deadline()
    }

    /// Returns the RTCP packets to send to the publisher now, each with the index of the announced
    /// track. `spread` is that of [`Feedback::poll_report`].
    pub(crate) fn poll_feedback(
        &mut self,
        now: Instant,
        spread: f64,
        counters: &RecordCounters,
    ) -> Vec<(TrackIndex, Vec<u8>)> {
        let mut packets = Vec::new();
        if !self.is_on {
            return packets;
        }
        let reports = self.feedback.poll_report(now, spread);
        self.note_keyframe_wishes();
        // The video track, if there is one, is the first of the used tracks.
        let has_video = self.assembler.tracks()[0].kind() == Kind::Video;
        let video = self.packets.pipeline(TrackIndex(0)).filter(|_| has_video);
        let has_source = video.is_some_and(|video| video.source().is_some());
        let asks = has_source && self.feedback.poll_keyframe(now);
        for (track, used) in TrackIndex::enumerate(&self.used_indices) {
            let Some(pipeline) = used.and_then(|used| self.packets.pipeline_mut(used)) else {
                continue;
            };
            let Some(source) = pipeline.source() else {
                continue;
            };
            let asks = asks && *used == Some(TrackIndex(0));
            if reports || asks {
                counters.late.add(pipeline.take_late());
                let block = if reports {
                    pipeline.report_block(now)
                } else {
                    None
                };
                let mut packet = self.feedback.report(block);
                if asks {
                    counters.keyframe_requests.add(1);
                    self.feedback.ask_for_keyframe(source, &mut packet);
                }
                packets.push((track, packet));
            }
        }
        packets
    }

    /// Notes whether a keyframe is wanted: a viewer waits for one, frames were lost, or no keyframe
    /// came yet.
    fn note_keyframe_wishes(&mut self) {
        let asked = match &self.publisher {
            Some(publisher) => publisher.keyframe_wanted(),
            None => true,
        };
        let damaged = self.assembler.take_damage();
        if asked || damaged {
            self.feedback.set_keyframe_wanted(true);
        }
    }

    /// Publishes the units that are complete.
    pub(crate) fn publish(&mut self, now: Instant) -> Result<(), Ended> {
        if let Some(publisher) = &mut self.publisher
            && let Some(tracks) = self.assembler.take_redescribed()
        {
            publisher.describe(tracks)?;
        }
        for media_unit in self.media_units.drain(..) {
            let publisher = match &mut self.publisher {
                Some(publisher) => publisher,
                // Nobody can watch before the first keyframe.
                None if self.assembler.starts(&media_unit) => {
                    let tracks = self.assembler.tracks();
                    let named = (&self.name, self.claim.as_deref());
                    let publisher = go_live::<Ended>(&self.hub, named, tracks, now)?;
                    publisher.note(self.note.clone());
                    self.publisher.insert(publisher)
                }
                None => continue,
            };
            let is_frame = media_unit.track == TrackIndex(0);
            if is_frame && media_unit.keyframe {
                // The keyframe answers a pending request.
                self.feedback.set_keyframe_wanted(false);
                let _ = publisher.keyframe_wanted();
            }
            publisher.push(media_unit, now)?;
        }
        let dropped = self.assembler.take_oversized();
        let publisher = self.publisher.as_ref();
        self.oversized.note(dropped, &self.name, publisher, now);
        Ok(())
    }

    /// Ends the recording, and leaves the stream in `state` if it was this recording's.
    pub(crate) fn leave(mut self, state: State) {
        if let Some(publisher) = self.publisher.take() {
            publisher.finish(state);
        }
    }

    /// Checks that packets and keyframes arrive.
    ///
    /// # Errors
    /// Returns the reason to disconnect the publisher.
    pub(crate) fn check(&self, now: Instant) -> Result<(), Ended> {
        check_claim(&self.name, self.claim.as_deref())?;
        if !self.is_on {
            return Ok(());
        }
        if now.saturating_duration_since(self.last_received) > SILENCE {
            return Err(Ended::Silent { time: SILENCE });
        }
        if self.publisher.is_none() && now.saturating_duration_since(self.began) > KEYFRAME {
            return Err(Ended::without_keyframe(
                self.oversized.dropped(),
                self.assembler.lack(),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
