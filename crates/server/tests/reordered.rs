//! Live frames that browsers would show in the wrong order.

use std::io::Write;
use std::time::{Duration, Instant};

use glassline_demux as demux;
use glassline_demux::live::Splitter;
use glassline_hub::{Publisher, Transcode};
use glassline_media::{Kind, MediaTime, Stamps, Track, TrackIndex, UnitBuilder, annexb};
use glassline_rtp::h264;
use glassline_rtp::payload::Depacketizer;
use glassline_webrtc::Event;

use crate::peer::{Peer, PeerOffer, SOON, socket};
use crate::rtsp::Hand;
use crate::running::{Response, Running, STREAM};
use crate::source::{VIDEO, tracks};

const B_FRAMES: &[u8] = include_bytes!("../../demux/samples/b-frames.h264");

/// Publishes the frames of an H.264 file over RTSP, within the connection.
fn publish(running: &Running, name: &str, file: &[u8]) -> Hand {
    let mut hand = Hand::new(running.rtsp());
    let url = format!("rtsp://{}/{name}", running.rtsp());
    let sdp = "v=0\r\ns=-\r\nm=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n\
               a=control:streamid=0\r\n";
    let answer = hand.announce(&url, sdp);
    assert!(answer.contains("200 OK"), "{answer}");
    let transport = "Transport: RTP/AVP/TCP;unicast;mode=record;interleaved=0-1\r\n";
    hand.ask("SETUP", &format!("{url}/streamid=0"), transport);
    hand.ask("RECORD", &url, "");
    let mut splitter = Splitter::new();
    splitter.push(file).expect("a good file");
    splitter.finish().expect("a good file");
    let units = std::iter::from_fn(|| splitter.next_unit());
    let mut sequence = 0u16;
    for (number, unit) in (0u32..).zip(units) {
        let mut builder = UnitBuilder::default();
        h264::packetize(annexb::nals(&unit.data), 1200, &mut builder);
        let stamps = Stamps::arrived(Instant::now());
        let media_unit = builder.build(TrackIndex(0), MediaTime::ZERO, unit.keyframe, stamps);
        let media_unit = media_unit.expect("a frame has packets");
        for (place, payload) in media_unit.payloads().enumerate() {
            let marker = u8::from(media_unit.marker(place)) << 7;
            let length = u16::try_from(payload.len() + 12).expect("a packet");
            let mut frame = vec![b'$', 0];
            frame.extend(length.to_be_bytes());
            frame.extend([0x80, marker | 96]);
            frame.extend(sequence.to_be_bytes());
            frame.extend((number * 3600).to_be_bytes());
            frame.extend([1, 2, 3, 4]);
            frame.extend_from_slice(payload);
            hand.stream.write_all(&frame).expect("sent");
            sequence = sequence.wrapping_add(1);
        }
    }
    hand
}

fn refusal(running: &Running, stream: &str) -> String {
    let refused = Peer::of_stream(running, stream).err().expect("refused");
    let problem = refused.problem(422);
    problem["detail"].as_str().expect("words").to_owned()
}

#[test]
fn b_frames_of_a_publisher_are_refused_by_whep_and_played_over_rtsp() {
    let running = Running::start(1);
    let mut hand = publish(&running, "film", B_FRAMES);
    let end = Instant::now() + SOON;
    let media_units = || {
        let stream = running.hub().stream("film");
        stream.map_or(0, |it| it.totals().units)
    };
    while media_units() < 49 {
        assert!(Instant::now() < end, "{} frames", media_units());
        std::thread::sleep(Duration::from_millis(5));
    }
    let detail = refusal(&running, "film");
    assert!(detail.contains("B-frames"), "{detail}");
    let url = format!("rtsp://{}/film", running.rtsp());
    let described = Hand::new(running.rtsp()).ask("DESCRIBE", &url, "");
    assert!(described.contains("H264/90000"), "{described}");
    hand.ask("TEARDOWN", &url, "");
}

#[test]
fn viewers_of_frames_that_turn_out_to_have_b_frames_are_sent_away() {
    let running = Running::start(1);
    let stream = running.stream();
    let mut publisher = stream.publish(tracks(), Instant::now()).expect("free");
    let mut peer = Peer::of_stream(&running, STREAM).expect("an answer");
    assert!(peer.run_until(SOON, Peer::is_connected), "it watches");
    let mut known = tracks();
    known[VIDEO].video.reordered = true;
    publisher.describe(&known).expect("the same codecs");
    let mut builder = UnitBuilder::default();
    builder.push(&[0x41, 0x9a]);
    let media_unit = builder.build(
        VIDEO,
        MediaTime::ZERO,
        false,
        Stamps::arrived(Instant::now()),
    );
    let media_unit = media_unit.expect("a packet");
    publisher.push(media_unit, Instant::now()).expect("a track");
    let is_closed = |peer: &Peer<'_>| {
        let mut events = peer.events.iter();
        events.any(|event| matches!(event, Event::Closed(_)))
    };
    assert!(peer.run_until(SOON, is_closed), "it is told");
    let detail = refusal(&running, STREAM);
    assert!(detail.contains("B-frames"), "{detail}");
}

/// A film that browsers cannot show, played without end into the stream of the tests.
struct Film {
    source: demux::Demuxer,
    publisher: Publisher,
    start: Instant,
    next: Option<demux::Frame>,
    is_reordered: bool,
}

impl Film {
    /// Starts a film with B-frames.
    fn start(running: &Running) -> Self {
        Self::of(running, "b-frames.h264", true)
    }

    /// Starts a film of intra refresh, without its IDR picture.
    fn without_idr_frames(running: &Running) -> Self {
        Self::of(running, "intra-refresh.h264", false)
    }

    fn of(running: &Running, sample: &str, is_reordered: bool) -> Self {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../demux/samples");
        let path = format!("{folder}/{sample}");
        let source = demux::open(&[path.into()], &demux::Options::default()).expect("a sample");
        let mut tracks: Vec<Track> = source.tracks().to_vec();
        tracks[0].video.reordered = is_reordered;
        let publisher = running.stream().publish(tracks, Instant::now());
        Self {
            source,
            publisher: publisher.expect("free"),
            start: Instant::now(),
            next: None,
            is_reordered,
        }
    }

    /// Returns whether a stream can begin with the frame, as cameras' units say; `None` for a frame that
    /// is left out.
    fn begins(&self, frame: &demux::Frame) -> Option<bool> {
        let has_sets = || annexb::nals(&frame.data).any(|nal| h264::nal_type(nal[0]) == 7);
        match self.is_reordered {
            true => Some(frame.keyframe),
            false => (!frame.keyframe).then(has_sets),
        }
    }

    /// Publishes the frames that are due by now.
    fn play(&mut self) {
        loop {
            let frame = match self.next.take() {
                Some(frame) => frame,
                None => self.source.next_frame().expect("good").expect("endless"),
            };
            let due = self.start + frame.decode_time.saturating_since(MediaTime::ZERO);
            if due > Instant::now() {
                self.next = Some(frame);
                return;
            }
            let Some(begins) = self.begins(&frame) else {
                continue;
            };
            let mut builder = UnitBuilder::default();
            h264::packetize(annexb::nals(&frame.data), 1200, &mut builder);
            let stamps = Stamps::arrived(Instant::now());
            let unit = builder.build(TrackIndex(0), frame.time, begins, stamps);
            let unit = unit.expect("a frame has packets");
            self.publisher.push(unit, Instant::now()).expect("a track");
        }
    }
}

fn transcoded<'a>(running: &'a Running, path: &str) -> Result<Peer<'a>, Response> {
    let asked = PeerOffer::to_watch();
    Peer::asking(running, path, &[], socket(), asked, str::to_owned)
}

#[test]
fn a_viewer_that_asks_for_it_gets_video_without_b_frames() {
    let running = Running::start(1);
    let mut film = Film::start(&running);
    film.play();
    let detail = refusal(&running, STREAM);
    assert!(
        detail.contains("-bf 0") && detail.contains("?transcode"),
        "{detail}"
    );
    let path = format!("/{STREAM}/whep?transcode");
    let mut viewers = [(); 2].map(|()| transcoded(&running, &path).expect("an answer"));
    let end = Instant::now() + 3 * SOON;
    let has_frames = |viewer: &Peer<'_>| viewer.of(Kind::Video).filter(|it| it.marker).count() > 60;
    while !viewers.iter().all(has_frames) {
        assert!(Instant::now() < end, "frames: {:?}", viewers[0].dropped);
        film.play();
        for viewer in &mut viewers {
            viewer.run_for(Duration::from_millis(5));
        }
    }
    for viewer in &viewers {
        let packets = viewer.in_order(Kind::Video);
        let times = packets
            .windows(2)
            .map(|pair| pair[1].timestamp.wrapping_sub(pair[0].timestamp) as i32);
        assert!(
            times.clone().all(|step| step >= 0),
            "in the order of display"
        );
        let track = running.stream().tracks()[0].clone();
        let mut frames = Depacketizer::new(&track).expect("a format");
        let mut splitter = Splitter::new();
        for it in &packets {
            frames.push(it.sequence, it.timestamp, it.marker, &it.payload);
            while let Some(unit) = frames.poll() {
                splitter.push(&unit.data).expect("Annex B");
            }
        }
        splitter.finish().expect("a keyframe");
        let notes = splitter.notes();
        assert_eq!((notes.reordered, notes.damaged_slices), (0, 0));
        let made = splitter.track().expect("a track").video.clone();
        assert_eq!(
            (made.width, made.height),
            (track.video.width, track.video.height)
        );
    }
    // A keyframe comes from the transcoder when a viewer needs one.
    let keyframe_requests = running.total("keyframe_requests_total");
    let receivers = viewers[0].session.receivers();
    let video = receivers.iter().position(|it| it.kind == Kind::Video);
    let now = Instant::now();
    viewers[0]
        .session
        .request_keyframe(video.expect("agreed").into(), now);
    let mut views = running.admin("/api/v1/transcodings").json();
    while running.total("keyframe_requests_total") == keyframe_requests
        || views["transcodings"][0]["viewers"] != 2
    {
        assert!(Instant::now() < end, "{views}");
        film.play();
        viewers[0].run_for(Duration::from_millis(5));
        views = running.admin("/api/v1/transcodings").json();
    }
    let view = &views["transcodings"][0];
    assert_eq!(
        (&view["from"], &view["to"]),
        (&"H264".into(), &"H264".into())
    );
    assert!(view["cpu_s"].as_f64() > Some(0.0) && view["width"].as_u64() > Some(0));
    assert_eq!(
        views["transcodings"].as_array().map(Vec::len),
        Some(1),
        "once"
    );
    assert_eq!(running.total("transcodings_started_total"), 1);
}

/// w3c/webcodecs#650: a viewer in a browser waited for an IDR picture without an end.
#[test]
fn a_viewer_that_asks_for_it_gets_idr_frames_of_intra_refresh() {
    let running = Running::start(1);
    let mut film = Film::without_idr_frames(&running);
    let end = Instant::now() + 3 * SOON;
    let view = |running: &Running| {
        let entry = running.get(&format!("/api/v1/streams/{STREAM}")).json();
        entry["tracks"][0].clone()
    };
    while view(&running)["begins_in_browsers"] != false {
        assert!(Instant::now() < end, "{}", view(&running));
        film.play();
    }
    let browser = view(&running)["browser"].clone();
    let note = browser["note"].as_str().unwrap_or_default();
    assert!(
        browser["codec"].is_null() && note.contains("intra refresh") && note.contains("?transcode"),
        "{browser}"
    );
    let path = format!("/{STREAM}/whep?transcode");
    let mut viewer = transcoded(&running, &path).expect("an answer");
    let frames = |viewer: &Peer<'_>| viewer.of(Kind::Video).filter(|it| it.marker).count();
    let mut described = running.stream().tracks().to_vec();
    while frames(&viewer) < 60 {
        assert!(
            Instant::now() < end,
            "{} {:?}",
            view(&running),
            viewer.dropped
        );
        film.play();
        viewer.run_for(Duration::from_millis(5));
        // The video still has no B-frames, and the viewer needs the transcoding nevertheless.
        if frames(&viewer) == 20 {
            described[0].video.height += 2;
            film.publisher
                .describe(&described)
                .expect("the same codecs");
        }
    }
    let first = viewer
        .in_order(Kind::Video)
        .into_iter()
        .next()
        .expect("packets");
    assert!(h264::payload_begins_keyframe(&first.payload), "{first:?}");
    let counted = running.admin("/api/v1/transcodings").json();
    assert_eq!(counted["transcodings"][0]["undecodable"], 0, "{counted}");
}

#[test]
fn a_viewer_is_refused_where_video_is_not_transcoded() {
    let running = Running::with(1, |config| config.transcoding.video_streams = Some(0));
    let mut film = Film::start(&running);
    film.play();
    let path = format!("/{STREAM}/whep?transcode");
    let refused = transcoded(&running, &path).err().expect("turned off");
    let problem = refused.problem(422);
    let detail = problem["detail"].as_str().expect("words");
    assert!(
        detail.contains("transcoding.video_streams") && detail.contains("-bf 0"),
        "{detail}"
    );
    let entry = running.get(&format!("/api/v1/streams/{STREAM}")).json();
    let note = entry["tracks"][0]["browser"]["note"].as_str();
    assert!(
        note.is_some_and(|note| note.contains("turned off")),
        "{entry}"
    );
}

#[test]
fn with_always_a_viewer_gets_video_without_b_frames_and_without_asking() {
    let running = Running::with(1, |config| config.transcoding.video = Transcode::Always);
    let mut film = Film::start(&running);
    film.play();
    let path = format!("/{STREAM}/whep");
    let mut viewer = transcoded(&running, &path).expect("an answer");
    let end = Instant::now() + 3 * SOON;
    while viewer.of(Kind::Video).filter(|it| it.marker).count() < 30 {
        assert!(Instant::now() < end, "frames: {:?}", viewer.dropped);
        film.play();
        viewer.run_for(Duration::from_millis(5));
    }
    let entry = running.get(&format!("/api/v1/streams/{STREAM}")).json();
    let browser = &entry["tracks"][0]["browser"];
    assert_eq!(browser["codec"], "H264", "{entry}");
    assert_eq!(browser["note"], serde_json::Value::Null, "{entry}");
    let cost = &browser["transcoding"];
    assert_eq!(cost["viewers"], 1, "{entry}");
    assert!(cost["cpu_ratio"].as_f64() > Some(0.0), "{entry}");
    let metrics = running.admin("/metrics").body;
    let gauge = format!("glassline_transcoding_cores{{stream=\"{STREAM}\"");
    assert!(metrics.contains(&gauge), "{metrics}");
    // The stream's own choice goes first.
    running.stream().set_transcode(Some(Transcode::Never));
    let refused = transcoded(&running, &path).err().expect("refused");
    let problem = refused.problem(422);
    assert_eq!(problem["transcode"], serde_json::Value::Null, "{problem}");
    let asked = transcoded(&running, &format!("{path}?transcode"));
    let problem = asked.err().expect("refused").problem(422);
    let detail = problem["detail"].as_str().expect("words");
    assert!(detail.contains("transcode: never"), "{detail}");
    running.stream().set_transcode(Some(Transcode::Auto));
    let refused = transcoded(&running, &path).err().expect("refused");
    let problem = refused.problem(422);
    assert_eq!(problem["transcode"], true, "{problem}");
    assert_eq!(problem["hindrance"], "b_frames", "{problem}");
}
