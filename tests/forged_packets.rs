//! QUIC while somebody begins thousands of connections a second from many addresses: others get in.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use libtest_mimic::Failed;

use crate::browser::{PATIENCE, ensure};
use crate::moq::Publisher;
use crate::peers::{Peer, Test};
use crate::ports::free_port;
use crate::process::eventually;
use crate::server::Server;
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] =
    &[
        Test::of(&a_publisher_and_chromium_prove_their_addresses_and_get_in)
            .needs(&[Peer::Chromium])
            .alone(),
    ];

/// Packets that were answered by a question for a proof.
const RETRIED: &str = "glassline_quic_retried_total";

fn a_publisher_and_chromium_prove_their_addresses_and_get_in() -> Result<(), Failed> {
    let known = [free_port()?, free_port()?];
    let yaml = format!("cors:\n  origins: ['http://127.0.0.1:{}']\n", known[0]);
    let server = Server::configured_on(known, &yaml, &[])?;
    let forger = Forger::start(server.quic())?;
    let asked = eventually(PATIENCE, || match server.metric(RETRIED)? {
        0.0 => Err("nobody is asked for a proof".to_owned()),
        asked => Ok(asked),
    })?;
    let publisher = Publisher::start(&server.moq_url("upload")?)?;
    server.wait_for_state("upload", "live")?;
    let browser = Browser::start()?;
    browser.open(&server.url("/upload"))?;
    browser.run(&web_transport(&server)?)?;
    let came = browser.wait_until(PATIENCE, "return window.webTransport")?;
    ensure(came == "open", "Chromium's session", &came)?;
    let asked_by_now = server.metric(RETRIED)?;
    ensure(
        asked_by_now > asked,
        "it went on",
        &asked_by_now.to_string().into(),
    )?;
    forger.stop()?;
    publisher.stop()
}

/// A script that opens a session of WebTransport, and leaves `open` or an error in
/// `window.webTransport`.
fn web_transport(server: &Server) -> Result<String, String> {
    let pinned = server.moq_url("upload")?;
    let (_, sha256) = pinned.split_once("#sha256=").ok_or("no fingerprint")?;
    Ok(format!(
        "const digits = '{sha256}'.replaceAll(':', '').match(/../g);
         const value = Uint8Array.from(digits, (it) => parseInt(it, 16));
         const transport = new WebTransport('https://{}/upload', {{
           serverCertificateHashes: [{{algorithm: 'sha-256', value}}],
           protocols: ['moq-lite-05'],
         }});
         transport.ready.then(
           () => window.webTransport = 'open',
           (error) => window.webTransport = String(error),
         );",
        server.quic()
    ))
}

/// Sends first packets of connections that nobody wants, until it is stopped.
struct Forger {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Forger {
    fn start(server: SocketAddr) -> Result<Self, String> {
        let sockets: Result<Vec<UdpSocket>, _> = (66..166)
            .map(|last| UdpSocket::bind((Ipv4Addr::new(127, 0, 0, last), 0)))
            .collect();
        let sockets = sockets.map_err(|error| format!("loopback: {error}"))?;
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut sockets = sockets.iter().cycle();
            let mut number = 0_u64;
            while !stopped.load(Ordering::Relaxed) {
                for socket in sockets.by_ref().take(60) {
                    number += 1;
                    // A server that is busy loses some, as it may.
                    let _ = socket.send_to(&first_packet(number), server);
                }
                thread::sleep(Duration::from_millis(10));
            }
        });
        Ok(Self { stop, thread })
    }

    fn stop(self) -> Result<(), Failed> {
        self.stop.store(true, Ordering::Relaxed);
        Ok(self.thread.join().map_err(|_| "the forger panicked")?)
    }
}

/// The first packet of a connection (RFC 9000 §17.2.2), whose content is damaged.
fn first_packet(number: u64) -> [u8; 1200] {
    let mut packet = [0; 1200];
    packet[..6].copy_from_slice(&[0xc0, 0, 0, 0, 1, 8]);
    packet[6..14].copy_from_slice(&number.to_be_bytes());
    // No source connection ID, no token, and the length of what follows.
    packet[14..18].copy_from_slice(&[0, 0, 0x44, 0x9e]);
    packet
}
