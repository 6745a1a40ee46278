//! A browser as the receiver on the same machine: its thread reads one datagram after the
//! other from a socket that holds few, and sometimes rests.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use glassline_sctp::SendOptions;
use glassline_sim::{Case, Clock, Rng};

use crate::peers::{Dcsctp, Happened, Ours, Peer, Setup};

/// Time that the browser's thread takes for a datagram.
const DATAGRAM_TIME: Duration = Duration::from_micros(15);
const MESSAGE_BYTES: usize = 64 << 10;
/// Time before the measurement.
const BEGINNING: Duration = Duration::from_millis(500);
const MEASURED: Duration = Duration::from_millis(500);

/// How the browser's thread and its socket behave.
#[derive(Clone, Copy, Debug)]
struct Reader {
    /// Datagrams that the socket holds.
    holds: usize,
    /// Longest time for which the thread reads without a rest.
    reads_max: Duration,
    /// Longest time for which the thread does other work between two spells of reading.
    rests_max: Duration,
}

/// The traffic after the first half second.
#[derive(Debug)]
struct Carried {
    /// Rate of user data, in Mbit/s.
    mbps: f64,
    /// Share of the datagrams that found the socket full.
    lost: f64,
}

/// Returns a random time up to `most`.
fn random_time(rng: &mut Rng, most: Duration) -> Duration {
    most.mul_f64(rng.unit())
}

fn carried(reader: Reader, seed: u64) -> Carried {
    let mut clock = Clock::new();
    let setup = Setup::default();
    let mut browser = Dcsctp::new(setup, 1, clock.now());
    let mut ours = Ours::new(setup, 2, clock.now());
    let mut rng = Rng::new(seed);
    let message = Bytes::from(vec![7; MESSAGE_BYTES]);
    let mut socket: VecDeque<Vec<u8>> = VecDeque::new();
    let (mut answers, mut packet): (Vec<Vec<u8>>, Vec<u8>) = (Vec::new(), Vec::new());
    let (mut reads_until, mut rests_until) = (clock.now(), clock.now());
    let (mut received, mut sent, mut dropped) = (0, 0, 0);
    let begin = clock.now();
    ours.connect(begin);
    while clock.elapsed() < BEGINNING + MEASURED {
        let now = clock.now();
        let counts = clock.elapsed() >= BEGINNING;
        if now >= reads_until && now >= rests_until {
            rests_until = now + random_time(&mut rng, reader.rests_max);
            reads_until = rests_until + random_time(&mut rng, reader.reads_max);
        }
        if now >= rests_until {
            if browser.deadline().is_some_and(|at| at <= now) {
                browser.on_deadline(now);
            }
            if let Some(packet) = socket.pop_front() {
                browser.handle(&packet, now);
            }
            while browser.transmit(now, &mut packet) {
                answers.push(packet.clone());
            }
        }
        while let Some(happened) = browser.poll(now) {
            if let Happened::Message { data, .. } = happened {
                received += if counts { data.len() } else { 0 };
            }
        }
        if ours.deadline().is_some_and(|at| at <= now) {
            ours.on_deadline(now);
        }
        for answer in answers.drain(..) {
            ours.handle(&answer, now);
        }
        ours.end_batch(now);
        while ours.poll(now).is_some() {}
        while clock.elapsed() > Duration::from_millis(100)
            && ours.buffered(0) < 1 << 20
            && ours.send(0, &message, SendOptions::default(), now)
        {}
        while ours.transmit(now, &mut packet) {
            let full = socket.len() >= reader.holds;
            sent += usize::from(counts);
            dropped += usize::from(counts && full);
            if !full {
                socket.push_back(packet.clone());
            }
        }
        clock.advance(DATAGRAM_TIME);
    }
    Carried {
        mbps: received as f64 * 8e-6 / MEASURED.as_secs_f64(),
        lost: dropped as f64 / sent as f64,
    }
}

#[test]
fn a_browser_that_reads_late_drops_little_of_what_is_sent_to_it() {
    let ms = Duration::from_millis;
    // On Linux, a socket with the default buffer holds 92 datagrams of 1,200 bytes.
    let cases = [
        Case {
            description: "short rests",
            path: Reader {
                holds: 56,
                reads_max: ms(4),
                rests_max: ms(1),
            },
            seed: 1,
            expected: 380.0,
        },
        Case {
            description: "long rests",
            path: Reader {
                holds: 92,
                reads_max: ms(8),
                rests_max: ms(6),
            },
            seed: 4,
            expected: 200.0,
        },
    ];
    for case in cases {
        let carried = carried(case.path, case.seed);
        assert!(carried.mbps > case.expected, "{case}: {carried:?}");
        assert!(carried.lost < 0.03, "{case}: {carried:?}");
    }
}
