//! What QUIC alone costs a server that sends a stream: the floor of a pull.
//!
//! ```text
//! cargo test --release -p glassline-quic -- --ignored --nocapture cost_of_a_bare_stream
//! ```

#![expect(clippy::disallowed_methods, reason = "processor time is measured")]

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant, SystemTime};

use glassline_congestion::Algorithm;
use glassline_trust::Trust;
use tokio::runtime::{Builder, Runtime};

use crate::endpoint::{Limits, Listener};
use crate::{ClientEndpoint, CongestionControl, Identity};

/// Time over which processor time is counted, after [`SETTLE`].
const TIME: Duration = Duration::from_secs(10);
const SETTLE: Duration = Duration::from_secs(2);

/// Frames of a stream of 1.3 Mbit/s, and its packets of audio.
const FRAME: (Duration, usize) = (Duration::from_micros(33_333), 5_400);
const PACKET: (Duration, usize) = (Duration::from_millis(20), 100);

/// What a task does with each unit of the stream for which it wakes up.
enum Work {
    /// Nothing, which is the cost of the wake-up alone.
    None,
    /// The unit is written to one QUIC stream of each connection.
    Write(Vec<noq::SendStream>),
}

/// Name of the server's threads in the table of the system.
const SERVER: &str = "quic-floor";

fn runtime(name: &str, threads: usize) -> Runtime {
    let runtime = Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name(name)
        .enable_all()
        .build();
    runtime.expect("threads")
}

fn congestion() -> CongestionControl {
    CongestionControl::new(Algorithm::Cubic)
}

/// Returns the processor time of the server's threads so far.
fn spent() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").expect("Linux");
    let nanoseconds = threads.flatten().filter_map(|thread| {
        let path = thread.path();
        let name = std::fs::read_to_string(path.join("comm")).ok()?;
        let times = std::fs::read_to_string(path.join("schedstat")).ok()?;
        (name.trim() == SERVER).then(|| times.split(' ').next()?.parse::<u64>().ok())?
    });
    Duration::from_nanos(nanoseconds.sum())
}

/// Does `work` for each unit when the unit is due. Returns the processor time, in ms a second.
async fn stream(mut work: Work) -> f64 {
    let begin = Instant::now();
    let (mut frames, mut packets) = (0, 0);
    let mut counted = None;
    loop {
        let (frame, packet) = (begin + FRAME.0 * frames, begin + PACKET.0 * packets);
        tokio::time::sleep_until(frame.min(packet).into()).await;
        let size = if frame <= packet { FRAME.1 } else { PACKET.1 };
        frames += u32::from(frame <= packet);
        packets += u32::from(frame > packet);
        if let Work::Write(streams) = &mut work {
            for stream in streams {
                stream.write_all(&vec![1; size]).await.expect("a reader");
            }
        }
        let (before, since) = match counted {
            Some(counted) => counted,
            None if begin.elapsed() < SETTLE => continue,
            None => *counted.insert((spent(), Instant::now())),
        };
        if since.elapsed() >= TIME {
            return (spent() - before).as_secs_f64() * 1e3 / since.elapsed().as_secs_f64();
        }
    }
}

/// Returns the streams of `count` connections, which `clients` read.
fn connect(server: &Runtime, clients: &Runtime, count: usize) -> Vec<noq::SendStream> {
    let identity = Identity::self_signed(vec!["localhost".to_owned()], SystemTime::now());
    let identity = identity.expect("a certificate");
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let context = server.enter();
    let listener =
        Listener::bind(any, &identity, vec![b"test".to_vec()], None).expect("a free port");
    drop(context);
    let address = listener.local_addr().expect("bound");
    for _ in 0..count {
        clients.spawn(async move {
            let endpoint = ClientEndpoint::new().expect("a socket");
            let protocols = vec![b"test".to_vec()];
            let trust = Trust::Anyone;
            let limits = Limits::Node;
            let dial = endpoint.dial(
                address,
                "localhost",
                &trust,
                protocols,
                congestion(),
                limits,
            );
            let connection = dial.await.expect("it listens");
            let mut stream = connection.accept_uni().await.expect("a stream");
            let mut buffer = vec![0; 64 << 10];
            while let Ok(Some(_)) = stream.read(&mut buffer).await {}
        });
    }
    server.block_on(async {
        let mut streams = Vec::new();
        while streams.len() < count {
            let arrived = listener.next(congestion, |_| false).await.expect("open");
            let connection = arrived.connecting.expect("a good first datagram").await;
            let connection = connection.expect("a handshake");
            streams.push(connection.open_uni().await.expect("a stream"));
        }
        streams
    })
}

/// Prints what one thread costs that wakes up for each unit, and what bare QUIC streams add, one
/// connection and four of them.
#[test]
#[ignore = "measures for a minute, and needs a quiet machine"]
fn cost_of_a_bare_stream() {
    for threads in [1, 2] {
        let server = runtime(SERVER, threads);
        let clients = runtime("reader", 1);
        let cost = |work| {
            server
                .block_on(server.spawn(stream(work)))
                .expect("it ends")
        };
        let wake_ups = cost(Work::None);
        println!("{threads} threads: 80 wake-ups a second {wake_ups:.2} ms/s");
        for count in [1, 4] {
            let streams = connect(&server, &clients, count);
            let written = cost(Work::Write(streams));
            println!(
                "{threads} threads: {count} bare streams {written:.2} ms/s, each {:.2} ms/s",
                written / count as f64
            );
        }
        clients.shutdown_background();
    }
}
