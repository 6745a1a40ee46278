//! Publishers over RTSP that have the right to publish, and send garbage once they record.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use glassline_client::viewers::{Endpoint, Id, Join, Pool};
use rand::rngs::StdRng;
use rand::{Rng as _, RngCore as _};
use tokio::runtime::Runtime;

use super::{Attack, STRANGER, connections};
use crate::chaos::configuration::Configuration;
use crate::chaos::error::Error;

/// Longest wait for an answer, or until the server takes what is sent.
const PATIENCE: Duration = Duration::from_secs(2);

/// Interleaved frames in a step of a millisecond.
const FRAMES: usize = 3;

/// Steps after which a recording that lives is replaced.
const STEPS_MAX: u32 = 400;

/// Time between two viewers of the hostile stream.
const WATCH: Duration = Duration::from_millis(500);

/// Description of the hostile stream: H.264 on channels 0 and 1, Opus on 2 and 3.
const SDP: &str = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nt=0 0\r\n\
    m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n\
    a=fmtp:96 packetization-mode=1;sprop-parameter-sets=Z0LAH9oBQBbsBEA=,aM48gA==\r\n\
    a=control:trackID=0\r\n\
    m=audio 0 RTP/AVP 97\r\na=rtpmap:97 opus/48000/2\r\na=control:trackID=1\r\n";

impl Attack<'_> {
    /// Records, and sends broken RTP, RTCP, frames and requests; a viewer watches what comes of it.
    pub(super) fn record_garbage(&mut self) -> Result<(), Error> {
        let configuration = self.deployment.configuration.clone();
        let runtime = connections::runtime()?;
        let mut watcher = Watcher::new(self.pool()?);
        let mut recording: Option<Recording> = None;
        let (mut opened, mut closed) = (0, 0);
        self.repeat(|attack| {
            let Some(open) = recording.as_mut() else {
                // A name is free again when the server has noticed the end of its publisher.
                let name = format!("garbage-{}", (opened + attack.outcome.refused) % 8);
                match Recording::open(&runtime, &configuration, &name) {
                    Ok(it) => {
                        opened += 1;
                        recording = Some(it);
                        watcher.watch(&configuration.whep(&name));
                    }
                    Err(_) => attack.outcome.refused += 1,
                }
                return attack.step(Duration::from_millis(5));
            };
            for _ in 0..FRAMES {
                if open.send(&mut attack.random).is_err() {
                    closed += 1;
                    recording = None;
                    return Ok(());
                }
                attack.outcome.sent += 1;
            }
            if open.steps > STEPS_MAX {
                recording = None;
            }
            Ok(())
        })?;
        self.note(format!(
            "{opened} recordings, of which the server closed {closed}"
        ));
        if opened == 0 {
            self.late("no publisher with the right to publish could record".to_owned());
        }
        Ok(())
    }
}

/// A viewer of the newest hostile stream.
struct Watcher {
    pool: Pool,
    viewer: Option<Id>,
    since: Instant,
}

impl Watcher {
    fn new(pool: Pool) -> Self {
        Self {
            pool,
            viewer: None,
            since: Instant::now(),
        }
    }

    fn watch(&mut self, url: &str) {
        if self.viewer.is_some() && self.since.elapsed() < WATCH {
            return;
        }
        if let Some(viewer) = self.viewer.take() {
            self.pool.leave(viewer);
        }
        if let Ok(endpoint) = Endpoint::parse(url) {
            self.viewer = Some(self.pool.join(Join::new(endpoint).counting()));
            self.since = Instant::now();
        }
    }
}

/// A connection in the state after RECORD.
struct Recording {
    stream: TcpStream,
    session: String,
    url: String,
    number: u32,
    sequence: u16,
    timestamp: u32,
    ssrc: u32,
    steps: u32,
}

impl Recording {
    /// Announces a stream, sets both tracks up, and records.
    fn open(runtime: &Runtime, to: &Configuration, name: &str) -> io::Result<Self> {
        let stream = runtime.block_on(connections::connect(STRANGER, to.rtsp))?;
        let stream = stream.into_std()?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut recording = Self {
            stream,
            session: String::new(),
            url: format!("rtsp://{}/{name}", to.rtsp),
            number: 0,
            sequence: 0,
            timestamp: 0,
            ssrc: 1,
            steps: 0,
        };
        let query = format!("?token={}", to.publish_token);
        let content = format!(
            "Content-Type: application/sdp\r\nContent-Length: {}\r\n",
            SDP.len()
        );
        recording.request("ANNOUNCE", &query, &content, SDP)?;
        for track in 0..2 {
            let transport = format!(
                "Transport: RTP/AVP/TCP;unicast;mode=record;interleaved={}-{}\r\n",
                2 * track,
                2 * track + 1
            );
            recording.request("SETUP", &format!("/trackID={track}{query}"), &transport, "")?;
        }
        recording.request("RECORD", &query, "", "")?;
        Ok(recording)
    }

    /// Sends a request, and waits for the answer, which must be 200.
    fn request(&mut self, method: &str, path: &str, headers: &str, body: &str) -> io::Result<()> {
        self.number += 1;
        let session = match self.session.as_str() {
            "" => String::new(),
            session => format!("Session: {session}\r\n"),
        };
        let (url, number) = (&self.url, self.number);
        let text = format!(
            "{method} {url}{path} RTSP/1.0\r\nCSeq: {number}\r\n{session}{headers}\r\n{body}"
        );
        self.stream.write_all(text.as_bytes())?;
        let mut answer = Vec::new();
        let mut byte = [0];
        while !answer.ends_with(b"\r\n\r\n") {
            self.stream.read_exact(&mut byte)?;
            answer.push(byte[0]);
        }
        let answer = String::from_utf8_lossy(&answer).into_owned();
        if !answer.starts_with("RTSP/1.0 200") {
            return Err(io::Error::other(answer));
        }
        let line = answer
            .lines()
            .find_map(|line| line.strip_prefix("Session: "));
        if let Some(line) = line {
            line.split(';')
                .next()
                .unwrap_or("")
                .clone_into(&mut self.session);
        }
        Ok(())
    }

    /// Sends one piece of garbage.
    fn send(&mut self, random: &mut StdRng) -> io::Result<()> {
        self.steps += 1;
        let bytes = match random.random_range(0..160) {
            0 => self.broken_request(random),
            1 => noise(random, 1..200),
            2 => frame(random.random(), &noise(random, 0..60), random.random()),
            3..24 => {
                let packet = rtcp(random, self.ssrc);
                let channel = 1 + 2 * random.random_range(0..2);
                let length = told(random, packet.len());
                frame(channel, &packet, length)
            }
            _ => {
                let packet = self.rtp(random);
                let channel = match random.random_range(0..30) {
                    0 => random.random(),
                    _ => 2 * random.random_range(0..2),
                };
                let length = told(random, packet.len());
                frame(channel, &packet, length)
            }
        };
        self.stream.write_all(&bytes)
    }

    /// A request that is out of place, whose answer nobody reads.
    fn broken_request(&self, random: &mut StdRng) -> Vec<u8> {
        const METHODS: [&str; 8] = [
            "ANNOUNCE",
            "SETUP",
            "PLAY",
            "PAUSE",
            "RECORD",
            "DESCRIBE",
            "GET_PARAMETER",
            "\u{7f}",
        ];
        let method = METHODS[random.random_range(0..METHODS.len())];
        let session = match random.random_range(0..3) {
            0 => "0",
            1 => "\u{fffd}",
            _ => &self.session,
        };
        let number: i32 = random.random();
        let text = format!(
            "{method} {} RTSP/1.0\r\nCSeq: {number}\r\nSession: {session}\r\nTransport: \
             RTP/AVP/TCP;interleaved=0-300\r\n\r\n",
            self.url
        );
        text.into_bytes()
    }

    /// An RTP packet whose numbers jump, or whose contents lack what its header promises.
    fn rtp(&mut self, random: &mut StdRng) -> Vec<u8> {
        self.sequence = self.sequence.wrapping_add(1);
        self.timestamp = self.timestamp.wrapping_add(3000);
        match random.random_range(0..12) {
            0 => self.sequence = random.random(),
            1 => self.timestamp = random.random(),
            2 => self.timestamp = self.timestamp.wrapping_add(1 << 31),
            3 => self.ssrc = random.random(),
            _ => {}
        }
        let first = match random.random_range(0..12) {
            // Version, padding, extension and sources that are not there.
            0 => random.random(),
            1 => 0xbf,
            _ => 0x80,
        };
        let marker = u8::from(random.random::<bool>()) << 7;
        let payload_type = match random.random_range(0..12) {
            0 => random.random_range(0..128),
            1..3 => 97,
            _ => 96,
        };
        let mut packet = vec![first, marker | payload_type];
        packet.extend(self.sequence.to_be_bytes());
        packet.extend(self.timestamp.to_be_bytes());
        packet.extend(self.ssrc.to_be_bytes());
        packet.extend(payload(random));
        if random.random_ratio(1, 16) {
            packet.truncate(random.random_range(0..packet.len()));
        }
        packet
    }
}

/// A payload of H.264 that begins like one of its kinds (RFC 6184 §5.2).
fn payload(random: &mut StdRng) -> Vec<u8> {
    const BEGINNINGS: [&[u8]; 10] = [
        &[0x67, 0x42, 0xc0, 0x1f],
        &[0x67, 0xff, 0xff, 0xff, 0xff],
        &[0x68, 0xce],
        &[0x65, 0x88],
        &[0x41, 0x9a],
        // Aggregates whose sizes do not fit.
        &[0x78, 0xff, 0xff, 0x67],
        &[0x78, 0, 0, 0, 0],
        // Fragments: a begin, a middle without begin, an end.
        &[0x7c, 0x85],
        &[0x7c, 0x05],
        &[0x7c, 0x45],
    ];
    let mut bytes = BEGINNINGS[random.random_range(0..BEGINNINGS.len())].to_vec();
    bytes.extend(noise(random, 0..1300));
    bytes
}

/// RTCP: sender reports with absurd clocks, goodbyes, and lengths that do not fit.
fn rtcp(random: &mut StdRng, ssrc: u32) -> Vec<u8> {
    let kind: u8 = random.random_range(199..=208);
    let mut packet = vec![0x80 | random.random_range(0..32), kind];
    let body = noise(random, 0..80);
    let words: u16 = match random.random_range(0..3) {
        0 => random.random(),
        _ => u16::try_from(body.len() / 4 + 1).unwrap_or(u16::MAX),
    };
    packet.extend(words.to_be_bytes());
    packet.extend(ssrc.to_be_bytes());
    packet.extend(body);
    packet
}

/// An interleaved frame (RFC 2326 §10.12) that says to hold `length` bytes.
fn frame(channel: u8, packet: &[u8], length: u16) -> Vec<u8> {
    let mut bytes = vec![b'$', channel];
    bytes.extend(length.to_be_bytes());
    bytes.extend(packet);
    bytes
}

/// The length of a frame, which is sometimes not that of the packet in it.
fn told(random: &mut StdRng, bytes: usize) -> u16 {
    match random.random_range(0..200) {
        0 => random.random(),
        1 => 0,
        _ => u16::try_from(bytes).unwrap_or(u16::MAX),
    }
}

fn noise(random: &mut StdRng, lengths: std::ops::Range<usize>) -> Vec<u8> {
    let mut bytes = vec![0; random.random_range(lengths)];
    random.fill_bytes(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;

    #[test]
    fn most_frames_hold_what_they_say() {
        let mut random = StdRng::seed_from_u64(1);
        let fitting = (0..1000).filter(|_| {
            let packet = payload(&mut random);
            let length = told(&mut random, packet.len());
            frame(0, &packet, length).len() == 4 + usize::from(length)
        });
        assert!((900..1000).contains(&fitting.count()));
    }
}
