//! A stream is recorded over a narrow path, in virtual time: by a TCP connection and by datagrams.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use glassline_congestion::Algorithm;
use glassline_media::NtpTime;
use glassline_rtp::payload::Depacketizer;
use glassline_rtp::receive::ReceiveStatistics;
use glassline_rtp::{Packet, SequenceExtender, rtcp};
use glassline_rtsp::client::Event;
use glassline_rtsp::interleaved::{Demultiplexer, Item, Reader};
use glassline_rtsp::{Limits, Message, Method};
use glassline_sim::{Clock, Conditions, Link};

use super::*;
use crate::publish::unit::Unit;
use crate::publish::uplink::film::{Film, TestedUplink, follows_the_path};

const MILLI: Duration = Duration::from_millis(1);
/// Delay of the path in each direction.
const DELAY: Duration = Duration::from_millis(20);
/// Bytes that the kernel takes of a connection, sent or not: the least that Linux gives.
const KERNEL_BYTES: usize = 256 << 10;
/// Largest segment of the connection.
const SEGMENT: usize = 1448;
/// Time between receiver reports.
const REPORTS: Duration = Duration::from_secs(2);

/// A server that answers every request, and puts packets together again.
struct Server {
    reader: Reader,
    statistics: Option<ReceiveStatistics>,
    sequences: SequenceExtender,
    depacketizer: Depacketizer,
    answers: Vec<u8>,
    frames: Vec<(u64, Instant)>,
    packets: u64,
    methods: Vec<Method>,
}

impl Server {
    fn new(track: &Track) -> Self {
        Self {
            reader: Reader::new(Demultiplexer::new(Limits::default(), 0)),
            statistics: None,
            sequences: SequenceExtender::new(),
            depacketizer: Depacketizer::new(track).expect("VP8"),
            answers: Vec::new(),
            frames: Vec::new(),
            packets: 0,
            methods: Vec::new(),
        }
    }

    fn take_stream(&mut self, now: Instant, bytes: &[u8]) {
        let mut frames = Vec::new();
        let (answers, methods) = (&mut self.answers, &mut self.methods);
        let read = self.reader.push(bytes, |item| match item {
            Item::Message(Message::Request(request)) => {
                let cseq = request.headers.cseq().expect("numbered");
                let transport = request.headers.get("Transport");
                let ports = match transport {
                    Some(text) if !text.contains("interleaved") => {
                        format!("Transport: {text};server_port=6000-6001\r\n")
                    }
                    _ => String::new(),
                };
                let text = format!("RTSP/1.0 200 OK\r\nCSeq: {cseq}\r\nSession: a\r\n{ports}\r\n");
                answers.extend(text.into_bytes());
                methods.push(request.method);
            }
            Item::Message(Message::Response(response)) => panic!("{response:?}"),
            Item::Frame {
                channel: 0,
                payload,
            } => frames.push(payload.to_vec()),
            Item::Frame { .. } => {}
        });
        read.expect("our own stream");
        for frame in frames {
            self.take_packet(now, &frame);
        }
    }

    fn take_packet(&mut self, now: Instant, bytes: &[u8]) {
        let packet = Packet::parse(bytes).expect("our own packet");
        let sequence = self.sequences.extend(packet.header.sequence);
        let statistics = self
            .statistics
            .get_or_insert_with(|| ReceiveStatistics::new(packet.header.ssrc, 90_000));
        let (timestamp, length) = (packet.header.timestamp, packet.payload.len());
        statistics.on_packet(sequence, timestamp, length, now);
        self.packets += 1;
        let marker = packet.header.marker;
        self.depacketizer
            .push(sequence, timestamp, marker, packet.payload);
        while let Some(unit) = self.depacketizer.poll() {
            let number = unit.data[..8].try_into().expect("eight bytes");
            self.frames.push((u64::from_be_bytes(number), now));
        }
    }

    fn take_control(&mut self, now: Instant, ntp: NtpTime) {
        if let Some(statistics) = &mut self.statistics {
            statistics.on_sender_report(ntp, now);
        }
    }

    fn report(&mut self, now: Instant) -> Option<Vec<u8>> {
        let block = self.statistics.as_mut()?.report_block(now)?;
        let mut out = Vec::new();
        let ssrc = glassline_media::Ssrc(1);
        let reports = vec![block];
        rtcp::ReceiverReport { ssrc, reports }.write(&mut out);
        Some(out)
    }
}

/// A recording, its server, and the path between.
struct Simulated {
    clock: Clock,
    recording: Recording,
    tracks: PacketizedTracks,
    server: Server,
    /// Segments of the connection, or datagrams, with whether they are RTCP.
    link: Link<(bool, Vec<u8>)>,
    is_stream: bool,
    /// Bytes that the kernel has and that have not left.
    kernel: VecDeque<u8>,
    unacknowledged: usize,
    /// The messages that come back: acknowledged bytes, answers, and reports.
    back: VecDeque<(Instant, Back)>,
    next_report: Instant,
    report_lost: bool,
    kept: Conditions,
}

enum Back {
    Acknowledged(usize),
    Answers(Vec<u8>),
    Report(Vec<u8>),
}

impl Simulated {
    fn recording(transport: RequestedTransport) -> Self {
        let clock = Clock::new();
        let now = clock.now();
        let track = Track::new(Codec::Vp8);
        let start = Start {
            ssrc: 77,
            sequence: 65_500,
            timestamp: 9,
        };
        let address = IpAddr::from(Ipv4Addr::LOCALHOST);
        let tracks = vec![track.clone()];
        let plan = Plan {
            client: Config::new("rtsp://host/cam".parse().expect("a URL"), [1; 32]),
            presentation: Recording::describe(&tracks, address, 1),
            transports: vec![transport],
            tracks: &tracks,
            starts: vec![start],
            algorithm: Algorithm::Glide,
            start: Bitrate::from_bps(1_000_000),
            wall: WallClock::new(now, Duration::from_secs(1_700_000_000)),
            zero: now,
            name: "test".to_owned(),
        };
        let conditions = Conditions::delayed(DELAY);
        let packetized = PacketizedTrack::new(&track, 0, start.timestamp, track.clock_rate);
        let mut simulated = Self {
            recording: Recording::start(plan, now),
            tracks: PacketizedTracks::new(vec![packetized]),
            server: Server::new(&track),
            link: Link::new(conditions.clone(), 7).starting_at(now),
            is_stream: transport == RequestedTransport::Interleaved,
            kernel: VecDeque::new(),
            unacknowledged: 0,
            back: VecDeque::new(),
            next_report: now + REPORTS,
            report_lost: false,
            kept: conditions,
            clock,
        };
        for _ in 0..1000 {
            simulated.advance();
        }
        assert!(
            simulated.recording.is_on(),
            "{:?}",
            simulated.recording.ended
        );
        simulated
    }

    /// Takes what the path carried.
    fn arrive(&mut self, now: Instant) {
        while let Some(arrival) = self.link.poll(now) {
            let (is_control, bytes) = arrival.datagram;
            let at = arrival.at + DELAY;
            if is_control {
                let packets = rtcp::parse(&bytes).flatten();
                for packet in packets {
                    if let rtcp::Packet::SenderReport(report) = packet {
                        self.server.take_control(arrival.at, report.ntp);
                    }
                }
            } else if self.is_stream {
                self.server.take_stream(arrival.at, &bytes);
                self.back.push_back((at, Back::Acknowledged(bytes.len())));
            } else {
                self.server.take_packet(arrival.at, &bytes);
            }
            let answers = std::mem::take(&mut self.server.answers);
            if !answers.is_empty() {
                self.back.push_back((at, Back::Answers(answers)));
            }
        }
        if now >= self.next_report {
            self.next_report = now + REPORTS;
            if let Some(report) = self.server.report(now).filter(|_| !self.report_lost) {
                self.back.push_back((now + DELAY, Back::Report(report)));
            }
        }
    }

    /// Takes what came back.
    fn receive(&mut self, now: Instant) {
        while self.back.front().is_some_and(|(at, _)| *at <= now) {
            match self.back.pop_front().expect("just seen").1 {
                Back::Acknowledged(bytes) => self.unacknowledged -= bytes,
                Back::Answers(bytes) => self.recording.handle_data(now, &bytes),
                Back::Report(bytes) => self.recording.handle_control(now, TrackIndex(0), &bytes),
            }
        }
        while let Some(event) = self.recording.poll_event(now) {
            assert!(!matches!(event, Event::Closed(_)), "{event:?}");
        }
    }

    /// The kernel's part of a connection: takes bytes while its buffer has room, and sends them at
    /// once, since a narrow link has queues long enough for all of them.
    fn write(&mut self, now: Instant) {
        let room = KERNEL_BYTES.saturating_sub(self.unacknowledged);
        let count = self.recording.output().len().min(room);
        let output = &self.recording.output()[..count];
        if self.is_stream {
            self.kernel.extend(output);
            self.recording.advance(count);
            self.unacknowledged += count;
            while !self.kernel.is_empty() {
                let count = self.kernel.len().min(SEGMENT);
                let bytes: Vec<u8> = self.kernel.drain(..count).collect();
                self.link.send(now, count + 40, (false, bytes));
            }
        } else {
            // Messages have a connection of their own.
            let output = output.to_vec();
            self.recording.advance(count);
            self.server.take_stream(now, &output);
            let answers = std::mem::take(&mut self.server.answers);
            self.recording.handle_data(now, &answers);
        }
    }
}

impl TestedUplink for Simulated {
    fn advance(&mut self) -> Instant {
        self.clock.advance(MILLI);
        let now = self.clock.now();
        self.arrive(now);
        self.receive(now);
        if self.is_stream {
            self.recording
                .on_unacknowledged(now, self.unacknowledged as u64);
        }
        let link = &mut self.link;
        self.recording.send(now, &mut |_, control, bytes| {
            link.send(now, bytes.len() + 28, (control, bytes.to_vec()));
        });
        self.write(now);
        now
    }

    fn path(&mut self) -> Path {
        self.recording.path()
    }

    fn waiting_bytes(&self) -> u64 {
        self.recording.outgoing.waiting_bytes()
    }

    fn push(&mut self, unit: &Unit) {
        let packets = self.tracks.packetize(unit).expect("VP8").expect("packets");
        let (sender, timestamp) = (packets.sender, packets.timestamp);
        self.recording
            .outgoing
            .push(sender, timestamp, packets.unit);
    }

    fn set_kbps(&mut self, kbps: u64) {
        let rate = Bitrate::from_bps(kbps * 1000);
        // TCP would send again what is lost, which is not simulated: its queue loses nothing.
        let queue = match self.is_stream {
            true => Duration::from_secs(10),
            false => Duration::from_millis(300),
        };
        self.kept = Conditions::limited(rate, DELAY, queue);
        self.link.set_conditions(self.kept.clone());
    }

    fn take_frames(&mut self) -> Vec<(u64, Instant)> {
        std::mem::take(&mut self.server.frames)
    }
}

const UDP: RequestedTransport = RequestedTransport::Udp {
    ports: (5000, 5001),
};

#[test]
fn a_stream_within_tcp_follows_the_path_and_stays_fresh() {
    let uplink = Simulated::recording(RequestedTransport::Interleaved);
    let mut film = follows_the_path(uplink, Duration::from_millis(200));
    let simulated = &mut film.uplink;
    let methods = [
        Method::Options,
        Method::Announce,
        Method::Setup,
        Method::Record,
    ];
    assert_eq!(simulated.server.methods[..4], methods);
    assert_eq!(simulated.unacknowledged, 0);
    let totals = simulated
        .server
        .statistics
        .as_ref()
        .expect("packets")
        .totals();
    assert_eq!((totals.lost(), totals.duplicates), (0, 0));
    assert!(simulated.recording.is_idle());
}

#[test]
fn a_stream_by_udp_follows_the_receiver_reports() {
    let film = follows_the_path(Simulated::recording(UDP), Duration::from_millis(250));
    let simulated = &film.uplink;
    let totals = simulated
        .server
        .statistics
        .as_ref()
        .expect("packets")
        .totals();
    // The queue of the path overflows where the path narrows, and while the bitrate grows.
    assert!(totals.lost() * 20 < totals.expected, "{totals:?}");
    let known = simulated.recording.totals();
    assert!(
        known.round_trip.is_some_and(|it| it >= 2 * DELAY),
        "{known:?}"
    );
}

#[test]
fn a_server_that_stops_reporting_is_sent_less() {
    let mut film = Film::new(Simulated::recording(UDP));
    film.uplink.set_kbps(20_000);
    film.run(20);
    let before = film.uplink.path().deliverable.expect("reports came");
    film.uplink.report_lost = true;
    film.run(25);
    let after = film.uplink.path().deliverable.expect("reports came");
    assert!(
        after.bps() * 3 < before.bps(),
        "{before} before, {after} after"
    );
}

#[test]
fn a_connection_that_acknowledges_nothing_is_given_up() {
    let mut film = Film::new(Simulated::recording(RequestedTransport::Interleaved));
    film.run(2);
    // All that is sent from now on waits for a minute.
    film.uplink
        .link
        .set_conditions(Conditions::delayed(Duration::from_secs(60)));
    film.run(20);
    let ended = film.uplink.recording.ended.take();
    assert!(matches!(ended, Some(RtspError::Stalled)), "{ended:?}");
    assert!(RtspError::Stalled.is_transient());
}

#[test]
fn a_server_asks_for_a_keyframe_by_either_request() {
    let mut simulated = Simulated::recording(RequestedTransport::Interleaved);
    let (sender, media) = (glassline_media::Ssrc(1), glassline_media::Ssrc(77));
    let now = simulated.clock.now();
    let pli = rtcp::PictureLossIndication { sender, media };
    let mut interleaved = Vec::new();
    pli.write(&mut interleaved);
    let length = u8::try_from(interleaved.len()).expect("short");
    let framed = [&[b'$', 1, 0, length][..], &interleaved].concat();
    simulated.recording.handle_data(now, &framed);
    assert!(std::mem::take(&mut simulated.recording.keyframe_wanted));
    // A report is no request, and neither is nonsense.
    for quiet in [&[0x80, 201, 0, 1, 0, 0, 0, 1][..], &[1, 2, 3], &[]] {
        simulated
            .recording
            .handle_control(now, TrackIndex(0), quiet);
    }
    assert!(!simulated.recording.keyframe_wanted);
}

#[test]
fn refusals_come_with_what_to_change() {
    let refused = |code: u16| {
        RtspError::Closed(Closed::Refused {
            method: Method::Announce,
            status: glassline_rtsp::Status(code),
            reason: String::new(),
        })
    };
    assert!(refused(401).to_string().contains("--token"));
    // A wrong token is answered like a missing password.
    let missing = RtspError::Closed(Closed::CredentialsMissing);
    assert!(missing.to_string().contains("--token") && !missing.is_transient());
    assert!(refused(409).to_string().contains("another publisher"));
    assert!(refused(409).is_transient() && !refused(403).is_transient());
}
