//! The source of the guide `docs/guides/add-a-source.md`, which is compiled and runs here.

use glassline_media::Codec;
use tokio::net::UdpSocket;

use super::*;

const GUIDE: &str = include_str!("../../../../docs/guides/add-a-source.md");
const SOURCE: &str = include_str!("udp.rs");

static FILM: &[u8] = include_bytes!("../../../demux/samples/h264-mp2.ts");

#[test]
fn the_guide_has_the_source_as_it_is_compiled_here() {
    let (_, shown) = GUIDE.split_once("```rust\n").expect("the guide has code");
    let (shown, _) = shown.split_once("```").expect("the code ends");
    assert!(shown.contains("async fn receive("), "{shown}");
    assert!(
        SOURCE.contains(shown),
        "copy the functions from crates/ingest/src/tests/udp.rs into the guide"
    );
}

/// Sends the film in datagrams of seven packets, again and again, until the stream is live.
async fn send(to: std::net::SocketAddr, stream: &Stream) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let deadline = Instant::now() + Duration::from_secs(30);
    while !matches!(stream.state(), State::Live { .. }) {
        assert!(Instant::now() < deadline, "{:?}", stream.state());
        for datagram in FILM.chunks(7 * 188) {
            let _ = socket.send_to(datagram, to).await;
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_transport_stream_by_udp_is_live_with_its_tracks_and_decode_times() {
    let hub = Hub::new(Limits::default());
    let name = StreamName::parse("studio").expect("a name");
    let stream = hub.create(name).expect("room");
    let supervisor = Supervisor::start().expect("a thread");
    let (stop, stopped) = watch::channel(false);
    let free = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("it is bound");
    drop(free);
    let running = udp::run(address, Arc::clone(&stream), supervisor, stopped);
    let running = tokio::spawn(running);
    let sending = send(address, &stream);
    sending.await;
    let codecs: Vec<_> = stream.tracks().iter().map(|it| it.codec).collect();
    assert_eq!(codecs, [Codec::H264, Codec::MpegAudio]);
    assert_eq!(stream.source_note().expect("told").protocol, "udp");
    until("frames that are decoded ahead", || {
        let units = stream.since_keyframe(TrackIndex(0));
        units.iter().any(|unit| unit.decode_time() < unit.time)
    })
    .await;
    stop.send_replace(true);
    running.await.expect("no panic");
}
