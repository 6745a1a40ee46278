//! Tests of the reader that one thread has of a stream.

use glassline_hub::{Hub, Publisher, State, StreamName};
use glassline_media::Stage;
use glassline_rtp::rtcp;
use glassline_rtsp::server::Start;
use glassline_runtime::{Clock, Current, Waker};
use mio::{Poll, Token};

use super::*;
use crate::rtsp::ring::RingEntry;
use crate::rtsp::stream_reader::Timing;

/// Number of the reading thread in the tables of stage delays.
const TABLE: usize = 3;

/// A live stream of video and audio, whose units have times in ms since its start.
struct Live {
    stream: Arc<glassline_hub::Stream>,
    publisher: Option<Publisher>,
    context: StreamContext,
    waker: Arc<Waker>,
    start: Instant,
    _poll: Poll,
}

fn tracks(video: Codec) -> Vec<Track> {
    vec![Track::new(video), Track::audio(Codec::Opus, 2)]
}

impl Live {
    fn new() -> Self {
        let (start, poll) = (Instant::now(), Poll::new().expect("a descriptor"));
        let name = StreamName::parse("cam").expect("a good name");
        let stream = Hub::default().create(name).expect("room");
        let publisher = stream.publish(tracks(Codec::H264), start).expect("free");
        Self {
            stream,
            publisher: Some(publisher),
            context: StreamContext {
                latencies: Arc::default(),
                clock: Clock::start(),
                keys: NumberKeys::default(),
                timing: Arc::new(Current::new(Timing {
                    budget: BUDGET,
                    bounds: BOUNDS,
                })),
            },
            waker: Arc::new(Waker::new(&poll, Token(0)).expect("a descriptor")),
            start,
            _poll: poll,
        }
    }

    fn at(&self, time: u64) -> Instant {
        self.start + ms(time)
    }

    /// Publishes a frame of video in packets of 100 and 50 bytes, or a packet of audio.
    fn publish(&mut self, track: TrackIndex, time: u64, keyframe: bool) {
        let sizes: &[usize] = if track == VIDEO { &[100, 50] } else { &[40] };
        let mut builder = UnitBuilder::default();
        for size in sizes {
            builder.push(&vec![number(track); *size]);
        }
        let (media_time, at) = (media_time(time), self.at(time));
        let unit = builder.build(track, media_time, keyframe, Stamps::arrived(at));
        let publisher = self.publisher.as_mut().expect("the stream is live");
        let pushed = publisher.push(unit.expect("packets"), at);
        pushed.expect("a track of the stream");
    }

    fn reader(&self, time: u64) -> StreamReader {
        StreamReader::subscribe(
            &self.stream,
            &self.context,
            &self.waker,
            TABLE,
            self.at(time),
        )
    }

    fn read(&self, reader: &mut StreamReader, time: u64) -> bool {
        reader.read(self.at(time))
    }

    fn report(&self, reader: &StreamReader, track: TrackIndex, time: u64) -> Option<Vec<u8>> {
        reader.report(track, self.at(time))
    }
}

fn media_time(time: u64) -> MediaTime {
    MediaTime::from_ticks(i64::try_from(time).expect("soon"), 1_000)
}

/// Returns the track of each entry from `number` on, and the time of its unit in ms; `None` for a
/// report.
fn entries(reader: &StreamReader, number: u64) -> Vec<(TrackIndex, Option<i64>)> {
    let entries = reader.ring.since(number);
    let time = |entry: &RingEntry| Some(entry.unit()?.time.ticks(1_000));
    entries.map(|(_, it)| (it.track(), time(it))).collect()
}

#[test]
fn players_begin_with_the_newest_keyframe_and_what_came_since() {
    let mut live = Live::new();
    live.publish(AUDIO, 0, true);
    live.publish(VIDEO, 10, true);
    live.publish(VIDEO, 50, true);
    live.publish(AUDIO, 50, true);
    live.publish(VIDEO, 90, false);
    live.publish(AUDIO, 95, true);
    let mut reader = live.reader(100);
    let video = [(VIDEO, Some(50)), (AUDIO, Some(50))];
    let rest = [(VIDEO, Some(90)), (AUDIO, Some(95))];
    assert_eq!(entries(&reader, 0), [video, rest].concat());
    assert!(!live.read(&mut reader, 100), "nothing twice");
    live.publish(VIDEO, 130, false);
    live.publish(AUDIO, 140, true);
    assert!(live.read(&mut reader, 140));
    let new = [(VIDEO, Some(130)), (AUDIO, Some(140))];
    assert_eq!(entries(&reader, 4), new);
    assert_eq!(reader.ring.keyframe(), Some(0));
    let empty = Live::new();
    assert_eq!(entries(&empty.reader(0), 0), []);
}

#[test]
fn each_track_that_sends_is_reported_every_two_seconds() {
    let mut live = Live::new();
    let mut reader = live.reader(0);
    assert!(live.report(&reader, VIDEO, 0).is_none());
    let reports = |live: &mut Live, reader: &mut StreamReader, track, time| {
        let end = reader.ring.end();
        live.publish(track, time, true);
        assert!(live.read(reader, time));
        let media = (track, Some(i64::try_from(time).expect("soon")));
        let new = entries(reader, end);
        assert_eq!(new[0], media);
        new[1..].to_vec()
    };
    assert_eq!(reports(&mut live, &mut reader, VIDEO, 0), []);
    assert_eq!(reports(&mut live, &mut reader, VIDEO, 1_999), []);
    let video = [(VIDEO, None)];
    assert_eq!(reports(&mut live, &mut reader, VIDEO, 2_000), video);
    assert_eq!(reports(&mut live, &mut reader, AUDIO, 2_500), []);
    assert_eq!(reports(&mut live, &mut reader, VIDEO, 3_999), []);
    assert!(!live.read(&mut reader, 4_500), "nothing to report about");
    let both = [(VIDEO, None), (AUDIO, None)];
    assert_eq!(reports(&mut live, &mut reader, VIDEO, 4_600), both);
}

#[test]
fn a_report_tells_what_was_sent_and_the_time_of_now() {
    let mut live = Live::new();
    let mut reader = live.reader(0);
    for frame in 0..3 {
        live.publish(VIDEO, frame * 40, frame == 0);
        live.read(&mut reader, frame * 40);
    }
    let template = *reader.template(VIDEO).expect("a track");
    let numbers = template.numbers;
    let wall = reader.wall;
    let now = live.at(1_000);
    let bytes = reader.farewell(VIDEO, now).expect("media was sent");
    let packets: Vec<_> = rtcp::parse(&bytes).flatten().collect();
    let [
        rtcp::Packet::SenderReport(report),
        rtcp::Packet::SourceDescription(description),
        rtcp::Packet::Bye(bye),
    ] = &packets[..]
    else {
        panic!("{packets:?}");
    };
    assert_eq!((report.ssrc, report.ntp), (numbers.ssrc, wall.ntp(now)));
    let timestamp = numbers.timestamp(media_time(1_000), 90_000);
    assert!(report.rtp_timestamp.abs_diff(timestamp) <= 1);
    assert_eq!((report.packet_count, report.octet_count), (6, 3 * 150));
    let name = live.context.keys.cname(live.stream.name());
    let chunk = &description.chunks[0];
    assert_eq!((chunk.ssrc, chunk.cname), (numbers.ssrc, name.as_bytes()));
    assert_eq!(bye.sources, [numbers.ssrc]);
    let report = live.report(&reader, VIDEO, 1_000).expect("media was sent");
    assert_eq!(report[..], bytes[..report.len()], "all but the BYE");
    assert!(reader.farewell(AUDIO, now).is_none());
    assert!(reader.farewell(TrackIndex(2), now).is_none());
    assert!(reader.template(TrackIndex(2)).is_none());
}

#[test]
fn a_stream_with_other_tracks_adds_nothing_to_the_ring() {
    let mut live = Live::new();
    let mut reader = live.reader(0);
    live.publish(VIDEO, 0, true);
    live.read(&mut reader, 0);
    assert!(reader.is_current());
    assert_eq!(reader.layout(), live.stream.layout());
    assert_eq!(reader.superseded_at(), None);
    live.publisher = None;
    let next = live.stream.publish(tracks(Codec::Vp8), live.at(100));
    live.publisher = Some(next.expect("free"));
    assert!(!reader.is_current(), "before the reader knows");
    assert_eq!(reader.superseded_at(), None);
    live.publish(VIDEO, 110, true);
    assert!(!live.read(&mut reader, 120));
    live.publish(VIDEO, 150, false);
    assert!(!live.read(&mut reader, 160));
    assert_eq!(reader.superseded_at(), Some(live.at(120)));
    assert!(!reader.is_current());
    assert_ne!(reader.layout(), live.stream.layout());
    assert_eq!(reader.ring.end(), 1);
    let current = live.reader(170);
    assert!(current.is_current());
    assert_eq!(entries(&current, 0).len(), 2);
}

#[test]
fn a_reader_is_due_when_the_stream_has_something_or_held_audio_may_wait_no_longer() {
    let mut live = Live::new();
    let mut reader = live.reader(0);
    assert!(reader.take_due(live.at(0)), "there may be units");
    assert!(!reader.take_due(live.at(0)));
    for frame in 0..3 {
        live.publish(VIDEO, frame * 40, frame == 0);
        assert!(reader.take_due(live.at(frame * 40)));
        assert!(!reader.take_due(live.at(frame * 40)));
        live.read(&mut reader, frame * 40);
    }
    // The next frame is due at 120, so that audio waits for it until 121.
    live.publish(AUDIO, 117, true);
    assert!(reader.take_due(live.at(117)));
    assert!(!live.read(&mut reader, 117));
    assert!(!reader.take_due(live.at(120)));
    assert!(reader.take_due(live.at(121)));
    assert!(live.read(&mut reader, 121));
    assert!(!reader.take_due(live.at(122)));
}

#[test]
fn audio_waits_eight_milliseconds_for_a_frame_and_no_longer() {
    let mut live = Live::new();
    let mut reader = live.reader(0);
    for frame in 0..3 {
        live.publish(VIDEO, frame * 40, frame == 0);
        live.read(&mut reader, frame * 40);
    }
    // The next frame is due at 120.
    live.publish(AUDIO, 111, true);
    assert!(live.read(&mut reader, 111), "too early to wait");
    let end = reader.ring.end();
    for time in [112, 118] {
        live.publish(AUDIO, time, true);
        assert!(!live.read(&mut reader, time));
    }
    live.publish(VIDEO, 120, false);
    assert!(live.read(&mut reader, 120));
    let together = [(VIDEO, Some(120)), (AUDIO, Some(112)), (AUDIO, Some(118))];
    assert_eq!(entries(&reader, end), together);
    // The frame of 160 is late, so audio goes without it.
    live.publish(AUDIO, 152, true);
    assert!(!live.read(&mut reader, 152));
    assert!(!live.read(&mut reader, 159));
    assert!(reader.take_due(live.at(160)));
    assert!(live.read(&mut reader, 160));
}

#[test]
fn numbers_go_on_in_a_stream_that_follows_for_one_client() {
    let mut live = Live::new();
    let mut reader = live.reader(0);
    for frame in 0..3 {
        live.publish(VIDEO, frame * 40, frame == 0);
        live.read(&mut reader, frame * 40);
    }
    let mut next = Live::new().reader(0);
    let numbers = |reader: &StreamReader, track| reader.template(track).expect("a track").numbers;
    assert_ne!(numbers(&next, VIDEO).ssrc, numbers(&reader, VIDEO).ssrc);
    next.inherit(reader.going_on());
    for (track, packets) in [(VIDEO, 6), (AUDIO, 0)] {
        let (before, after) = (numbers(&reader, track), numbers(&next, track));
        assert_eq!(after.ssrc, before.ssrc);
        assert_eq!(after.sequence(0), before.sequence(packets));
    }
}

#[test]
fn a_client_is_told_where_each_track_begins() {
    let mut live = Live::new();
    let mut reader = live.reader(0);
    for frame in 0..3 {
        live.publish(VIDEO, frame * 40, frame == 1);
        live.read(&mut reader, frame * 40);
    }
    let mut transports = TrackTransports::default();
    for track in [VIDEO, AUDIO] {
        let (media, control) = (2 * number(track), 2 * number(track) + 1);
        let channels = Channels { media, control };
        let srtp = None;
        transports.set(track, TrackTransport::Interleaved { channels, srtp });
    }
    let numbers = reader.template(VIDEO).expect("a track").numbers;
    let audio = Start {
        track: AUDIO,
        sequence: None,
        timestamp: None,
    };
    let mut cursor = Cursor::begin_at(0, both(), live.start);
    let video = Start {
        track: VIDEO,
        sequence: Some(numbers.sequence(2)),
        timestamp: Some(numbers.timestamp(media_time(40), 90_000)),
    };
    assert_eq!(reader.starts(&transports, &cursor), [video, audio]);
    cursor.pass_to(reader.ring.end());
    let video = Start {
        track: VIDEO,
        sequence: Some(numbers.sequence(6)),
        timestamp: None,
    };
    assert_eq!(reader.starts(&transports, &cursor), [video, audio]);
    let srtp = TrackSrtp::new(None, VIDEO, numbers.ssrc).expect("own keys");
    let start = reader.start(VIDEO, Some(&srtp), Some(6), None);
    assert_eq!(start.sequence, Some(srtp.next_sequence()));
}

#[test]
fn the_end_of_a_stream_and_delays_of_its_stages_are_known() {
    let mut live = Live::new();
    let reader = live.reader(0);
    assert!(!reader.has_ended());
    assert!(Arc::ptr_eq(reader.stream(), &live.stream));
    reader.account(Stage::Send, ms(5), live.at(0));
    let table = live.context.latencies.stages(live.stream.name(), TABLE);
    let mut table = table.lock();
    let stages: Vec<_> = table
        .summaries(live.at(1))
        .into_iter()
        .map(|(it, _)| it)
        .collect();
    assert!(stages.contains(&Stage::Send), "{stages:?}");
    drop(table);
    let publisher = live.publisher.take().expect("live");
    publisher.finish(State::Ended {
        detail: "over".to_owned(),
    });
    assert!(reader.has_ended());
}
