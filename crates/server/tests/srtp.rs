//! SRTP within RTSPS: packets to and from a client that has its own keys.

use std::io::Write;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use glassline_config::Srtp;
use glassline_media::{NtpTime, Ssrc};
use glassline_rtp::rtcp::{self, ReceiverReport};
use glassline_rtp::{HEADER_BYTES, Header};
use glassline_rtsp::interleaved::write_frame;
use glassline_rtsp::mikey::{Cipher, Keys};
use glassline_rtsp::sdp::Description;
use glassline_webrtc::srtp::{Inbound, Outbound, Profile};

use crate::rtsps::{Sealed, running};
use crate::running::Running;
use crate::source::{Film, Source};

/// Time limit for events that take no time on an idle machine.
const SOON: Duration = Duration::from_secs(20);

fn profile(cipher: Cipher) -> Profile {
    match cipher {
        Cipher::AesCm128 => Profile::Aes128CmSha1_80,
        Cipher::AesGcm128 => Profile::AeadAes128Gcm,
        Cipher::AesGcm256 => Profile::AeadAes256Gcm,
    }
}

fn inbound(keys: &Keys) -> Inbound {
    Inbound::with_master(profile(keys.cipher), keys.key(), keys.salt()).expect("whole keys")
}

/// Returns the keys that a client seals its reports with.
fn own_keys() -> Keys {
    Keys {
        csb_id: 1,
        streams: vec![(Ssrc(99), 0)],
        cipher: Cipher::AesCm128,
        master: (1..=30).collect(),
    }
}

/// Returns a report of the client, sealed.
fn report(outbound: &mut Outbound) -> Vec<u8> {
    let mut packet = Vec::new();
    ReceiverReport {
        ssrc: Ssrc(99),
        reports: Vec::new(),
    }
    .write(&mut packet);
    assert!(outbound.seal_rtcp(&mut packet));
    packet
}

/// The video of a stream, described and set up.
struct Player {
    line: Sealed,
    keys: Keys,
    inbound: Inbound,
    outbound: Outbound,
    /// Sequence number of the next packet.
    sequence: u16,
    ssrc: Ssrc,
}

fn field<'a>(response: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = response.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

impl Player {
    fn play(running: &Running, query: &str, transport: &str) -> Self {
        let mut line = Sealed::new(running);
        line.url += query;
        let described = line.ask("DESCRIBE", "", "");
        let body = described.split("\r\n\r\n").nth(1).expect("a body");
        let description = Description::parse(body.as_bytes()).expect("a description");
        for media in &description.tracks {
            assert_eq!(media.protocol, "RTP/SAVP");
            assert!(media.key_management.is_some(), "{described}");
        }
        let keys = description.tracks[0].key_management.as_deref();
        let keys = Keys::from_base64(keys.expect("keys")).expect("keys");
        let own = own_keys();
        let data = own.to_base64(NtpTime(0), &[7; 16]);
        let header = Keys::header(&data, &format!("{}/trackID=0", line.url));
        let headers = format!("Transport: {transport}\r\nKeyMgmt: {header}\r\n");
        let set_up = line.ask("SETUP", "/trackID=0", &headers);
        assert!(set_up.contains("200 OK"), "{set_up}");
        let told = field(&set_up, "KeyMgmt").expect("keys");
        let told = Keys::from_header(told).expect("MIKEY").expect("keys");
        assert_eq!(told.key(), keys.key(), "those of the description");
        let playing = line.ask("PLAY", "", "");
        assert!(playing.contains("200 OK"), "{playing}");
        let sequence = playing.split("seq=").nth(1).expect("a number");
        let sequence = sequence.split([';', ',', '\r']).next().expect("a number");
        let ssrc = set_up.split("ssrc=").nth(1).expect("a source");
        let ssrc = u32::from_str_radix(&ssrc[..8], 16).expect("a source");
        let master = Outbound::with_master(profile(own.cipher), own.key(), own.salt());
        Self {
            line,
            inbound: inbound(&keys),
            outbound: master.expect("whole keys"),
            sequence: sequence.parse().expect("a number"),
            ssrc: Ssrc(ssrc),
            keys,
        }
    }

    /// Returns the payload of a media packet, which must be the next one.
    fn open(&mut self, mut packet: Vec<u8>) -> Vec<u8> {
        let header = Header::parse(&packet).expect("RTP");
        assert_eq!(header.sequence, self.sequence, "no gaps, as RTP-Info said");
        assert_eq!(header.ssrc, self.ssrc);
        self.sequence = self.sequence.wrapping_add(1);
        let opened = self.inbound.open(HEADER_BYTES, &mut packet);
        packet[opened.expect("authentic").payload].to_vec()
    }

    fn open_report(&mut self, mut packet: Vec<u8>) {
        let bytes = self.inbound.open_rtcp(&mut packet).expect("authentic");
        let first = rtcp::parse(&packet[..bytes]).next();
        let Some(Ok(rtcp::Packet::SenderReport(report))) = first else {
            panic!("{first:?}");
        };
        assert_eq!(report.ssrc, self.ssrc);
    }

    /// Returns the media of the connection's next frame; reports are opened.
    fn next(&mut self) -> Vec<u8> {
        loop {
            assert_eq!(self.line.byte(), b'$', "frames are never torn");
            let (channel, packet) = self.line.frame();
            match channel {
                0 => return self.open(packet),
                _ => self.open_report(packet),
            }
        }
    }

    fn say(&mut self, packet: &[u8]) {
        let mut frame = Vec::new();
        assert!(write_frame(&mut frame, 1, packet));
        self.line.stream.write_all(&frame).expect("sent");
    }
}

const WITHIN: &str = "RTP/SAVP/TCP;unicast;interleaved=0-1";

/// Waits until these numbers of reports were opened and refused.
fn await_reports(running: &Running, opened: u64, refused: u64) {
    let end = Instant::now() + SOON;
    let count = |what: &str| {
        let counts = running.metric("rtsp_srtcp_total").into_iter();
        let counts = counts.filter(|(labels, _)| labels.contains(what));
        counts.map(|(_, count)| count).sum::<u64>()
    };
    loop {
        let counts = (count("opened"), count("refused"));
        if counts == (opened, refused) {
            return;
        }
        assert!(Instant::now() < end, "{counts:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_client_with_keys_opens_what_it_is_sent_within_its_connection() {
    let running = running(|_| {});
    let film = Film {
        frame_bytes: 40_000,
        ..Film::default()
    };
    let source = Source::start(&running.stream(), film);
    source.await_published(|units| units.len() > 10);
    for (query, cipher) in [
        ("?srtp", Cipher::AesCm128),
        ("?srtp=gcm", Cipher::AesGcm128),
    ] {
        let mut player = Player::play(&running, query, WITHIN);
        assert_eq!(player.keys.cipher, cipher);
        let first = player.next();
        assert_eq!(first[0] & 0x1f, 24, "parameter sets of the keyframe");
        for _ in 0..500 {
            player.next();
        }
        // A pause is no gap either.
        let paused = player.line.ask("PAUSE", "", "");
        assert!(paused.contains("200 OK"), "{paused}");
    }
}

#[test]
fn a_pause_leaves_no_gap_in_what_a_client_opens() {
    let running = running(|_| {});
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|units| units.len() > 10);
    let mut player = Player::play(&running, "?srtp", WITHIN);
    for _ in 0..50 {
        player.next();
    }
    let frames = pause(&mut player);
    for packet in frames {
        player.open(packet);
    }
    std::thread::sleep(Duration::from_millis(300));
    let playing = player.line.ask("PLAY", "", "");
    let number = format!("seq={}", player.sequence);
    assert!(playing.contains(&number), "{number} {playing}");
    let first = player.next();
    assert_eq!(first[0] & 0x1f, 24, "it goes on at a keyframe");
}

/// Asks for a pause. Returns the media that came before the answer.
fn pause(player: &mut Player) -> Vec<Vec<u8>> {
    let text = format!(
        "PAUSE {} RTSP/1.0\r\nCSeq: 900\r\nSession: {}\r\n\r\n",
        player.line.url, player.line.session
    );
    player.line.stream.write_all(text.as_bytes()).expect("sent");
    let mut media = Vec::new();
    loop {
        match player.line.byte() {
            b'$' => {
                let (channel, packet) = player.line.frame();
                if channel == 0 {
                    media.push(packet);
                }
            }
            first => {
                let answer = player.line.response_behind(first);
                assert!(answer.contains("200 OK"), "{answer}");
                return media;
            }
        }
    }
}

#[test]
fn what_a_client_says_must_be_sealed_by_its_keys() {
    let running = running(|_| {});
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|units| units.len() > 10);
    let mut player = Player::play(&running, "?srtp", WITHIN);
    let good = report(&mut player.outbound);
    player.say(&good);
    let mut forged = report(&mut player.outbound);
    forged[9] ^= 1;
    player.say(&forged);
    player.say(&good);
    player.say(b"");
    await_reports(&running, 1, 3);
    player.next();
}

#[test]
fn a_client_with_keys_opens_what_it_is_sent_by_udp() {
    let running = running(|_| {});
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|units| units.len() > 10);
    let open = || UdpSocket::bind("127.0.0.1:0").expect("a port");
    let (media, control) = (open(), open());
    for socket in [&media, &control] {
        socket.set_read_timeout(Some(SOON)).expect("a timeout");
    }
    let port = |socket: &UdpSocket| socket.local_addr().expect("bound").port();
    let ports = format!("client_port={}-{}", port(&media), port(&control));
    let mut player = Player::play(&running, "?srtp", &format!("RTP/SAVP;unicast;{ports}"));
    let mut buffer = [0; 2048];
    let mut receive = |socket: &UdpSocket| {
        let (bytes, from) = socket.recv_from(&mut buffer).expect("a datagram");
        (buffer[..bytes].to_vec(), from)
    };
    for _ in 0..100 {
        let (packet, _) = receive(&media);
        player.open(packet);
    }
    let (packet, server) = receive(&control);
    player.open_report(packet);
    let good = report(&mut player.outbound);
    control.send_to(&good, server).expect("sent");
    control.send_to(&good, server).expect("sent");
    await_reports(&running, 1, 1);
    let clients = running.admin("/api/v1/rtsp/clients").json();
    assert_eq!(clients["clients"][0]["srtp"], true, "{clients}");
    assert_eq!(clients["clients"][0]["transport"], "udp", "{clients}");
}

#[test]
fn who_lags_skips_to_a_keyframe_and_loses_no_count() {
    let running = running(|config| config.rtsp.lag_ms = 300);
    let film = Film {
        frame_bytes: 60_000,
        gop: 15,
    };
    let source = Source::start(&running.stream(), film);
    source.await_published(|units| units.len() > 10);
    let mut player = Player::play(&running, "?srtp", WITHIN);
    std::thread::sleep(Duration::from_secs(5));
    let end = Instant::now() + SOON;
    while running.total("rtsp_skips_total") == 0 {
        assert!(Instant::now() < end, "it skips");
        for _ in 0..100 {
            player.next();
        }
    }
    let mut keyframes = 0;
    while keyframes < 3 {
        let payload = player.next();
        keyframes += u32::from(payload[0] & 0x1f == 24);
    }
}

#[test]
fn srtp_is_given_as_the_configuration_says() {
    let ask = |srtp, query: &str, transport: &str| {
        let running = running(|config| config.rtsp.tls.srtp = srtp);
        let source = Source::start(&running.stream(), Film::default());
        source.await_published(|units| units.len() > 10);
        let mut line = Sealed::new(&running);
        line.url += query;
        let described = line.ask("DESCRIBE", "", "");
        assert!(described.contains("200 OK"), "{described}");
        let headers = format!("Transport: {transport}\r\n");
        let set_up = line.ask("SETUP", "/trackID=0", &headers);
        let status = set_up.split(' ').nth(1).expect("a status").to_owned();
        (described.contains("RTP/SAVP"), status)
    };
    let plain = "RTP/AVP/TCP;unicast;interleaved=0-1";
    let told = |sealed, status: &str| (sealed, status.to_owned());
    assert_eq!(ask(Srtp::Off, "?srtp", WITHIN), told(false, "461"));
    assert_eq!(ask(Srtp::Optional, "", plain), told(false, "200"));
    assert_eq!(ask(Srtp::Optional, "?srtp", plain), told(true, "200"));
    assert_eq!(ask(Srtp::Required, "", plain), told(true, "461"));
    assert_eq!(ask(Srtp::Required, "", WITHIN), told(true, "200"));
}

/// Announces a microphone at `line`'s URL, and sets it up with these headers.
fn announce(line: &mut Sealed, transport: &str, keys: &str) -> String {
    let sdp = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n\
               m=audio 0 RTP/SAVP 0\r\na=control:streamid=0\r\n";
    let head = "Content-Type: application/sdp\r\n";
    let announced = line.ask_with("ANNOUNCE", "", head, sdp);
    assert!(announced.contains("200 OK"), "{announced}");
    line.ask(
        "SETUP",
        "/streamid=0",
        &format!("Transport: {transport}\r\n{keys}"),
    )
}

#[test]
fn a_publisher_with_keys_is_opened_and_told_under_ours() {
    let running = running(|_| {});
    let url = format!("rtsps://{}/mic", running.rtsps());
    let transport = "RTP/SAVP/TCP;unicast;interleaved=0-1;mode=record";
    let mut without = Sealed::new(&running);
    without.url.clone_from(&url);
    let refused = announce(&mut without, transport, "");
    assert!(refused.contains(" 463 "), "{refused}");

    let own = own_keys();
    let data = own.to_base64(NtpTime(0), &[7; 16]);
    let header = format!("KeyMgmt: {}\r\n", Keys::header(&data, &url));
    let mut line = Sealed::new(&running);
    line.url = url;
    let set_up = announce(&mut line, transport, &header);
    assert!(set_up.contains("200 OK"), "{set_up}");
    let told = field(&set_up, "KeyMgmt").expect("keys");
    let mut theirs = inbound(&Keys::from_header(told).expect("MIKEY").expect("keys"));
    let answer = line.ask("RECORD", "", "");
    assert!(answer.contains("200 OK"), "{answer}");

    let master = Outbound::with_master(profile(own.cipher), own.key(), own.salt());
    let mut outbound = master.expect("whole keys");
    let stream = outbound.add_stream(Ssrc(99), 7).expect("the first");
    let mut send = |line: &mut Sealed, place: u32, forged: bool| {
        let mut packet = vec![0x80, 0, 0, 0];
        packet.extend((place * 160).to_be_bytes());
        packet.resize(HEADER_BYTES + 160 + outbound.overhead(), 0);
        let sealed = outbound.seal(stream, HEADER_BYTES, &[0x55; 160], 0, &mut packet);
        sealed.expect("room");
        packet[20] ^= u8::from(forged);
        let mut frame = Vec::new();
        assert!(write_frame(&mut frame, 0, &packet));
        line.stream.write_all(&frame).expect("sent");
    };
    let end = Instant::now() + SOON;
    send(&mut line, 0, true);
    let mut place = 1;
    let units = || {
        running
            .hub()
            .stream("mic")
            .map_or(0, |it| it.totals().units)
    };
    while units() < 20 {
        assert!(Instant::now() < end, "published");
        send(&mut line, place, false);
        place += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(running.total("rtsp_srtp_refused_total"), 1);
    let told = running.admin("/api/v1/rtsp/clients").json();
    let mut clients = told["clients"].as_array().expect("a list").iter();
    assert!(clients.any(|it| it["srtp"] == true), "{told}");
    // A report comes within some seconds.
    assert_eq!(line.byte(), b'$');
    let (channel, mut report) = line.frame();
    assert_eq!(channel, 1);
    let bytes = theirs.open_rtcp(&mut report).expect("authentic");
    let first = rtcp::parse(&report[..bytes]).next();
    let Some(Ok(rtcp::Packet::ReceiverReport(report))) = first else {
        panic!("{first:?}");
    };
    assert_eq!(report.reports[0].ssrc, Ssrc(99));
}
