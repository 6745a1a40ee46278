use std::time::{Duration, Instant};

use bytes::Bytes;
use glassline_sctp::SendOptions;
use glassline_sim::Clock;

use crate::peers::{Dcsctp, Happened, Ours, Peer, Setup};

/// Time between two turns of the receiving thread.
const TURN: Duration = Duration::from_millis(1);
const MESSAGE_BYTES: usize = 64 << 10;

/// Takes every packet that `from` has ready to `to`, as one batch; returns their number.
fn carry(from: &mut dyn Peer, to: &mut dyn Peer, now: Instant) -> usize {
    let (mut packets, mut packet) = (Vec::new(), Vec::new());
    while from.transmit(now, &mut packet) {
        packets.push(packet.clone());
    }
    for packet in &packets {
        to.handle(packet, now);
    }
    to.end_batch(now);
    packets.len()
}

fn expire(end: &mut dyn Peer, now: Instant) {
    while end.deadline().is_some_and(|at| at <= now) {
        end.on_deadline(now);
    }
}

/// One turn: what the browser has sent is read at once, and answered.
fn turn(browser: &mut dyn Peer, ours: &mut dyn Peer, now: Instant) -> usize {
    expire(browser, now);
    expire(ours, now);
    let packets = carry(browser, ours, now);
    carry(ours, browser, now);
    packets
}

#[test]
fn a_browser_sends_more_than_four_packets_between_two_turns_of_our_thread() {
    let setup = Setup::default();
    let mut now = Clock::new().now();
    let mut browser = Dcsctp::new(setup, 1, now);
    let mut ours = Ours::new(setup, 2, now);
    browser.connect(now);
    for _ in 0..20 {
        turn(&mut browser, &mut ours, now);
        now += TURN;
    }
    // All messages are handed over before, because each of them lets some packets go.
    let message = Bytes::from(vec![7; MESSAGE_BYTES]);
    let count = 48;
    for _ in 0..count {
        assert!(browser.send(0, &message, SendOptions::default(), now));
    }
    let (mut turns, mut received, mut most) = (0, 0, 0);
    while received < count {
        most = most.max(turn(&mut browser, &mut ours, now));
        while let Some(happened) = ours.poll(now) {
            if let Happened::Message { data, .. } = happened {
                assert_eq!(data.len(), MESSAGE_BYTES);
                received += 1;
            }
        }
        now += TURN;
        turns += 1;
        assert!(turns < 400, "{received} of {count} messages in 400 ms");
    }
    // At four packets a turn, 48 messages of 58 packets take 700 turns.
    assert!(turns < 300, "{turns} turns");
    assert!(most >= 32, "at most {most} packets between two turns");
}
