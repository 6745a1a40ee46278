//! A client that publishes: ANNOUNCE and RECORD.
//!
//! ```text
//! frames of the connection, or datagrams ─► Recording ─► Assembler ─► Publisher ─► hub
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{CreateError, Hub, PublishError, Publisher, State, StreamName};
use glassline_media::{Burst, Kind};
use glassline_rtp::rtcp;
use glassline_rtp::{Packet as Rtp, SequenceExtender};
use glassline_rtsp::sdp::Description;
use glassline_rtsp::server::Refusal;
use smallvec::SmallVec;

use super::udp::Target;
use crate::ingest::{Assembler, Packet, track_of};

/// A publisher that sends nothing for so long has gone.
const SILENCE: Duration = Duration::from_secs(10);

/// A source without a keyframe for so long cannot be watched by anyone new.
const KEYFRAME: Duration = Duration::from_secs(20);

/// Packets of UDP that came before one that is due, over all tracks: more than
/// networks put out of order, and a few tens of kilobytes.
const EARLY_MAX: u64 = 64;

/// What a client publishes, from its ANNOUNCE on.
#[derive(Debug)]
pub(super) struct Recording {
    hub: Arc<Hub>,
    /// Of the stream, which is made with the first burst: a client that only announces
    /// takes nobody's name or place.
    name: StreamName,
    /// Where each announced track is among those that are taken.
    places: Vec<Option<usize>>,
    /// The highest sequence number of each of these so far.
    lanes: Vec<Lane>,
    assembler: Assembler,
    bursts: Vec<Burst>,
    publisher: Option<Publisher>,
    began: Instant,
    heard: Instant,
    /// Where the datagrams of each announced track come from.
    pub(super) targets: SmallVec<[Option<Target>; 2]>,
    /// RECORD was asked for.
    pub(super) is_on: bool,
    pub(super) bytes: u64,
}

#[derive(Debug)]
struct Lane {
    sequences: SequenceExtender,
    highest: Option<u64>,
}

/// Why a publisher is sent away.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum Ended {
    /// It stands, but nothing comes.
    #[error("no packet for {} s", SILENCE.as_secs())]
    Silent,
    /// Nothing to begin with.
    #[error("no keyframe with parameter sets within {} s", KEYFRAME.as_secs())]
    NoKeyframe,
    /// Somebody was faster, or the tracks changed.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The hub became full since it was announced.
    #[error(transparent)]
    Create(#[from] CreateError),
}

impl Recording {
    /// Prepares to publish what is announced under `path`.
    ///
    /// # Errors
    /// What to answer.
    pub(super) fn announce(
        hub: &Arc<Hub>,
        path: &str,
        description: &Description,
        now: Instant,
    ) -> Result<Self, Refusal> {
        let name = StreamName::parse(path).map_err(|error| {
            tracing::info!(path, %error, "announced under a name that no stream can have");
            Refusal::Forbidden
        })?;
        let mut taken: Vec<_> = Vec::new();
        for (index, media) in description.tracks.iter().enumerate() {
            let usable = media.format().map(track_of);
            match usable {
                Some(Ok(track)) if track.kind() != Kind::Text => taken.push((index, track)),
                Some(Ok(_)) | None => {}
                Some(Err(unusable)) => {
                    tracing::info!(stream = %name, %unusable, "announced track left out");
                }
            }
        }
        // As with every source: the picture comes first.
        taken.sort_by_key(|(_, track)| track.kind() != Kind::Video);
        if taken.is_empty() {
            return Err(Refusal::UnsupportedMedia);
        }
        let mut places = vec![None; description.tracks.len()];
        for (place, (index, _)) in taken.iter().enumerate() {
            places[*index] = Some(place);
        }
        let lane = || Lane {
            sequences: SequenceExtender::new(),
            highest: None,
        };
        let lanes = taken.iter().map(|_| lane()).collect();
        let tracks = taken.into_iter().map(|(_, track)| track).collect();
        let assembler = Assembler::new(tracks).map_err(|_| Refusal::UnsupportedMedia)?;
        let present = hub.look_ahead(&name).map_err(|error| {
            tracing::warn!(path, %error, "cannot be published");
            Refusal::NotEnoughBandwidth
        })?;
        if present.is_some_and(|stream| matches!(stream.state(), State::Live { .. })) {
            return Err(Refusal::Busy);
        }
        Ok(Self {
            hub: Arc::clone(hub),
            name,
            places,
            lanes,
            assembler,
            bursts: Vec::new(),
            publisher: None,
            began: now,
            heard: now,
            targets: SmallVec::new(),
            is_on: false,
            bytes: 0,
        })
    }

    /// The name of the stream.
    pub(super) fn name(&self) -> &StreamName {
        &self.name
    }

    /// Tracks announced.
    pub(super) fn tracks(&self) -> usize {
        self.places.len()
    }

    /// It begins to send.
    pub(super) fn start(&mut self, now: Instant) {
        self.is_on = true;
        self.began = now;
        self.heard = now;
    }

    /// Takes a packet of announced track `track`.
    pub(super) fn take(&mut self, track: usize, control: bool, bytes: &[u8], now: Instant) {
        let Some(place) = self.places.get(track).copied().flatten() else {
            return;
        };
        if !self.is_on {
            return;
        }
        self.heard = now;
        self.bytes += bytes.len() as u64;
        if control {
            self.take_report(place, bytes);
        } else {
            self.take_media(place, bytes, now);
        }
    }

    fn take_media(&mut self, track: usize, bytes: &[u8], received: Instant) {
        // Whatever is no RTP is dropped, as on any port.
        let Ok(packet) = Rtp::parse(bytes) else {
            return;
        };
        let lane = &mut self.lanes[track];
        let sequence = lane.sequences.extend(packet.header.sequence);
        // Late or twice: the assembler has gone on. A source that began anew is far off.
        if let Some(highest) = lane.highest
            && sequence <= highest
            && highest - sequence < EARLY_MAX
        {
            return;
        }
        lane.highest = Some(sequence);
        let packet = Packet {
            track,
            sequence: packet.header.sequence,
            timestamp: packet.header.timestamp,
            marker: packet.header.marker,
            payload: packet.payload,
            received,
        };
        self.assembler.push(&packet, &mut self.bursts);
    }

    fn take_report(&mut self, track: usize, bytes: &[u8]) {
        for packet in rtcp::parse(bytes).flatten() {
            if let rtcp::Packet::SenderReport(report) = packet {
                let (ntp, timestamp) = (report.ntp.0, report.rtp_timestamp);
                self.assembler.sender_report(track, ntp, timestamp);
            }
        }
    }

    /// Publishes what became whole.
    pub(super) fn publish(&mut self, now: Instant) -> Result<(), Ended> {
        for burst in self.bursts.drain(..) {
            let publisher = match &mut self.publisher {
                Some(publisher) => publisher,
                // Nobody can watch before the first keyframe.
                None if self.assembler.starts(&burst) => {
                    let tracks = self.assembler.tracks().to_vec();
                    let stream = self.hub.create(self.name.clone())?;
                    tracing::info!(stream = %self.name, tracks = tracks.len(), "publisher live");
                    self.publisher.insert(stream.publish(tracks, now)?)
                }
                None => continue,
            };
            publisher.push(burst, now)?;
        }
        Ok(())
    }

    /// Ends, and leaves the stream in `state` if it was this one's.
    pub(super) fn leave(mut self, state: State) {
        if let Some(publisher) = self.publisher.take() {
            publisher.finish(state);
        }
    }

    /// Whether it goes on.
    pub(super) fn check(&self, now: Instant) -> Result<(), Ended> {
        if !self.is_on {
            return Ok(());
        }
        if now.saturating_duration_since(self.heard) > SILENCE {
            return Err(Ended::Silent);
        }
        if self.publisher.is_none() && now.saturating_duration_since(self.began) > KEYFRAME {
            return Err(Ended::NoKeyframe);
        }
        Ok(())
    }
}
