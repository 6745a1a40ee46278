use super::*;
use glassline_media::annexb;
use glassline_media::{Codec, TrackIndex, UnitBuilder, VideoParameters};
use glassline_rtp::h264;
use glassline_rtp::reorder::ReceivedPacket;
use std::time::{Duration, Instant};

const SPS: &[u8] = &[0x67, 0x42, 0xc0, 0x1f, 0xda];
const PPS: &[u8] = &[0x68, 0xce, 0x3c, 0x80];

/// A camera that sends made-up frames, packet by packet.
struct Camera {
    assembler: Assembler,
    sequence: u64,
    start: Instant,
    out: Vec<MediaUnit>,
}

impl Camera {
    fn new(video: VideoParameters) -> Self {
        let tracks = vec![Track::h264(video), Track::audio(Codec::Pcma, 1)];
        Self {
            assembler: Assembler::new(tracks).expect("both are known"),
            sequence: 0x1_0000,
            start: Instant::now(),
            out: Vec::new(),
        }
    }

    /// Sends `nals` as one frame, a packet each millisecond from `ms` on;
    /// `lost` packets do not arrive.
    fn frame(&mut self, nals: &[&[u8]], ms: u32, marker: bool, lost: &[usize]) -> Vec<Vec<u8>> {
        let mut builder = UnitBuilder::default();
        // Cameras fill an Ethernet frame.
        h264::packetize(nals.iter().copied(), 1400, &mut builder);
        let stamps = glassline_media::Stamps::arrived(self.start);
        let media_unit = builder
            .build(
                TrackIndex(0),
                glassline_media::MediaTime::ZERO,
                false,
                stamps,
            )
            .expect("packets");
        for (place, payload) in media_unit.payloads().enumerate() {
            self.sequence += 1;
            if lost.contains(&place) {
                continue;
            }
            let track = TrackIndex(0);
            let packet = ReceivedPacket {
                sequence: self.sequence,
                timestamp: ms * 90,
                marker: marker && media_unit.marker(place),
                payload,
                received: self.at(ms + place as u32),
            };
            self.assembler
                .take(track, Received::Packet(packet), &mut self.out);
        }
        media_unit.payloads().map(<[u8]>::to_vec).collect()
    }

    fn at(&self, ms: u32) -> Instant {
        self.start + Duration::from_millis(u64::from(ms))
    }

    fn take(&mut self) -> Vec<MediaUnit> {
        std::mem::take(&mut self.out)
    }
}

/// Returns a slice with this NAL unit header that begins at the first macroblock.
fn frame(header: u8, bytes: usize) -> Vec<u8> {
    let body = (0..bytes).map(|place| 1 + (place % 250) as u8);
    [header, 0x88].into_iter().chain(body).collect()
}

fn nals(media_unit: &MediaUnit) -> Vec<Vec<u8>> {
    let frame = media_unit.coded_frame().expect("it was packetized here");
    annexb::nals(&frame.to_vec()).map(<[u8]>::to_vec).collect()
}

#[test]
fn frames_come_out_whole_at_their_marker_and_cut_to_our_size() {
    let mut camera = Camera::new(VideoParameters::default());
    let idr = frame(0x65, 5000);
    camera.frame(&[SPS, PPS, &idr], 0, true, &[]);
    let delta = frame(0x41, 900);
    camera.frame(&[&delta], 40, true, &[]);
    let media_units = camera.take();
    assert_eq!(media_units.len(), 2);
    assert_eq!(nals(&media_units[0]), [SPS.to_vec(), PPS.to_vec(), idr]);
    assert!(media_units[0].keyframe && !media_units[1].keyframe);
    assert!(
        media_units[0]
            .payloads()
            .all(|payload| payload.len() <= 1150)
    );
    assert_eq!(
        media_units[0].stamps.origin, camera.start,
        "its first packet"
    );
    assert_eq!(media_units[1].stamps.origin, camera.at(40));
    assert_eq!(
        media_units[1].time.nanos() - media_units[0].time.nanos(),
        40_000_000
    );
}

#[test]
fn frames_without_a_marker_come_out_when_the_next_begins() {
    let mut camera = Camera::new(VideoParameters::default());
    camera.frame(&[SPS, PPS, &frame(0x65, 3000)], 0, false, &[]);
    assert!(camera.take().is_empty());
    camera.frame(&[&frame(0x41, 100)], 40, false, &[]);
    let media_units = camera.take();
    assert_eq!(media_units.len(), 1);
    assert!(media_units[0].keyframe);
    assert_eq!(
        media_units[0].stamps.origin, camera.start,
        "not that of the next"
    );
    assert_eq!(media_units[0].time.nanos(), 0);
}

#[test]
fn keyframes_without_parameter_sets_get_those_of_the_description() {
    let described = VideoParameters {
        sps: SPS.to_vec(),
        pps: PPS.to_vec(),
        ..VideoParameters::default()
    };
    let mut camera = Camera::new(described);
    let idr = frame(0x65, 300);
    camera.frame(&[&idr], 0, true, &[]);
    let media_units = camera.take();
    assert!(media_units[0].keyframe);
    assert_eq!(nals(&media_units[0]), [SPS.to_vec(), PPS.to_vec(), idr]);
}

#[test]
fn keyframes_without_any_parameter_sets_are_none_until_there_are_some() {
    let mut camera = Camera::new(VideoParameters::default());
    let idr = frame(0x65, 300);
    camera.frame(&[&idr], 0, true, &[]);
    assert!(!camera.take()[0].keyframe, "nobody could decode it");
    camera.frame(&[SPS, PPS, &idr], 40, true, &[]);
    camera.frame(&[&idr], 80, true, &[]);
    let media_units = camera.take();
    assert!(media_units.iter().all(|media_unit| media_unit.keyframe));
    assert_eq!(nals(&media_units[1]).len(), 3, "those last seen in band");
    assert_eq!(camera.assembler.tracks()[0].video.sps, SPS);
}

#[test]
fn a_damaged_frame_is_left_out() {
    let mut camera = Camera::new(VideoParameters::default());
    camera.frame(&[SPS, PPS, &frame(0x65, 3000)], 0, true, &[]);
    camera.frame(&[&frame(0x41, 5000)], 40, true, &[2]);
    camera.frame(&[&frame(0x41, 5000)], 80, true, &[]);
    let times: Vec<_> = camera
        .take()
        .iter()
        .map(|media_unit| media_unit.time.nanos())
        .collect();
    assert_eq!(times, [0, 80_000_000]);
}

#[test]
fn audio_goes_through_at_once() {
    let mut camera = Camera::new(VideoParameters::default());
    for number in 0..3u16 {
        let track = TrackIndex(1);
        let packet = ReceivedPacket {
            sequence: u64::from(number),
            timestamp: 160 * u32::from(number),
            marker: number == 0,
            payload: &[0xd5; 160],
            received: camera.at(20 * u32::from(number)),
        };
        camera
            .assembler
            .take(track, Received::Packet(packet), &mut camera.out);
    }
    let times: Vec<_> = camera
        .take()
        .iter()
        .map(|media_unit| media_unit.time.nanos())
        .collect();
    assert_eq!(times, [0, 20_000_000, 40_000_000]);
}

#[test]
fn garbage_never_panics() {
    let mut camera = Camera::new(VideoParameters::default());
    for number in 0..2000u32 {
        let noise = number.wrapping_mul(0x9e37_79b9);
        let payload = noise.to_be_bytes();
        let track = TrackIndex((number % 3) as usize);
        let packet = ReceivedPacket {
            sequence: u64::from(noise >> 7),
            timestamp: noise,
            marker: noise & 1 == 0,
            payload: &payload[..(noise % 5) as usize],
            received: camera.at(number),
        };
        camera
            .assembler
            .take(track, Received::Packet(packet), &mut camera.out);
        let report = Received::Report {
            ntp: u64::from(noise) << 20,
            timestamp: noise,
        };
        camera.assembler.take(track, report, &mut camera.out);
    }
}

/// One packet of `track` with this payload, at `ms`.
fn push(
    assembler: &mut Assembler,
    start: Instant,
    numbers: (u64, u32),
    payload: &[u8],
) -> Vec<MediaUnit> {
    let (sequence, ms) = numbers;
    let mut out = Vec::new();
    let track = TrackIndex(0);
    let packet = ReceivedPacket {
        sequence,
        timestamp: ms * 90,
        marker: true,
        payload,
        received: start + Duration::from_millis(u64::from(ms)),
    };
    assembler.take(track, Received::Packet(packet), &mut out);
    out
}

#[test]
fn keyframes_of_h265_get_their_parameter_sets_and_the_description_learns_them() {
    let start = Instant::now();
    let mut assembler = Assembler::new(vec![Track::new(Codec::H265)]).expect("known");
    let idr = [0x26, 1, 0xaf, 7, 7];
    let media_units = push(&mut assembler, start, (1, 0), &idr);
    assert!(!media_units[0].keyframe, "nobody could decode it");
    assert!(!assembler.starts(&media_units[0]));
    // VPS, SPS and PPS stand in front of the keyframe, in an aggregation packet.
    let sets: [&[u8]; 3] = [&[0x40, 1, 0x0c], &[0x42, 1, 1], &[0x44, 1, 0xc1]];
    let mut packet = vec![0x60, 1];
    for unit in sets.iter().chain([&&idr[..]]) {
        packet.extend((unit.len() as u16).to_be_bytes());
        packet.extend_from_slice(unit);
    }
    let media_units = push(&mut assembler, start, (2, 40), &packet);
    assert!(media_units[0].keyframe && assembler.starts(&media_units[0]));
    let media_units = push(&mut assembler, start, (3, 80), &idr);
    assert!(media_units[0].keyframe);
    assert_eq!(
        media_units[0].payload(0),
        Some(&packet[..]),
        "those last seen"
    );
    let told = &assembler.tracks()[0].format_parameters;
    assert_eq!(told, "sprop-vps=QAEM;sprop-sps=QgEB;sprop-pps=RAHB");
}

#[test]
fn audio_alone_is_live_at_once_and_a_stream_of_frames_is_not() {
    let media_unit = |track| {
        let mut builder = UnitBuilder::default();
        builder.push(&[1]);
        let stamps = glassline_media::Stamps::arrived(Instant::now());
        let time = glassline_media::MediaTime::ZERO;
        builder
            .build(TrackIndex(track), time, true, stamps)
            .expect("a packet")
    };
    let audio = vec![Track::audio(Codec::Opus, 2)];
    assert!(Assembler::new(audio).expect("known").starts(&media_unit(0)));
    let both = vec![Track::audio(Codec::Opus, 2), Track::new(Codec::Vp8)];
    let both = Assembler::new(both).expect("known");
    assert!(!both.starts(&media_unit(0)) && both.starts(&media_unit(1)));
}

#[test]
fn fragments_of_other_codecs_come_out_whole_and_cut_to_our_size() {
    let start = Instant::now();
    let mut assembler = Assembler::new(vec![Track::new(Codec::Vp8)]).expect("known");
    let first = [&[0x90, 0x80, 0x80, 9, 0x10, 2, 0][..], &[7; 1390]].concat();
    let mut out = Vec::new();
    for (payload, sequence) in [first, [&[0x80, 0x80, 0x80, 9][..], &[8; 500]].concat()]
        .iter()
        .zip(1..)
    {
        let track = TrackIndex(0);
        let packet = ReceivedPacket {
            sequence,
            timestamp: 0,
            marker: sequence == 2,
            payload,
            received: start,
        };
        assembler.take(track, Received::Packet(packet), &mut out);
    }
    let [media_unit] = &out[..] else {
        panic!("{out:?}");
    };
    assert!(media_unit.keyframe);
    let sizes: Vec<usize> = media_unit.payloads().map(<[u8]>::len).collect();
    assert_eq!(sizes, [951, 950], "1893 bytes and two descriptors");
}

#[test]
fn a_packet_of_several_access_units_gives_each_its_time() {
    let start = Instant::now();
    let parameters = "mode=AAC-hbr;sizelength=13;indexlength=3;indexdeltalength=3";
    let track = Track::audio(Codec::Aac, 2).with_format_parameters(parameters);
    let mut assembler = Assembler::new(vec![track]).expect("known");
    let payload = [0, 32, 0, 1 << 3, 0, 1 << 3, 5, 6];
    let media_units = push(&mut assembler, start, (1, 0), &payload);
    let times: Vec<_> = media_units
        .iter()
        .map(|media_unit| media_unit.time.nanos())
        .collect();
    assert_eq!(times, [0, 21_333_333]);
}

#[test]
fn b_frames_are_told_of_once_with_the_first_frame() {
    let film = include_bytes!("../../../demux/samples/b-frames.h264");
    let mut splitter = glassline_demux::live::Splitter::new();
    splitter.push(film).expect("a good file");
    let mut camera = Camera::new(VideoParameters::default());
    let mut told = Vec::new();
    for ms in 0..10 {
        let unit = splitter.next_unit().expect("a frame").data;
        let nals: Vec<_> = annexb::nals(&unit).collect();
        camera.frame(&nals, ms * 40, true, &[]);
        let tracks = camera.assembler.take_redescribed();
        told.push(tracks.map(|tracks| tracks[0].video.reordered));
    }
    assert_eq!(told[0], Some(true));
    assert!(told[1..].iter().all(Option::is_none));
    assert!(camera.assembler.tracks()[0].video.reordered);
}
