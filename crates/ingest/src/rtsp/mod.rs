//! Publishes the media that an RTSP client sends with ANNOUNCE and RECORD.
//!
//! Packets arrive here decrypted and in any order, from whichever connection or port. Feedback to
//! the publisher leaves on the same way.
//!
//! ```text
//! packets of a track ─► UnitReceiver: access units ─► LivePublisher ─► hub
//!                      reports, PLI ◄── Feedback ◄─┘ statistics ◄─┘ keyframe wish
//! ```

#[cfg(any(test, fuzzing))]
pub mod fuzzing;

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{Hub, SourceNote, State, StreamName};
use glassline_media::{Kind, LayerIndex, TrackIndex};
use glassline_rtp::units::{TimedUnit, UnitReceiver};
use glassline_rtsp::sdp::{self, Description, Format};
use glassline_rtsp::server::Refusal;
use glassline_runtime::Counter;

pub use crate::feedback::Reporter;
use crate::feedback::{Feedback, KeyframeRequest};
use crate::live_publisher::{Destination, LivePublisher};
use crate::publishing::{Ended, KEYFRAME, NameClaim};

/// Time without packets after which a publisher counts as gone.
const SILENCE: Duration = Duration::from_secs(10);

/// Mean interval between receiver reports, as between the server's sender reports. RFC 3550 §6.2
/// allows it to a session of more than 180 kbit/s; audio next to it in a session of its own takes
/// 0.4 kbit/s.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

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
pub struct Recording {
    /// For each announced track its index among the tracks that are used; `None` for one that is
    /// not.
    used_indices: Vec<Option<TrackIndex>>,
    /// The receiving state of the used tracks.
    source: UnitReceiver,
    feedback: Feedback,
    live: LivePublisher,
    began: Instant,
    last_received: Instant,
    /// Whether RECORD was requested.
    pub is_on: bool,
    /// Bytes of RTP and RTCP that arrived.
    pub bytes: u64,
}

impl Recording {
    /// Prepares to publish the announced tracks as the stream `name`, whose present source makes way
    /// if there is a `claim`.
    ///
    /// # Errors
    /// Returns the refusal to answer with: the description has no usable media, the stream is
    /// published already, or the hub is full.
    pub fn announce(
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
        let feedback = Feedback::new(reporter, REPORT_INTERVAL, Some(request(announced)));
        let tracks: Vec<_> = taken.into_iter().map(|(_, track)| track).collect();
        let mut source = UnitReceiver::new(&tracks).map_err(|_| Refusal::UnsupportedMedia)?;
        for (media, used) in description.tracks.iter().zip(&used_indices) {
            if let Some(used) = used {
                source
                    .packets()
                    .expect_payload_types(*used, media.payload_types());
            }
        }
        let present = hub.lookup(&name).map_err(|error| {
            tracing::warn!(path = %name, %error, "stream cannot be published");
            Refusal::NotEnoughBandwidth
        })?;
        let is_live = present.is_some_and(|stream| matches!(stream.state(), State::Live { .. }));
        if is_live && claim.is_none() {
            return Err(Refusal::Busy);
        }
        let destination = Destination::Name {
            hub: Arc::clone(hub),
            name,
            claim: claim.map(Arc::from),
        };
        let note = SourceNote {
            protocol: "rtsp",
            left_out,
        };
        Ok(Self {
            used_indices,
            source,
            feedback,
            live: LivePublisher::new(destination, note, tracks),
            began: now,
            last_received: now,
            is_on: false,
            bytes: 0,
        })
    }

    /// Returns the name of the stream.
    pub fn name(&self) -> &StreamName {
        self.live.name()
    }

    /// Returns whether anything was published.
    pub fn is_live(&self) -> bool {
        self.live.is_live()
    }

    /// Returns the number of announced tracks.
    pub fn tracks(&self) -> usize {
        self.used_indices.len()
    }

    /// Begins to publish, because the client sent RECORD.
    pub fn start(&mut self, now: Instant) {
        self.is_on = true;
        self.feedback.start(now);
        self.began = now;
        self.last_received = now;
    }

    /// Takes an RTP packet of announced track `track`, or an RTCP packet if `control` is set, and
    /// publishes the units that are complete with it.
    pub fn take(&mut self, track: TrackIndex, control: bool, bytes: &[u8], now: Instant) {
        let Some(used) = self.used_indices.get(track.get()).copied().flatten() else {
            return;
        };
        if !self.is_on {
            return;
        }
        self.last_received = now;
        self.bytes += bytes.len() as u64;
        let publish = publishing(&mut self.live, &mut self.feedback, now);
        self.source.take(used, control, bytes, now, publish);
    }

    /// Notes that packets of announced track `track` come by UDP.
    pub fn comes_by_datagrams(&mut self, track: TrackIndex) {
        if let Some(used) = self.used_indices.get(track.get()).copied().flatten() {
            self.source.packets().come_by_datagrams(used);
        }
    }

    /// Gives up missing packets that are overdue, and publishes the units behind them.
    pub fn expire(&mut self, now: Instant) {
        let publish = publishing(&mut self.live, &mut self.feedback, now);
        self.source.expire(now, publish);
    }

    /// Returns when [`Self::expire`] must be called.
    pub fn deadline(&self) -> Option<Instant> {
        self.source.deadline()
    }

    /// Returns the RTCP packets to send to the publisher now, each with the index of the announced
    /// track. `spread` is that of [`Feedback::poll`].
    pub fn poll_feedback(
        &mut self,
        now: Instant,
        spread: f64,
        counters: &RecordCounters,
    ) -> Vec<(TrackIndex, Vec<u8>)> {
        let mut packets = Vec::new();
        if !self.is_on {
            return packets;
        }
        if self.live.take_keyframe_wish() {
            self.feedback.set_keyframe_wanted(true);
        }
        // The video track, if there is one, is the first of the used tracks.
        let has_video = self.live.tracks()[0].kind() == Kind::Video;
        let sources = self.source.packets();
        let due = self.feedback.poll(sources, has_video, now, spread);
        for compound in due {
            if let Some(pipeline) = self.source.packets().pipeline_mut(compound.track) {
                counters.late.add(pipeline.take_late());
            }
            counters.keyframe_requests.add(u64::from(compound.asks));
            let mut announced = self.used_indices.iter();
            let place = announced.position(|used| *used == Some(compound.track));
            packets.extend(place.map(|place| (TrackIndex(place), compound.bytes)));
        }
        packets
    }

    /// Checks that the hub has taken all units since the last call.
    ///
    /// # Errors
    /// Returns the reason to disconnect the publisher.
    pub fn published(&mut self, now: Instant) -> Result<(), Ended> {
        self.live.note_oversized(self.source.take_oversized(), now);
        Ok(self.live.refused()?)
    }

    /// Ends the recording, and leaves the stream in `state` if it was this recording's.
    pub fn leave(self, state: State) {
        self.live.finish(state);
    }

    /// Checks that packets and keyframes arrive.
    ///
    /// # Errors
    /// Returns the reason to disconnect the publisher.
    pub fn check(&self, now: Instant) -> Result<(), Ended> {
        self.live.check_claim()?;
        if !self.is_on {
            return Ok(());
        }
        if now.saturating_duration_since(self.last_received) > SILENCE {
            return Err(Ended::Silent { time: SILENCE });
        }
        if !self.live.is_live() && now.saturating_duration_since(self.began) > KEYFRAME {
            return Err(self.live.without_keyframe());
        }
        Ok(())
    }
}

/// Publishes units at `now`. A keyframe answers pending requests.
fn publishing<'a>(
    live: &'a mut LivePublisher,
    feedback: &'a mut Feedback,
    now: Instant,
) -> impl FnMut(TimedUnit) + 'a {
    move |unit| {
        if live.publish(unit, LayerIndex::BASE, now).is_keyframe {
            feedback.set_keyframe_wanted(false);
        }
    }
}

/// Returns how a publisher is asked for keyframes: by PLI, though most announce plain RTP/AVP without
/// `rtcp-fb`, because RTSP's ANNOUNCE has no answer in which the two could agree on more.
///
/// GStreamer's `rtspclientsink` (1.22) offers nothing; by UDP it makes the keyframe all the same, and
/// within its connection it ignores RTCP. FFmpeg (5.1) ignores RTCP altogether. Others ignore what they
/// do not know, as RFC 3550 §6.1 requires. FIR is for publishers that announce FIR and no PLI.
fn request(announced: sdp::Feedback) -> KeyframeRequest {
    KeyframeRequest::offered(announced).unwrap_or(KeyframeRequest::Pli)
}

#[cfg(test)]
mod tests;
