//! Keyframes of megabytes, as cameras of 4K and encoders at full quality make them.
//!
//! ```text
//!  publisher ─► server ─┬► RTSP by TCP ─► server that pulls ─► hub
//!                       ├► RTSP by UDP ─► server that pulls ─► hub
//!                       ├► MoQ ─► reader
//!                       └► WHEP ─► viewer
//! ```

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use glassline_hub::{Publisher, Stream};
use glassline_media::{Kind, MediaTime, MediaUnit, PAYLOAD_BYTES_MAX, Stamps, UnitBuilder};
use glassline_net::Options;
use glassline_quic::moq::Role;
use glassline_rtp::h264;

use crate::away::source;
use crate::peer::Peer;
use crate::quic::{self, soon};
use crate::running::{Running, STREAM};
use crate::source::{VIDEO, tracks};

/// Sizes of the keyframes, in bytes of their slice. A frame that comes by RTP may have 8 MiB.
const SIZES: [usize; 4] = [1_000_000, 2_500_000, 5_000_000, 8_000_000];

/// Time for one keyframe, also on a busy machine in a debug build.
const PATIENCE: Duration = Duration::from_secs(30);

/// Interval of frames.
const FRAME: Duration = Duration::from_millis(100);

/// A camera whose keyframes have the size that the test asks for.
struct Camera {
    publisher: Publisher,
    number: u32,
}

impl Camera {
    fn publish(&mut self, keyframe: bool, bytes: usize) -> Arc<MediaUnit> {
        self.number += 1;
        let mut slice: Vec<u8> = (0..bytes).map(|at| 1 + (at % 251) as u8).collect();
        slice[..2].copy_from_slice(&[if keyframe { 0x65 } else { 0x41 }, 0x88]);
        let track = &tracks()[0];
        let sets: &[&[u8]] = match keyframe {
            true => &[&track.video.sps, &track.video.pps],
            false => &[],
        };
        let mut builder = UnitBuilder::with_capacity(bytes);
        let nals = sets.iter().copied().chain([slice.as_slice()]);
        h264::packetize(nals, PAYLOAD_BYTES_MAX, &mut builder);
        let time = MediaTime::from_ticks(i64::from(self.number) * 9000, 90_000);
        let now = Instant::now();
        let unit = builder.build(VIDEO, time, keyframe, Stamps::arrived(now));
        let unit = self.publisher.push(unit.expect("packets"), now);
        unit.expect("a good unit").expect("nothing stands in")
    }

    /// Publishes a keyframe and then small frames until nothing is missing. The keyframe is repeated
    /// every five seconds: a datagram may be lost when the machine is busy.
    fn publish_until(&mut self, bytes: usize, mut missing: impl FnMut() -> Vec<&'static str>) {
        let end = Instant::now() + PATIENCE;
        for frame in 0.. {
            let missing = missing();
            if missing.is_empty() {
                return;
            }
            assert!(
                Instant::now() < end,
                "{bytes} bytes did not come by {missing:?}"
            );
            match frame % 50 {
                0 => self.publish(true, bytes),
                _ => self.publish(false, 1_000),
            };
            std::thread::sleep(FRAME);
        }
    }
}

/// Returns whether the stream's latest keyframe has a slice of this size.
fn has(stream: &Stream, bytes: usize) -> bool {
    let size = stream.keyframe_size(VIDEO);
    size.is_some_and(|it| (bytes..bytes + bytes / 100).contains(&it.bytes))
}

/// Reads the stream over QUIC, and tells the sizes of its keyframes.
fn moq_reader(running: &Running) -> (Receiver<usize>, JoinHandle<()>) {
    let runtime = quic::runtime();
    let session = runtime.block_on(quic::open(running, STREAM, Role::Subscriber));
    let session = session.expect("reading is open");
    let (told, keyframes) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        runtime.block_on(async {
            let mut subscription = soon(session.subscribe(STREAM)).await.expect("live");
            let catalog = soon(subscription.catalog()).await.expect("good");
            let chosen = catalog.expect("one").choose().expect("video");
            let frames = subscription.read(&chosen[0], Duration::from_secs(10));
            let mut frames = soon(frames).await.expect("there");
            while let Ok(Some(frame)) = frames.next().await {
                if frame.keyframe && told.send(frame.data.len()).is_err() {
                    break;
                }
            }
        });
    });
    (keyframes, thread)
}

#[test]
fn keyframes_of_megabytes_come_whole_by_rtsp_and_moq() {
    let running = Running::start(1);
    let publisher = running
        .stream()
        .publish(tracks()[..1].to_vec(), Instant::now());
    let publisher = publisher.expect("free");
    let mut camera = Camera {
        publisher,
        number: 0,
    };
    camera.publish(true, 5_000);
    let address = running.rtsp();
    let url = |name: &str| format!("{name}=rtsp://{address}/{STREAM}?transport={name}");
    let pulling = Running::with_sources(vec![source(&url("tcp")), source(&url("udp"))]);
    let pulled = |name: &str| pulling.hub().stream(name).expect("configured");
    let (keyframes, reader) = moq_reader(&running);
    for bytes in SIZES {
        let began = Instant::now();
        let mut missing = vec!["tcp", "udp", "MoQ"];
        camera.publish_until(bytes, || {
            let read = keyframes
                .try_iter()
                .any(|size| (bytes..bytes + 100).contains(&size));
            missing.retain(|way| match *way {
                "MoQ" => !read,
                name => !has(&pulled(name), bytes),
            });
            missing.clone()
        });
        println!("{bytes} bytes: {:?}", began.elapsed());
    }
    for name in ["tcp", "udp"] {
        assert_eq!(pulled(name).totals().oversized, 0);
    }
    drop((camera, running, keyframes));
    reader.join().expect("no panic");
}

#[test]
fn a_keyframe_of_two_megabytes_comes_whole_to_a_browser() {
    let running = Running::start(1);
    let publisher = running
        .stream()
        .publish(tracks()[..1].to_vec(), Instant::now());
    let publisher = publisher.expect("free");
    let mut camera = Camera {
        publisher,
        number: 0,
    };
    camera.publish(true, 5_000);
    let viewer = Peer::offering_from(&running, deep_socket(), str::to_owned);
    let mut viewer = viewer.expect("answered");
    let begins = |peer: &Peer<'_>| peer.of(Kind::Video).any(|it| it.marker);
    assert!(viewer.run_until(PATIENCE, begins), "no frame");
    let sent = camera.publish(true, 2_000_000);
    let whole = |peer: &Peer<'_>| packets_of_largest_frame(peer) == sent.packet_count();
    // Packets that are lost at the frame's end are asked for when the next frame comes.
    let end = Instant::now() + PATIENCE;
    while !viewer.run_until(FRAME, whole) {
        assert!(
            Instant::now() < end,
            "{} of {} packets",
            packets_of_largest_frame(&viewer),
            sent.packet_count()
        );
        camera.publish(false, 1_000);
    }
    let bytes: usize = viewer.of(Kind::Video).map(|it| it.payload.len()).sum();
    assert!(bytes > 2_000_000, "{bytes}");
}

/// Returns a socket that keeps a whole keyframe while other programs have the processor. Where the
/// system does not grant so much, lost packets are asked for.
fn deep_socket() -> UdpSocket {
    let options = Options {
        receive_buffer: Some(8 << 20),
        ..Options::default()
    };
    let socket = glassline_net::UdpSocket::bind(([127, 0, 0, 1], 0).into(), &options);
    let socket = socket.expect("a free port");
    let socket = UdpSocket::from(socket.as_fd().try_clone_to_owned().expect("a descriptor"));
    socket.set_nonblocking(false).expect("a blocking socket");
    socket
}

/// Returns how many packets of the frame with the most packets have come.
fn packets_of_largest_frame(viewer: &Peer<'_>) -> usize {
    let mut frames = BTreeMap::<u32, usize>::new();
    for packet in viewer.of(Kind::Video) {
        *frames.entry(packet.timestamp).or_default() += 1;
    }
    frames.into_values().max().unwrap_or(0)
}
