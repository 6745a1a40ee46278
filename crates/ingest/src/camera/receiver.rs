use std::time::Instant;

use glassline_hub::SourceNote;
use glassline_media::{Kind, Track, TrackIndex};
use glassline_rtp::payload::UnsupportedFormat;
use glassline_rtp::units::{TimedUnit, UnitReceiver};
use glassline_rtsp::client::Closed;

use super::sink::{Share, Sink};
use crate::feedback::Feedback;
use crate::lack::Lack;
use crate::publishing::HubRefusal;

/// Publishes the packets of a playing camera.
#[derive(Debug)]
pub(super) struct Receiver {
    /// Index of each used track in the camera's description.
    described: Vec<TrackIndex>,
    source: UnitReceiver,
    feedback: Feedback,
    live: Box<dyn Sink>,
    /// Arrival of the first track's latest packet. The first track decides: a microphone may be
    /// switched off, but a camera whose video stands still is down even if its audio continues.
    pub(super) last_received: Instant,
}

impl Receiver {
    /// Prepares to receive the `chosen` tracks, each with its index in the camera's description, and
    /// to publish them as a stream with a note on the camera.
    pub(super) fn new(
        chosen: Vec<(TrackIndex, Track)>,
        by_datagrams: bool,
        (share, note): (&dyn Share, SourceNote),
        feedback: Feedback,
        now: Instant,
    ) -> Result<Self, UnsupportedFormat> {
        let (described, tracks): (Vec<_>, Vec<_>) = chosen.into_iter().unzip();
        let mut source = UnitReceiver::new(&tracks)?;
        for track in TrackIndex::first(if by_datagrams { tracks.len() } else { 0 }) {
            source.packets().come_by_datagrams(track);
        }
        Ok(Self {
            described,
            source,
            feedback,
            live: share.begin(note, tracks),
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
        let mut tracks = self.live.tracks().to_vec();
        let track = tracks.remove(at);
        self.source.leave_out(TrackIndex(at), &tracks)?;
        let why = format!("{} {}: {reason}", track.kind(), track.codec);
        self.live.leave_out(tracks, why);
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
        if self.feedback.asks_for_keyframes() && self.live.take_keyframe_wish() {
            self.feedback.set_keyframe_wanted(true);
        }
        let has_video = self.live.tracks()[0].kind() == Kind::Video;
        let packets = self.source.packets();
        let due = self.feedback.poll(packets, has_video, now, spread);
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
        if let Some(track) = self.used(described) {
            self.source.packets().expect_payload_types(track, types);
        }
    }

    /// Returns the index of the camera's track `described` among the used ones.
    fn used(&self, described: TrackIndex) -> Option<TrackIndex> {
        let mut used = self.described.iter();
        used.position(|it| *it == described).map(TrackIndex)
    }

    /// Returns the number of tracks that are used.
    pub(super) const fn tracks(&self) -> usize {
        self.described.len()
    }

    /// Returns when the first unit was published.
    pub(super) fn live_since(&self) -> Option<Instant> {
        self.live.live_since()
    }

    /// Returns the number of frames that were dropped because they are too large.
    pub(super) fn oversized(&self) -> u64 {
        self.live.oversized()
    }

    /// Returns what the camera lacks, if it has sent no frame to begin with.
    pub(super) fn lack(&self) -> Lack {
        self.live.lack()
    }

    /// Ends publishing, because nobody needs the stream.
    pub(super) fn leave(self) {
        self.live.leave();
    }

    /// Takes an RTP packet of the camera's track `described`, or an RTCP packet if `control` is set, and
    /// publishes the units that are complete with it.
    pub(super) fn take(
        &mut self,
        described: TrackIndex,
        control: bool,
        bytes: &[u8],
        received: Instant,
    ) {
        let Some(track) = self.used(described) else {
            return;
        };
        let publish = publishing(&mut *self.live, &mut self.feedback, received);
        let is_media = self.source.take(track, control, bytes, received, publish);
        if track != TrackIndex(0) {
            return;
        }
        if is_media {
            self.last_received = received;
        } else if let Some(ahead_ns) = self.source.wall_clock(track) {
            self.live.note_wall_clock(ahead_ns);
        }
    }

    /// Returns when [`Self::expire`] must be called because a missing packet is overdue, or
    /// [`Self::poll_feedback`] because reports are due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let deadlines = [self.source.deadline(), self.feedback.deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Gives up missing packets that are overdue, and publishes the units behind them.
    ///
    /// # Errors
    /// The hub refused a unit since the last call.
    pub(super) fn expire(&mut self, now: Instant) -> Result<(), HubRefusal> {
        let publish = publishing(&mut *self.live, &mut self.feedback, now);
        self.source.expire(now, publish);
        self.live.note_oversized(self.source.take_oversized(), now);
        self.live.refused()
    }
}

/// Publishes units at `now`. A keyframe answers pending requests.
fn publishing<'a>(
    live: &'a mut dyn Sink,
    feedback: &'a mut Feedback,
    now: Instant,
) -> impl FnMut(TimedUnit) + 'a {
    move |unit| {
        if live.publish(unit, now).is_keyframe {
            feedback.set_keyframe_wanted(false);
        }
    }
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
        let receiver = Receiver::new(
            chosen,
            true,
            (&stream as &dyn Share, note),
            feedback(None),
            start,
        );
        let mut receiver = receiver.expect("both are known");
        let take = |receiver: &mut Receiver, track, number: u16, ms, payload: &[u8]| {
            let packet = packet(number, ms, payload);
            receiver.take(track, false, &packet, at(ms));
            receiver.expire(at(ms)).expect("free");
            (receiver.last_received, receiver.live_since())
        };
        let outcome = take(&mut receiver, VIDEO, 1, 10, &DELTA);
        assert_eq!(outcome, (at(10), None));
        let outcome = take(&mut receiver, AUDIO, 1, 20, &[1; 20]);
        assert_eq!(outcome, (at(10), None), "audio is no sign of life");
        let outcome = take(&mut receiver, TrackIndex(0), 1, 30, &KEYFRAME);
        assert_eq!(outcome, (at(10), None), "it was not chosen");
        let outcome = take(&mut receiver, VIDEO, 2, 40, &KEYFRAME);
        assert_eq!(outcome, (at(40), Some(at(40))));
        let outcome = take(&mut receiver, VIDEO, 3, 80, &DELTA);
        assert_eq!(outcome, (at(80), Some(at(40))));
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
        receiver.expire(overdue).expect("free");
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
        let receiver = Receiver::new(
            chosen,
            false,
            (&stream as &dyn Share, note),
            feedback(request),
            start,
        );
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
            receiver.expire(now).expect("free");
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
