//! Processor time of both ends together for bulk data over a data channel, without sockets.
//!
//! `cargo bench -p glassline-webrtc --bench bulk [MEGABYTES]`. Two sessions in memory on one
//! core exchange messages of 64 KiB with a virtual round trip of 400 µs. Processor time is
//! measured as wall time, so the machine should be idle otherwise.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

#[path = "../../../benches/figure.rs"]
mod figure;
mod pair;

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_sctp::channel::{Event, Message};
use glassline_webrtc::{Certificate, Cipher, CipherChoice, DataConfig};

use pair::Pair;

const MESSAGE_BYTES: usize = 64 << 10;
/// Most bytes that wait in the sender, which therefore always has something to send.
const HIGH_WATER: usize = 4 << 20;
const STEP: Duration = Duration::from_micros(200);

fn main() {
    let megabytes = std::env::args().find_map(|argument| argument.parse().ok());
    let total = megabytes.unwrap_or(512_u64) * 1_000_000;
    let certificate = Arc::new(Certificate::generate().expect("a certificate"));
    for cipher in Cipher::ALL {
        let config = DataConfig {
            cipher: CipherChoice::Only(cipher),
            ..DataConfig::default()
        };
        let pair = Pair::connect(&certificate, &config, 0, Instant::now());
        transfer(pair, cipher, total);
    }
}

fn transfer(mut pair: Pair, cipher: Cipher, total: u64) {
    let message = Message::binary(vec![0x5a; MESSAGE_BYTES]);
    let sealed = |pair: &mut Pair| pair.ends[1].data_counts().map_or(0, |it| it.sealed);
    let before = sealed(&mut pair);
    let (mut received, mut steps) = (0, 0_u64);
    let start = Instant::now();
    while received < total {
        let now = pair.now;
        let channels = pair.ends[1].channels_mut().expect("data");
        while channels.buffered_amount(pair.channel) < HIGH_WATER
            && channels.send(pair.channel, message.clone(), now).is_ok()
        {}
        pair.exchange();
        for end in &mut pair.ends {
            let channels = end.channels_mut().expect("data");
            while let Some(event) = channels.poll_event(now) {
                if let Event::Message { message, .. } = event {
                    received += message.data.len() as u64;
                }
            }
        }
        pair.now += STEP;
        steps += 1;
        assert!(steps < 10_000_000, "{received} bytes of {total} arrived");
    }
    let took = start.elapsed().as_secs_f64();
    let packets = sealed(&mut pair) - before;
    let gigabits = received as f64 * 8.0 / 1e9;
    println!(
        "{cipher:<18} {:.2} Gbit/s of both ends on one core, {:.3} s/Gbit, {:.0} ns a packet \
         ({packets} of them, {:.2} virtual s)",
        gigabits / took,
        took / gigabits,
        took * 1e9 / packets as f64,
        steps as f64 * STEP.as_secs_f64(),
    );
    let name = format!("{cipher}, both ends on one core");
    figure::print(&name, took / gigabits, "s/Gbit", "less", None);
}
