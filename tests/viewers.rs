//! Many viewers of one process, by our own client, which must receive all packets: half by UDP, half
//! by TCP.

use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use glassline_client::viewers::{Endpoint, IceTransport, Join, Options, Pool, State, Viewer};
use libtest_mimic::Failed;

use crate::peers::Test;
use crate::process::eventually;
use crate::server::Server;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&everybody_receives_every_packet),
    Test::of(&a_hundred_receive_every_packet).soak(),
    Test::of(&stray_datagrams_are_counted_and_make_no_state),
];

const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Frames a second of the built-in stream.
const FRAME_RATE: f64 = 30.0;

/// An audience, and how long it is watched.
struct Audience {
    viewers: usize,
    time: Duration,
    /// Whether the machine has nothing else to do, so that every viewer keeps up.
    is_alone: bool,
}

fn everybody_receives_every_packet() -> Result<(), Failed> {
    watch(&Audience {
        viewers: 40,
        time: Duration::from_secs(5),
        is_alone: false,
    })
}

fn a_hundred_receive_every_packet() -> Result<(), Failed> {
    watch(&Audience {
        viewers: 100,
        time: Duration::from_secs(30),
        is_alone: true,
    })
}

/// Watches an audience. Every packet that the server sends arrives, and every frame that a viewer
/// lacks is one that the server has skipped and counted: it does so where a viewer's queue waits for
/// longer than 200 ms, which happens on a machine that stands still.
fn watch(audience: &Audience) -> Result<(), Failed> {
    let server = Server::serve(&["demo"])?;
    server.wait_for_state("demo", "live")?;
    let pool = Pool::start(Options::default()).map_err(|error| error.to_string())?;
    join(&pool, &server, audience.viewers)?;
    wait_until_playing(&pool, audience.viewers)?;
    thread::sleep(audience.time);
    let viewers = pool.snapshot();
    let entry = server.stream("demo")?;
    let skipped = server.metric("glassline_queue_dropped_frames_total")?;
    println!("{skipped} frames were skipped");
    if entry["viewers"] != audience.viewers {
        return Err(format!("the API counts otherwise: {entry}").into());
    }
    viewers.iter().try_for_each(received_all_that_was_sent)?;
    let missing: f64 = viewers.iter().map(|it| missing_frames(it, audience)).sum();
    if missing > skipped || audience.is_alone && skipped > 0.0 {
        return Err(format!("{missing:.0} frames are missing, {skipped} were skipped").into());
    }
    Ok(())
}

/// Number of frames that a viewer lacks. A twentieth of the time is for its begin and end.
fn missing_frames(viewer: &Viewer, audience: &Audience) -> f64 {
    let wanted = audience.time.mul_f64(0.95);
    let missing = wanted.saturating_sub(viewer.video.media_time);
    missing.as_secs_f64() * FRAME_RATE
}

fn received_all_that_was_sent(viewer: &Viewer) -> Result<(), Failed> {
    let total = viewer.total();
    // The snapshot may fall within a frame whose last packets are in flight.
    let on_their_way = 10;
    let whole =
        total.lost() <= on_their_way && viewer.damaged == 0 && viewer.state == State::Playing;
    match whole {
        true => Ok(()),
        false => Err(format!("{} lost {}: {viewer:?}", viewer.id, total.lost()).into()),
    }
}

fn join(pool: &Pool, server: &Server, count: usize) -> Result<(), String> {
    let url = server.url("/demo/whep");
    let url = url.parse().map_err(|error| format!("{url}: {error}"))?;
    let of = |transport| Endpoint::Whep { url, transport };
    let (udp, tcp) = (of.clone()(IceTransport::Udp), of(IceTransport::Tcp));
    for index in 0..count {
        let endpoint = if index % 2 == 0 { &udp } else { &tcp };
        pool.join(Join::new(endpoint.clone()));
    }
    Ok(())
}

fn wait_until_playing(pool: &Pool, count: usize) -> Result<(), String> {
    eventually(JOIN_TIMEOUT, || {
        let viewers = pool.snapshot();
        if let Some(reason) = viewers.iter().find_map(|viewer| viewer.failure.as_ref()) {
            return Err(format!("a viewer failed: {reason}"));
        }
        let playing = viewers
            .iter()
            .filter(|viewer| viewer.state == State::Playing)
            .count();
        if playing == count {
            Ok(())
        } else {
            Err(format!("{playing} of {count} play"))
        }
    })
}

fn stray_datagrams_are_counted_and_make_no_state() -> Result<(), Failed> {
    const COUNT: u64 = 2_000;
    let server = Server::serve(&["demo"])?;
    server.wait_for_state("demo", "live")?;
    let socket = UdpSocket::bind(("127.0.0.1", 0)).map_err(|error| error.to_string())?;
    // First bytes that name STUN, DTLS and RTP (RFC 7983), then noise.
    let first_bytes = [0_u8, 1, 20, 22, 23, 63, 128, 129, 200, 255];
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    for number in 0..COUNT {
        let length = noise.next() as usize % 1400;
        let mut datagram: Vec<u8> = (0..length).map(|_| noise.next() as u8).collect();
        if let Some(first) = datagram.first_mut() {
            *first = first_bytes[number as usize % first_bytes.len()];
        }
        socket
            .send_to(&datagram, server.media())
            .map_err(|error| error.to_string())?;
        if number % 50 == 0 {
            // The kernel's receive queue is not under test.
            thread::sleep(Duration::from_millis(2));
        }
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    let dropped = loop {
        let dropped = server.metric("glassline_dropped_datagrams_total")?;
        // An empty datagram may not be counted, and the kernel may lose some.
        if dropped >= COUNT as f64 * 0.9 || Instant::now() > deadline {
            break dropped;
        }
        thread::sleep(Duration::from_millis(100));
    };
    let sessions = server.metric("glassline_sessions")?;
    if dropped < COUNT as f64 * 0.9 || sessions != 0.0 {
        return Err(format!("{dropped} of {COUNT} counted, {sessions} sessions").into());
    }
    let pool = Pool::start(Options::default()).map_err(|error| error.to_string())?;
    join(&pool, &server, 1)?;
    Ok(wait_until_playing(&pool, 1)?)
}

/// Reproducible noise: xorshift64 (Marsaglia 2003).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
