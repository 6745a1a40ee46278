use std::time::{Duration, Instant};

use glassline_media::Ssrc;
use proptest::prelude::*;

use super::*;
use crate::rtcp;

const MS: Duration = Duration::from_millis(1);

/// One feedback packet, decoded.
#[derive(Debug)]
struct Read {
    base: u16,
    count: u8,
    arrivals: Vec<(u16, Option<i64>)>,
}

fn read(bytes: &[u8]) -> Read {
    let feedback = parsed(bytes);
    let reference = i64::from(feedback.reference_time) * 256;
    Read {
        base: feedback.base_sequence,
        count: feedback.feedback_count,
        arrivals: feedback
            .statuses()
            .map(|(sequence, ticks)| (sequence, ticks.map(|ticks| reference + i64::from(ticks))))
            .collect(),
    }
}

fn parsed(bytes: &[u8]) -> rtcp::TransportFeedback<'_> {
    match rtcp::parse(bytes).next() {
        Some(Ok(rtcp::Packet::TransportFeedback(feedback))) => feedback,
        other => panic!("{other:?}"),
    }
}

fn poll(recorder: &mut Recorder, now: Instant) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    recorder
        .poll(now, Ssrc(1), Ssrc(2), &mut out)
        .then_some(out)
}

#[test]
fn arrivals_are_reported_after_the_interval_with_the_missing_between() {
    let start = Instant::now();
    let mut recorder = Recorder::default();
    for (sequence, at) in [(65_534, 0), (65_535, 10), (1, 20)] {
        recorder.record(sequence, start + at * MS);
    }
    assert_eq!(recorder.poll_timeout(), Some(start + 100 * MS));
    assert_eq!(poll(&mut recorder, start + 99 * MS), None);
    let feedback = read(&poll(&mut recorder, start + 100 * MS).expect("due"));
    assert_eq!(
        feedback.arrivals,
        [
            (65_534, Some(0)),
            (65_535, Some(40)),
            (0, None),
            (1, Some(80))
        ]
    );
    assert_eq!(recorder.poll_timeout(), None);
    assert_eq!(poll(&mut recorder, start + 200 * MS).map(|_| ()), None);
}

#[test]
fn losses_between_two_feedbacks_are_reported_in_the_second() {
    let start = Instant::now();
    let mut recorder = Recorder::default();
    recorder.record(10, start);
    poll(&mut recorder, start + 100 * MS).expect("the first");
    recorder.record(13, start + 110 * MS);
    let feedback = read(&poll(&mut recorder, start + 210 * MS).expect("the second"));
    assert_eq!((feedback.base, feedback.count), (11, 1));
    assert_eq!(feedback.arrivals, [(11, None), (12, None), (13, Some(440))]);
}

#[test]
fn a_packet_late_for_its_feedback_is_reported_with_those_after_it() {
    let start = Instant::now();
    let mut recorder = Recorder::default();
    for sequence in [10, 12] {
        recorder.record(sequence, start);
    }
    poll(&mut recorder, start + 100 * MS).expect("the first");
    recorder.record(11, start + 120 * MS);
    recorder.record(12, start + 121 * MS);
    let feedback = read(&poll(&mut recorder, start + 220 * MS).expect("the second"));
    assert_eq!(feedback.arrivals, [(11, Some(480)), (12, Some(0))]);
}

#[test]
fn many_packets_are_due_at_once_and_each_feedback_fits_a_datagram() {
    let start = Instant::now();
    let mut recorder = Recorder::default();
    for sequence in 0..1000u16 {
        recorder.record(sequence, start + u32::from(sequence) * 10 * MS);
    }
    let now = start + 10_000 * MS;
    assert!(recorder.poll_timeout().expect("due") < now);
    let mut next = 0;
    while let Some(bytes) = poll(&mut recorder, now) {
        assert!(bytes.len() <= 1100);
        let feedback = read(&bytes);
        assert_eq!(feedback.base, next);
        next += feedback.arrivals.len() as u16;
    }
    assert_eq!(next, 1000);
}

#[test]
fn a_pause_longer_than_a_delta_can_say_begins_a_new_feedback() {
    let start = Instant::now();
    let mut recorder = Recorder::new(Duration::from_secs(20));
    recorder.record(0, start);
    recorder.record(1, start + 9000 * MS);
    let now = start + 20_000 * MS;
    let first = read(&poll(&mut recorder, now).expect("the first"));
    assert_eq!(first.arrivals, [(0, Some(0))]);
    let second = read(&poll(&mut recorder, now).expect("the second"));
    assert_eq!(second.arrivals, [(1, Some(36_000))]);
}

#[test]
fn a_jump_of_the_numbers_starts_anew_in_bounded_memory() {
    let start = Instant::now();
    let mut recorder = Recorder::default();
    recorder.record(0, start);
    recorder.record(20_000, start);
    let feedback = read(&poll(&mut recorder, start + 100 * MS).expect("due"));
    assert_eq!(feedback.arrivals, [(20_000, Some(0))]);
}

#[test]
fn feedback_joins_with_what_was_sent() {
    let start = Instant::now();
    let (mut history, mut recorder) = (SendHistory::new(), Recorder::default());
    for number in 0..4u64 {
        history.sent(65_534 + number, start + 5 * MS * number as u32, 1200);
    }
    for sequence in [65_534u16, 65_535, 1] {
        recorder.record(sequence, start + 20 * MS);
    }
    let now = start + 140 * MS;
    let bytes = poll(&mut recorder, now).expect("due");
    let mut acknowledged = Vec::new();
    let summary = history.on_feedback(&parsed(&bytes), now, &mut acknowledged);
    assert_eq!(
        summary,
        FeedbackSummary {
            acked: 3,
            acked_bytes: 3600,
            lost: 1,
            rtt: Some(125 * MS),
        }
    );
    assert_eq!(
        acknowledged[2],
        Acknowledgement {
            sequence: 65_536,
            bytes: 1200,
            sent: start + 10 * MS,
            arrival: None,
        }
    );
    assert_eq!(acknowledged[3].arrival, Some(0));
    let again = history.on_feedback(&parsed(&bytes), now, &mut acknowledged);
    assert_eq!(again, FeedbackSummary::default(), "nothing is news twice");
}

#[test]
fn a_packet_reported_missing_is_acknowledged_when_it_was_only_late() {
    let start = Instant::now();
    let (mut history, mut recorder) = (SendHistory::new(), Recorder::default());
    let mut acknowledged = Vec::new();
    for number in 0..3 {
        history.sent(number, start, 100);
    }
    recorder.record(0, start);
    recorder.record(2, start);
    let now = start + 100 * MS;
    let bytes = poll(&mut recorder, now).expect("due");
    assert_eq!(
        history
            .on_feedback(&parsed(&bytes), now, &mut acknowledged)
            .lost,
        1
    );
    recorder.record(1, now);
    let now = start + 200 * MS;
    let bytes = poll(&mut recorder, now).expect("due");
    let summary = history.on_feedback(&parsed(&bytes), now, &mut acknowledged);
    assert_eq!((summary.acked, summary.lost), (1, 0));
    assert!(history.is_empty());
}

#[test]
fn feedback_about_what_was_never_sent_is_ignored() {
    let start = Instant::now();
    let mut recorder = Recorder::default();
    for sequence in 500..520 {
        recorder.record(sequence, start);
    }
    let bytes = poll(&mut recorder, start + 100 * MS).expect("due");
    let mut acknowledged = Vec::new();
    let mut history = SendHistory::new();
    history.on_feedback(&parsed(&bytes), start, &mut acknowledged);
    history.sent(3, start, 100);
    history.on_feedback(&parsed(&bytes), start, &mut acknowledged);
    assert!(acknowledged.is_empty());
    assert_eq!(history.len(), 1);
}

/// Returns feedback whose `count` packets from `base` on are all missing.
fn all_missing(base: u16, count: u16) -> Vec<u8> {
    let mut chunks = Vec::new();
    let mut left = count;
    while left > 0 {
        let run = left.min(0x1fff);
        chunks.extend_from_slice(&run.to_be_bytes());
        left -= run;
    }
    chunks.resize(chunks.len().next_multiple_of(4), 0);
    let words = u16::try_from(4 + chunks.len() / 4).expect("short");
    let mut out = vec![0x80 | 15, 205];
    out.extend_from_slice(&words.to_be_bytes());
    out.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 2]);
    out.extend_from_slice(&base.to_be_bytes());
    out.extend_from_slice(&count.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&chunks);
    out
}

/// Forty bytes claim 65,535 packets, and a datagram holds 28 such claims.
#[test]
fn feedback_costs_what_its_bytes_say_and_not_what_they_claim() {
    let bytes = all_missing(3, u16::MAX);
    let feedback = parsed(&bytes);
    assert_eq!(feedback.statuses().count(), 65_535);
    let runs: Vec<_> = feedback.runs().collect();
    assert_eq!(runs.len(), 9, "one a chunk");
    let claimed: u32 = runs.iter().map(|run| u32::from(run.count())).sum();
    assert_eq!(claimed, 65_535);

    let start = Instant::now();
    let mut history = SendHistory::new();
    (1..=4096).for_each(|number| history.sent(number, start, 100));
    let mut out = Vec::new();
    let began = Instant::now();
    for round in 0..10_000u32 {
        let now = start + round * MS;
        let summary = history.on_feedback(&feedback, now, &mut out);
        assert_eq!(summary.lost, if round == 0 { 4094 } else { 0 });
    }
    // They took minutes when each claim was looked at; the limit is far above what they take now.
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(out.len(), 4094, "each packet is lost once");
}

#[test]
fn a_later_feedback_makes_no_losses_of_what_an_earlier_one_described() {
    let start = Instant::now();
    let mut history = SendHistory::new();
    (100..120).for_each(|number| history.sent(number, start, 100));
    let mut out = Vec::new();
    let mut lost = |history: &mut SendHistory, base, count| {
        let bytes = all_missing(base, count);
        history
            .on_feedback(&parsed(&bytes), start + 50 * MS, &mut out)
            .lost
    };
    assert_eq!(lost(&mut history, 105, 5), 5);
    assert_eq!(lost(&mut history, 100, 10), 0, "it comes too late");
    assert_eq!(lost(&mut history, 100, 15), 5);
    // What is claimed of packets that will be sent is not remembered.
    assert_eq!(lost(&mut history, 100, 1000), 5);
    history.sent(120, start, 100);
    assert_eq!(lost(&mut history, 120, 1), 1);
}

#[test]
fn a_sender_that_skips_its_numbers_makes_no_work() {
    let start = Instant::now();
    let mut recorder = Recorder::default();
    let mut statuses = 0;
    for packet in 0..10_000u32 {
        let now = start + packet * MS / 10;
        recorder.record((packet * 4_000) as u16, now);
        while let Some(bytes) = poll(&mut recorder, now) {
            statuses += read(&bytes).arrivals.len();
        }
    }
    assert!(statuses < 10_000 * 20, "{statuses}");
}

#[test]
fn an_outage_is_reported_with_the_packets_around_it() {
    let start = Instant::now();
    let mut recorder = Recorder::default();
    recorder.record(0, start);
    recorder.record(4_000, start + 1_000 * MS);
    let mut reported = 0;
    while let Some(bytes) = poll(&mut recorder, start + 2_000 * MS) {
        reported += read(&bytes).arrivals.len();
    }
    assert_eq!(reported, 4_001);
}

#[test]
fn a_packet_that_was_sent_again_counts_as_lost_once() {
    let start = Instant::now();
    let (mut history, mut recorder) = (SendHistory::new(), Recorder::default());
    for number in 0..6 {
        history.sent(number, start, 100);
    }
    let mut report = |history: &mut SendHistory, arrived: &[u16], at: u32| {
        for &number in arrived {
            recorder.record(number, start + at * MS);
        }
        let now = start + (at + 100) * MS;
        let bytes = poll(&mut recorder, now).expect("due");
        let mut out = Vec::new();
        history.on_feedback(&parsed(&bytes), now, &mut out);
        let fates = out.iter().map(|it| (it.sequence, it.arrival.is_some()));
        fates.collect::<Vec<_>>()
    };
    // Packet 1 is requested, and its second sending arrives, before feedback tells of either.
    history.sent_again(1);
    assert_eq!(
        report(&mut history, &[0, 1, 3], 40),
        [(0, true), (1, false), (2, false), (3, true)]
    );
    // Packet 2 is known to be lost, and 0 to have arrived: neither is news any more.
    history.sent_again(2);
    history.sent_again(0);
    assert_eq!(
        report(&mut history, &[2, 4, 5], 160),
        [(4, true), (5, true)]
    );
    // Numbers that are gone, or were never used.
    history.sent_again(0);
    history.sent_again(1 << 40);
    assert!(history.is_empty());
}

#[test]
fn history_is_bounded_when_no_feedback_comes() {
    let start = Instant::now();
    let mut history = SendHistory::new();
    for number in 0..100_000 {
        history.sent(number, start, 100);
    }
    history.sent(1 << 40, start, 100);
    assert_eq!(history.len(), 1);
}

#[test]
fn reference_time_is_followed_across_its_wrap() {
    let start = Instant::now();
    let mut history = SendHistory::new();
    let mut arrivals = Vec::new();
    for (number, ticks) in [(0u64, 0x7f_ffffi64 * 256), (1, 0x80_0000 * 256)] {
        history.sent(number, start, 100);
        let mut builder = rtcp::TransportFeedbackBuilder::new(number as u16, ticks, 1000);
        assert!(builder.push(Some(ticks)));
        let mut bytes = Vec::new();
        builder.write(Ssrc(1), Ssrc(2), 0, &mut bytes);
        history.on_feedback(&parsed(&bytes), start, &mut arrivals);
    }
    let times: Vec<_> = arrivals.iter().filter_map(|ack| ack.arrival).collect();
    assert_eq!(times[1] - times[0], 256);
}

#[test]
fn the_extension_holds_sixteen_bits() {
    assert_eq!(sequence(&[0x12, 0x34]), Some(0x1234));
    assert_eq!(sequence(&[1]), None);
}

proptest! {
    /// Every packet is eventually reported once, as arrived or as lost.
    #[test]
    fn every_packet_is_accounted_for(
        fates in prop::collection::vec((prop::bool::weighted(0.9), 0u32..40), 1..600),
        first in 0u64..100_000,
    ) {
        let start = Instant::now();
        let (mut history, mut recorder) = (SendHistory::new(), Recorder::default());
        let mut out = Vec::new();
        let mut flying: Vec<(u32, u16)> = Vec::new();
        let (mut expected, mut highest) = (0, 0);
        for at in 0..fates.len() as u32 + 300 {
            let now = start + at * MS;
            if let Some(&(arrives, delay)) = fates.get(at as usize) {
                let number = first + u64::from(at);
                history.sent(number, now, 1);
                if arrives {
                    flying.push((at + 20 + delay, number as u16));
                    expected += 1;
                    highest = at;
                }
            }
            flying.retain(|&(due, sequence)| {
                if due <= at {
                    recorder.record(sequence, now);
                }
                due > at
            });
            while let Some(bytes) = poll(&mut recorder, now) {
                history.on_feedback(&parsed(&bytes), now, &mut out);
            }
        }
        // Reports begin at the first packet that arrives.
        let reported = out.iter().map(|ack| ack.sequence).min().unwrap_or(first);
        let arrived = out.iter().filter(|ack| ack.arrival.is_some()).count();
        let unreported = (first..reported)
            .filter(|number| fates[(number - first) as usize].0)
            .count();
        prop_assert_eq!(arrived + unreported, expected);
        for ack in out.iter().filter(|ack| ack.arrival.is_none()) {
            let (arrives, _) = fates[(ack.sequence - first) as usize];
            prop_assert!(arrives || ack.sequence - first < u64::from(highest));
        }
    }
}
