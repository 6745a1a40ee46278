//! No viewer's problem affects another: the same viewers are watched with and without misbehaving
//! ones.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use glassline_media::Kind;
use glassline_sim::Rng;

use crate::check;
use crate::peer::{Peer, SOON, socket};
use crate::running::Running;
use crate::source::{Film, Source};

/// Good viewers; with one bad viewer of each conduct a fifth of all are bad.
const GOOD: usize = 16;
/// Time that is watched without bad viewers, and then with them.
const WATCH: Duration = Duration::from_secs(5);

/// The behavior of a bad viewer after it has played for a moment.
#[derive(Clone, Copy, Debug)]
enum Conduct {
    /// Neither reads nor sends any more, but keeps its socket.
    Stall,
    /// Closes its socket without a word: its port answers by ICMP.
    Vanish,
    /// Sends noise of every kind from its own, authentic address.
    Garbage,
    /// Loses half of everything and asks for it again.
    Lossy,
}

/// The media that one good viewer got in one of the two watches.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    frames: usize,
    missing: u64,
    gap_p99: Duration,
    /// Media time that came in, in parts of the time watched.
    delivered: f64,
}

#[test]
fn good_viewers_do_not_notice_bad_ones() {
    let ([alone, in_company], stalled) = while_stalls_are_noted(watch);
    println!("alone {alone:?}, in bad company {in_company:?}, stalled for {stalled:?}");
    assert_eq!(alone.missing, 0, "without any bad viewer");
    assert_eq!(in_company.missing, 0, "with bad viewers");
    // Half a frame more is noise, and so is every pause of the machine; a viewer that holds others
    // up shows as hundreds of milliseconds, or as frames that do not come at all.
    let gap_max = 2 * alone.gap_p99 + Duration::from_millis(50) + stalled;
    let delivered_min = alone.delivered - 0.02 - 2.0 * stalled.div_duration_f64(WATCH);
    assert!(in_company.gap_p99 <= gap_max, "{in_company:?} {alone:?}");
    assert!(
        in_company.delivered >= delivered_min,
        "{in_company:?} {alone:?}"
    );
}

/// Runs `work` beside a thread that only sleeps; returns the longest delay of that thread, which is
/// what the machine does to every thread.
fn while_stalls_are_noted<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    const STEP: Duration = Duration::from_millis(5);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let longest = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !over.load(Ordering::Relaxed) {
                let begin = Instant::now();
                std::thread::sleep(STEP);
                longest = longest.max(begin.elapsed().saturating_sub(STEP));
            }
            longest
        });
        let done = work();
        over.store(true, Ordering::Relaxed);
        (done, longest.join().expect("no panic"))
    })
}

/// Watches twice, on one server and by the same good viewers; the worst of them
/// each time.
fn watch() -> [Account; 2] {
    let running = Running::with(2, |config| {
        config.limits.half_open_per_address = 100;
    });
    let _source = Source::start(&running.stream(), Film::default());
    let quiet = Instant::now() + Duration::from_secs(2);
    let watches = [quiet, quiet + WATCH + Duration::from_secs(1)];
    let over = AtomicBool::new(false);
    let accounts = std::thread::scope(|scope| {
        let good: Vec<_> = (0..GOOD)
            .map(|_| {
                scope.spawn(|| {
                    let mut peer = Peer::joined(&running);
                    let end = watches[1] + WATCH + Duration::from_millis(500);
                    peer.run_for(end.saturating_duration_since(Instant::now()));
                    watches.map(|from| account(&peer, from))
                })
            })
            .collect();
        let conducts = [
            Conduct::Stall,
            Conduct::Vanish,
            Conduct::Garbage,
            Conduct::Lossy,
        ];
        for conduct in conducts {
            let (running, over) = (&running, &over);
            let begin = watches[0] + WATCH;
            scope.spawn(move || {
                std::thread::sleep(begin.saturating_duration_since(Instant::now()));
                misbehave(running, conduct, over);
            });
        }
        let accounts: Vec<_> = good
            .into_iter()
            .map(|it| it.join().expect("no panic"))
            .collect();
        over.store(true, Ordering::Relaxed);
        accounts
    });
    [0, 1].map(|watch| {
        let of_all = accounts.iter().map(|account| account[watch]);
        of_all.fold(
            Account {
                frames: usize::MAX,
                delivered: 1.0,
                ..Account::default()
            },
            |worst, it| Account {
                frames: worst.frames.min(it.frames),
                missing: worst.missing + it.missing,
                gap_p99: worst.gap_p99.max(it.gap_p99),
                delivered: worst.delivered.min(it.delivered),
            },
        )
    })
}

/// Returns the media that `peer` got in the watch that begins at `from`.
fn account(peer: &Peer<'_>, from: Instant) -> Account {
    let mut received = peer.in_order(Kind::Video);
    received.retain(|it| (from..from + WATCH).contains(&it.at));
    let (Some(first), Some(last)) = (received.first(), received.last()) else {
        return Account::default();
    };
    let span = last.sequence - first.sequence + 1;
    let ticks = last.timestamp.wrapping_sub(first.timestamp);
    let mut ends: Vec<Instant> = received
        .iter()
        .filter(|it| it.marker)
        .map(|it| it.at)
        .collect();
    ends.sort_unstable();
    let mut gaps: Vec<Duration> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    Account {
        frames: ends.len(),
        missing: span - received.len() as u64,
        gap_p99: gaps.get(gaps.len() * 99 / 100).copied().unwrap_or(WATCH),
        delivered: f64::from(ticks) / 90e3 / WATCH.as_secs_f64(),
    }
}

/// Joins, plays for a moment, misbehaves, and comes again, until it is `over`.
fn misbehave(running: &Running, conduct: Conduct, over: &AtomicBool) {
    let mut rng = Rng::new(conduct as u64 + 1);
    while !over.load(Ordering::Relaxed) {
        let mut peer = Peer::joined(running);
        peer.run_for(Duration::from_millis(300));
        match conduct {
            Conduct::Vanish => {}
            Conduct::Stall => std::thread::sleep(Duration::from_millis(2500)),
            Conduct::Garbage => {
                for _ in 0..500 {
                    noise(&peer, &mut rng);
                    peer.run_for(Duration::from_millis(2));
                }
            }
            Conduct::Lossy => {
                peer.loss = 0.5;
                peer.run_for(Duration::from_millis(2500));
            }
        }
    }
}

/// Returns a datagram that no session can use, to the address that the session's media comes from.
fn noise(peer: &Peer<'_>, rng: &mut Rng) {
    let Some(to) = peer.session.peer().map(|it| it.socket) else {
        return;
    };
    let mut datagram = vec![0; usize::try_from(rng.below(1200)).expect("few") + 1];
    rng.fill(&mut datagram);
    let first = &mut datagram[0];
    match rng.below(6) {
        // A connectivity check with a bit turned.
        0 => {
            let (ours, theirs) = peer.credentials();
            datagram = check::binding_request(&theirs, &ours, true);
            let bit = usize::try_from(rng.below(datagram.len() as u64)).expect("few");
            datagram[bit] ^= 4;
        }
        // A record of DTLS 1.2 application data, of the next epoch.
        1 => {
            let head = [23, 254, 253, 0, 1];
            datagram.truncate(200);
            datagram.resize(200, 0);
            datagram[..head.len()].copy_from_slice(&head);
        }
        2 => *first = 22,
        3 => *first = 0x80,
        // RTCP: a receiver report's type.
        4 => {
            datagram.resize(60, 0);
            datagram[..2].copy_from_slice(&[0x81, 201]);
        }
        _ => {}
    }
    // Some of it from an address that nobody knows.
    if rng.chance(0.2) {
        let _ = socket().send_to(&datagram, to);
    } else {
        let _ = peer.socket.send_to(&datagram, to);
    }
}

/// Closed ports answer by ICMP. Packets of other viewers are not lost for it, and the sessions of
/// the closed ports time out.
#[test]
fn closed_ports_cost_the_others_nothing() {
    let running = Running::with(1, |config| {
        config.limits.half_open_per_address = 100;
    });
    let _source = Source::start(&running.stream(), Film::default());
    let mut peer = Peer::joined(&running);
    let dead: Vec<_> = (0..12).map(|_| Peer::joined(&running)).collect();
    drop(dead);
    // Silence ends a session after 15 to 20 s.
    let (begun, mut left) = (Instant::now(), 13);
    while left > 1 {
        assert!(begun.elapsed() < 4 * SOON, "{left} sessions");
        peer.run_for(Duration::from_millis(500));
        left = running.sessions().0;
    }
    let received = peer.in_order(Kind::Video);
    let span = received[received.len() - 1].sequence - received[0].sequence + 1;
    assert_eq!(span, received.len() as u64, "packets are missing");
    assert_eq!(running.total("send_abandoned_datagrams_total"), 0);
    assert_eq!(running.total("queue_dropped_frames_total"), 0);
    assert_eq!(running.stream().viewers(), 1);
}
