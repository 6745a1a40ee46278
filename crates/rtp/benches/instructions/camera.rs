//! A camera of one track in memory and in virtual time, and the server's end of the connection.

use std::time::{Duration, Instant};

use glassline_media::{Codec, MediaTime, Ssrc, Stamps, Track, TrackIndex, UnitBuilder};
use glassline_rtp::payload::{Depacketizer, Packetizer};
use glassline_rtp::receive::{Received, SourceReceiver};
use glassline_rtp::{HEADER_BYTES, Header, write_header};

/// Bytes of a frame of video: 2.5 Mbit/s at 30 frames a second, which are nine packets.
const FRAME_BYTES: usize = 10_400;
/// Frames from one keyframe to the next.
const GROUP: usize = 60;
/// Bytes of 20 ms of Opus.
const AUDIO_BYTES: usize = 160;
const PAYLOAD_TYPE: u8 = 96;

/// A camera with the frames that it sends, and the end that receives them.
pub(crate) struct Camera {
    /// Payloads of a keyframe, and of any other frame.
    keyframe: Vec<Vec<u8>>,
    frame: Vec<Vec<u8>>,
    /// Ticks and time from frame to frame.
    ticks: u32,
    interval: Duration,
    header: Header,
    packet: Vec<u8>,
    now: Instant,
    frames: usize,
    receiver: SourceReceiver,
    depacketizer: Depacketizer,
}

impl Camera {
    /// Connects a camera whose track has this codec.
    pub(crate) fn new(codec: Codec) -> Result<Self, String> {
        let track = Track::new(codec);
        let (ticks, interval) = match codec {
            Codec::Opus => (960, Duration::from_millis(20)),
            _ => (3_000, Duration::from_nanos(33_333_333)),
        };
        let mut receiver = SourceReceiver::new(std::slice::from_ref(&track));
        receiver.expect_payload_types(TrackIndex(0), [PAYLOAD_TYPE]);
        Ok(Self {
            keyframe: payloads(&track, true)?,
            frame: payloads(&track, false)?,
            ticks,
            interval,
            header: Header {
                marker: false,
                payload_type: PAYLOAD_TYPE,
                sequence: 0,
                timestamp: 0,
                ssrc: Ssrc(7),
            },
            packet: Vec::new(),
            now: Instant::now(),
            frames: 0,
            receiver,
            depacketizer: Depacketizer::new(&track).map_err(|error| error.to_string())?,
        })
    }

    /// Sends frames of at least `packets` packets, and returns the bytes of the frames that were
    /// received.
    pub(crate) fn send(&mut self, packets: usize) -> u64 {
        let (mut sent, mut bytes) = (0, 0);
        while sent < packets {
            let payloads = match self.frames % GROUP {
                0 => &self.keyframe,
                _ => &self.frame,
            };
            for (at, payload) in (1..).zip(payloads) {
                self.header.marker = at == payloads.len();
                self.packet.resize(HEADER_BYTES, 0);
                write_header(&mut self.packet, &self.header, &[]);
                self.packet.extend_from_slice(payload);
                let depacketizer = &mut self.depacketizer;
                let sink = |_: TrackIndex, item: Received<'_>| {
                    if let Received::Packet(packet) = item {
                        packet.push_to(depacketizer);
                    }
                };
                let packet = &self.packet;
                self.receiver
                    .take(TrackIndex(0), false, packet, self.now, sink);
                while let Some(unit) = self.depacketizer.poll() {
                    bytes += unit.data.len() as u64;
                }
                self.packet.clear();
                self.header.sequence = self.header.sequence.wrapping_add(1);
            }
            sent += payloads.len();
            self.header.timestamp = self.header.timestamp.wrapping_add(self.ticks);
            self.now += self.interval;
            self.frames += 1;
        }
        assert!(bytes > 0, "frames come out");
        bytes
    }
}

/// Returns the payloads of a frame.
fn payloads(track: &Track, is_keyframe: bool) -> Result<Vec<Vec<u8>>, String> {
    let coded = match track.codec {
        Codec::H264 if is_keyframe => video(&[&[0x67, 66, 0, 31], &[0x68, 1, 2, 3], &[0x65, 0x88]]),
        Codec::H264 => video(&[&[0x41, 0x9a]]),
        Codec::H265 if is_keyframe => video(&[
            &[0x40, 1, 7, 7],
            &[0x42, 1, 7, 7],
            &[0x44, 1, 7, 7],
            &[0x26, 1, 0xaf],
        ]),
        Codec::H265 => video(&[&[0x02, 1, 0xd0]]),
        _ => vec![7; AUDIO_BYTES],
    };
    let mut builder = UnitBuilder::default();
    let packetized = Packetizer::new(track).packetize(&coded, &mut builder);
    packetized.map_err(|error| error.to_string())?;
    let stamps = Stamps::arrived(Instant::now());
    let unit = builder.build(TrackIndex(0), MediaTime::ZERO, is_keyframe, stamps);
    let unit = unit.ok_or("a frame without packets")?;
    Ok(unit.payloads().map(<[u8]>::to_vec).collect())
}

/// Returns a frame whose last NAL unit has most of the bytes.
fn video(units: &[&[u8]]) -> Vec<u8> {
    let mut frame = Vec::new();
    for unit in units {
        frame.extend_from_slice(&[0, 0, 0, 1]);
        frame.extend_from_slice(unit);
    }
    frame.resize(FRAME_BYTES, 0x5a);
    frame
}
