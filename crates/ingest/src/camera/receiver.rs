use std::sync::Arc;
use std::time::Instant;

use glassline_hub::{PublishError, Publisher, SourceNote, State, Stream};
use glassline_media::{Kind, MediaUnit, Track, TrackIndex};
use glassline_rtp::payload::UnsupportedFormat;
use glassline_rtp::receive::{Received, SourceReceiver};
use glassline_rtsp::client::Closed;

use crate::Assembler;
use crate::feedback::Feedback;
use crate::lack::Lack;
use crate::oversized::OversizedFrames;

/// Publishes the packets of a playing camera.
#[derive(Debug)]
pub(super) struct Receiver<'a> {
    stream: &'a Arc<Stream>,
    /// What the camera is, and which of its tracks are left out.
    note: SourceNote,
    /// Index of each used track in the camera's description.
    described: Vec<TrackIndex>,
    packets: SourceReceiver,
    feedback: Feedback,
    assembler: Assembler,
    oversized: OversizedFrames,
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
        feedback: Feedback,
        now: Instant,
    ) -> Result<Self, UnsupportedFormat> {
        let (described, tracks): (Vec<_>, Vec<_>) = chosen.into_iter().unzip();
        Ok(Self {
            stream,
            note,
            described,
            packets: packets_of(&tracks, by_datagrams),
            feedback,
            assembler: Assembler::new(tracks)?,
            oversized: OversizedFrames::default(),
            media_units: Vec::new(),
            publisher: None,
            last_received: now,
        })
    }

    /// Leaves out the camera's track `described`, which the camera refuses to set up.
    pub(super) fn leave_out(
        &mut self,
        described: TrackIndex,
        reason: &Closed,
    ) -> Result<(), UnsupportedFormat> {
        let mut used = self.described.iter();
        let Some(at) = used.position(|it| *it == described) else {
            return Ok(());
        };
        self.described.remove(at);
        let mut tracks = self.assembler.tracks().to_vec();
        let track = tracks.remove(at);
        self.packets.leave_out(TrackIndex(at));
        self.assembler = Assembler::new(tracks)?;
        let why = format!("{} {}: {reason}", track.kind(), track.codec);
        self.note.left_out.push(why);
        Ok(())
    }

    /// Begins to receive and to report, because the camera granted PLAY.
    pub(super) fn start(&mut self, now: Instant) {
        self.last_received = now;
        self.feedback.start(now);
    }

    /// Returns the RTCP packets by which the server leaves, each with the index of the described track.
    pub(super) fn goodbyes(&self) -> Vec<(TrackIndex, Vec<u8>)> {
        let tracks = self.described.iter();
        tracks
            .map(|track| (*track, self.feedback.goodbye()))
            .collect()
    }

    /// Returns the RTCP packets that are due now, each with the index of the described track. `spread` is
    /// that of [`Feedback::poll`].
    pub(super) fn poll_feedback(
        &mut self,
        now: Instant,
        spread: f64,
    ) -> Vec<(TrackIndex, Vec<u8>)> {
        let is_wanted = self.feedback.asks_for_keyframes() && {
            let is_damaged = self.assembler.take_damage();
            let publisher = self.publisher.as_ref();
            is_damaged || publisher.is_none_or(Publisher::keyframe_wanted)
        };
        if is_wanted {
            self.feedback.set_keyframe_wanted(true);
        }
        let has_video = self.assembler.tracks()[0].kind() == Kind::Video;
        let due = self
            .feedback
            .poll(&mut self.packets, has_video, now, spread);
        due.into_iter()
            .map(|it| (self.described[it.track.get()], it.bytes))
            .collect()
    }

    /// Notes the payload types of the camera's track `described`.
    pub(super) fn expect_payload_types(
        &mut self,
        described: TrackIndex,
        types: impl IntoIterator<Item = u8>,
    ) {
        let mut used = self.described.iter();
        if let Some(track) = used.position(|it| *it == described).map(TrackIndex) {
            self.packets.expect_payload_types(track, types);
        }
    }

    pub(super) fn is_live(&self) -> bool {
        self.publisher.is_some()
    }

    /// Returns the number of frames that were dropped because they are too large.
    pub(super) const fn oversized(&self) -> u64 {
        self.oversized.dropped()
    }

    /// Returns what the camera lacks, if it has sent no frame to begin with.
    pub(super) const fn lack(&self) -> Lack {
        self.assembler.lack()
    }

    /// Ends publishing, because nobody needs the stream.
    pub(super) fn leave(self) {
        match self.publisher {
            Some(publisher) => publisher.finish(State::Idle),
            None => self.stream.set_state(State::Idle),
        }
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

    /// Returns when [`Self::publish`] must be called because a missing packet is overdue, or
    /// [`Self::poll_feedback`] because reports are due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let deadlines = [self.packets.deadline(), self.feedback.deadline()];
        deadlines.into_iter().flatten().min()
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
                    let note = self.note.clone();
                    let publisher = self.stream.publish_as(note, tracks, now)?;
                    self.publisher.insert(publisher)
                }
                None => continue,
            };
            if media_unit.track == TrackIndex(0) && media_unit.keyframe {
                // The keyframe answers a pending request.
                self.feedback.set_keyframe_wanted(false);
                let _ = publisher.keyframe_wanted();
            }
            publisher.push(media_unit, now)?;
            if live_since.is_none() {
                let (stream, tracks) = (self.stream.name(), self.assembler.tracks().len());
                tracing::info!(%stream, tracks, "camera live");
                *live_since = Some(now);
            }
        }
        let dropped = self.assembler.take_oversized();
        let (name, publisher) = (self.stream.name(), self.publisher.as_ref());
        self.oversized.note(dropped, name, publisher, now);
        Ok(())
    }
}

/// Returns the receiving state of `tracks`.
fn packets_of(tracks: &[Track], by_datagrams: bool) -> SourceReceiver {
    let mut packets = SourceReceiver::new(tracks);
    if by_datagrams {
        for track in TrackIndex::first(tracks.len()) {
            packets.come_by_datagrams(track);
        }
    }
    packets
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use glassline_hub::{Hub, StreamName};
    use glassline_media::{Codec, Ssrc};
    use glassline_rtp::{HEADER_BYTES, Header, rtcp, write_header};

    use super::*;
    use crate::feedback::{KeyframeRequest, Reporter};

    /// Places of the tracks in the camera's description.
    const VIDEO: TrackIndex = TrackIndex(3);
    const AUDIO: TrackIndex = TrackIndex(5);

    /// A keyframe of VP8 in one packet: descriptor, header, 64 by 64.
    const KEYFRAME: [u8; 11] = [0x10, 0, 2, 0, 0x9d, 1, 0x2a, 64, 0, 64, 0];
    const DELTA: [u8; 4] = [0x10, 1, 1, 1];

    fn packet(sequence: u16, ms: u32, payload: &[u8]) -> Vec<u8> {
        let header = Header {
            marker: true,
            payload_type: 96,
            sequence,
            timestamp: ms * 90,
            ssrc: Ssrc(7),
        };
        let mut packet = vec![0; HEADER_BYTES];
        write_header(&mut packet, &header, &[]);
        packet.extend_from_slice(payload);
        packet
    }

    #[test]
    fn a_camera_is_live_from_its_first_keyframe_on_and_heard_by_its_video() {
        let start = Instant::now();
        let at = |ms: u32| start + Duration::from_millis(ms.into());
        let name = StreamName::parse("cam").expect("a good name");
        let stream = Hub::default().create(name).expect("room");
        let note = SourceNote {
            protocol: "camera",
            left_out: Vec::new(),
        };
        let chosen = vec![
            (VIDEO, Track::new(Codec::Vp8)),
            (AUDIO, Track::audio(Codec::Opus, 2)),
        ];
        let receiver = Receiver::new(chosen, true, (&stream, note), feedback(None), start);
        let mut receiver = receiver.expect("both are known");
        let mut live_since = None;
        let mut take = |receiver: &mut Receiver<'_>, track, number: u16, ms, payload: &[u8]| {
            let packet = packet(number, ms, payload);
            receiver.take(track, false, &packet, at(ms));
            receiver.publish(at(ms), &mut live_since).expect("free");
            (receiver.is_live(), receiver.last_received, live_since)
        };
        let outcome = take(&mut receiver, VIDEO, 1, 10, &DELTA);
        assert_eq!(outcome, (false, at(10), None));
        let outcome = take(&mut receiver, AUDIO, 1, 20, &[1; 20]);
        assert_eq!(outcome, (false, at(10), None), "audio is no sign of life");
        let outcome = take(&mut receiver, TrackIndex(0), 1, 30, &KEYFRAME);
        assert_eq!(outcome, (false, at(10), None), "it was not chosen");
        let outcome = take(&mut receiver, VIDEO, 2, 40, &KEYFRAME);
        assert_eq!(outcome, (true, at(40), Some(at(40))));
        let outcome = take(&mut receiver, VIDEO, 3, 80, &DELTA);
        assert_eq!(outcome, (true, at(80), Some(at(40))));
        let codecs: Vec<_> = stream.tracks().iter().map(|it| it.codec).collect();
        assert_eq!(codecs, [Codec::Vp8, Codec::Opus]);
        assert_eq!(stream.totals().units, 2);
        assert_eq!(stream.source_note().expect("told").protocol, "camera");
        let report = [0x80, 201, 0, 1, 0, 0, 0, 7];
        receiver.take(VIDEO, true, &report, at(90));
        assert_eq!(receiver.last_received, at(80), "a report is no media");
        assert_eq!(receiver.deadline(), None);
        take(&mut receiver, VIDEO, 5, 160, &KEYFRAME);
        assert_eq!(stream.totals().units, 2, "number 4 may still come");
        let overdue = receiver.deadline().expect("not for long");
        assert!(overdue > at(160));
        let mut since = None;
        receiver.publish(overdue, &mut since).expect("free");
        assert_eq!(stream.totals().units, 3);
        assert_eq!(receiver.deadline(), None);
    }

    fn feedback(request: Option<KeyframeRequest>) -> Feedback {
        let reporter = Reporter {
            ssrc: Ssrc(9),
            cname: "us".to_owned(),
        };
        Feedback::new(reporter, Duration::from_secs(5), request)
    }

    /// Returns the RTCP that a camera with this feedback gets in twelve seconds: the second at which it
    /// is sent, and the packets. A viewer waits for a keyframe all the time.
    fn told(request: Option<KeyframeRequest>) -> Vec<(u32, Vec<String>)> {
        let start = Instant::now();
        let name = StreamName::parse("cam").expect("a good name");
        let stream = Hub::default().create(name).expect("room");
        let note = SourceNote {
            protocol: "camera",
            left_out: Vec::new(),
        };
        let chosen = vec![(VIDEO, Track::new(Codec::Vp8))];
        let receiver = Receiver::new(chosen, false, (&stream, note), feedback(request), start);
        let mut receiver = receiver.expect("it is known");
        receiver.start(start);
        let mut told = Vec::new();
        for number in 0..300u16 {
            let ms = u32::from(number) * 40;
            let now = start + Duration::from_millis(ms.into());
            // Every fiftieth is lost.
            if number % 50 != 49 {
                let payload = if number < 2 { &KEYFRAME[..] } else { &DELTA };
                receiver.take(VIDEO, false, &packet(number, ms, payload), now);
            }
            receiver.publish(now, &mut None).expect("free");
            if number > 2 {
                stream.request_keyframe();
            }
            for (track, bytes) in receiver.poll_feedback(now, 1.0) {
                assert_eq!(track, VIDEO, "as the camera numbers it");
                let packets = rtcp::parse(&bytes).map(|it| format!("{:?}", it.expect("good")));
                told.push((ms / 1000, packets.collect()));
            }
        }
        told
    }

    #[test]
    fn a_camera_gets_reports_every_five_seconds_with_what_was_lost() {
        let told = told(None);
        let seconds: Vec<_> = told.iter().map(|(second, _)| *second).collect();
        assert_eq!(seconds, [2, 7], "the first after half an interval");
        for (_, packets) in &told {
            let [report, description] = &packets[..] else {
                panic!("{packets:?}");
            };
            assert!(report.contains("ssrc: Ssrc(7)"), "{report}");
            assert!(description.contains("cname: [117, 115]"), "{description}");
        }
        // Number 49, then 99 and 149, of 125 packets.
        assert!(told[0].1[0].contains("cumulative_lost: 1,"), "{told:?}");
        assert!(
            told[1].1[0].contains("fraction_lost: 4, cumulative_lost: 3,"),
            "{told:?}"
        );
    }

    #[test]
    fn a_camera_is_asked_for_keyframes_as_it_offers_and_once_a_second() {
        for (request, name) in [
            (KeyframeRequest::Pli, "PictureLossIndication"),
            (KeyframeRequest::Fir, "FullIntraRequest"),
        ] {
            let told = told(Some(request));
            let asks = told
                .iter()
                .filter(|(_, packets)| packets.iter().any(|it| it.contains(name)));
            let seconds: Vec<_> = asks.map(|(second, _)| *second).collect();
            assert!((10..=12).contains(&seconds.len()), "{seconds:?}");
            assert!(
                told.iter()
                    .all(|(_, packets)| packets[0].contains("ReceiverReport"))
            );
        }
    }
}
