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
    Test {
        name: "viewers::a_hundred_receive_every_packet",
        needs: &[],
        run: a_hundred_receive_every_packet,
    },
    Test {
        name: "viewers::stray_datagrams_are_counted_and_make_no_state",
        needs: &[],
        run: stray_datagrams_are_counted_and_make_no_state,
    },
];

const JOIN_TIMEOUT: Duration = Duration::from_secs(60);
const WATCH: Duration = Duration::from_secs(10);

/// Half of the time that a viewer's queue may wait before the server skips frames.
const STALL_MAX: Duration = Duration::from_millis(100);

/// If the machine stalls for longer than viewers are waited for, frames are lost by design; then
/// the watch is repeated.
fn a_hundred_receive_every_packet() -> Result<(), Failed> {
    const ATTEMPTS: usize = 3;
    for attempt in 1..=ATTEMPTS {
        let (result, stall) = watch_by_a_hundred()?;
        if result.is_ok() || stall < STALL_MAX || attempt == ATTEMPTS {
            return result;
        }
        println!("the machine stood still for {stall:?}; once more");
    }
    Ok(())
}

/// Result of the viewers, and the machine's longest stall meanwhile.
fn watch_by_a_hundred() -> Result<(Result<(), Failed>, Duration), String> {
    const VIEWERS: usize = 100;
    let server = Server::serve(&["demo"])?;
    server.wait_for_state("demo", "live")?;
    let pool = Pool::start(Options::default()).map_err(|error| error.to_string())?;
    join(&pool, &server, VIEWERS)?;
    wait_until_playing(&pool, VIEWERS)?;
    let stall = longest_stall(WATCH);
    let viewers = pool.snapshot();
    let entry = server.stream("demo")?;
    let mut result = viewers.iter().try_for_each(received_everything);
    if result.is_ok() && entry["viewers"] != VIEWERS {
        result = Err(format!("the API counts otherwise: {entry}").into());
    }
    let counted = [
        "queue_dropped_frames_total",
        "retransmissions_total",
        "unrepairable_total",
    ];
    for name in counted {
        println!("{name} {}", server.metric(&format!("glassline_{name}"))?);
    }
    Ok((result, stall))
}

/// Sleeps for `span` in short steps; returns the longest delay of a step.
fn longest_stall(span: Duration) -> Duration {
    const STEP: Duration = Duration::from_millis(10);
    let begun = Instant::now();
    let mut last = begun;
    let mut longest = Duration::ZERO;
    while last < begun + span {
        thread::sleep(STEP);
        let now = Instant::now();
        longest = longest.max((now - last).saturating_sub(STEP));
        last = now;
    }
    longest
}

fn received_everything(viewer: &Viewer) -> Result<(), Failed> {
    let total = viewer.total();
    // The snapshot may fall within a frame whose last packets are in flight.
    let on_their_way = 10;
    let whole =
        total.lost() <= on_their_way && viewer.damaged == 0 && viewer.state == State::Playing;
    let media_time = viewer.video.media_time.min(viewer.audio.media_time);
    if whole && media_time >= WATCH.mul_f64(0.95) {
        Ok(())
    } else {
        Err(format!("{} lost {}: {viewer:?}", viewer.id, total.lost()).into())
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
