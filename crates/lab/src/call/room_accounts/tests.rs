use std::time::{Duration, Instant};

use glassline_client::call::{SendStamps, far::RemoteRecord};
use glassline_sim::Clock;
use glassline_voice::{Operation, SignalDelay};

use super::*;
use crate::call::{Report, Stage};

const FRAME: Duration = Duration::from_millis(10);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Frame `number`, sent 20 ms after it was captured.
fn spoken(start: Instant, number: u64) -> SendStamps {
    let at = start + FRAME * number as u32;
    let encoded = at + ms(20);
    SendStamps {
        timestamp: 7_000 + number * 480,
        duration: FRAME,
        captured: at,
        delivered: at + FRAME,
        framed: at + FRAME,
        preprocessed: at + FRAME,
        encode_began: at + FRAME,
        encoded,
        enqueued: Some(encoded),
        paced: None,
        handed_over: Some(encoded),
        dequeued: Some(encoded),
        sent: Some(encoded),
        signal: SignalDelay::default(),
        encoded_something: true,
    }
}

/// Playout stamps of the same frame, `network` later, at an end that knows the voice as `voice`.
fn heard(spoken: &SendStamps, voice: u32, network: Duration) -> PlayoutStamps {
    let arrived = spoken.sent.expect("sent") + network;
    PlayoutStamps {
        ssrc: Ssrc(voice),
        timestamp: spoken.timestamp,
        sequence: Some(1),
        arrived,
        opened: arrived,
        inserted: arrived,
        pulled: arrived + ms(5),
        decode: Duration::ZERO,
        mix: Duration::ZERO,
        resample: Duration::ZERO,
        called: arrived + ms(5),
        played: arrived + ms(5),
        operation: Operation::Normal,
        signal: SignalDelay::default(),
    }
}

fn id(text: &str) -> String {
    text.to_owned()
}

fn p50(report: &Report, stage: Stage) -> Option<f64> {
    report.table(stage)?.p50_ms
}

/// Records about Ann, whose network delay is 3 ms, and about Bob, who sends no stamps. Ann's SSRC
/// for us is 100, ours for Ann is 200, then 201; Bob is 300.
fn accounts(start: Instant) -> RoomAccounts {
    let mut accounts = RoomAccounts::default();
    for (it, called) in [("a", "Ann"), ("b", "Bob, \"B\"")] {
        let called = called.to_owned();
        accounts.note(RoomRecord::Joined {
            id: id(it),
            name: called,
        });
    }
    let told = |record| RoomRecord::Remote {
        id: id("a"),
        remote: RemoteRecord {
            record,
            error: ms(1),
        },
    };
    for number in 0..300 {
        let mut records = Records::default();
        let ours = spoken(start, number);
        records.sent.push(ours);
        records.capture_calls.push(ours.delivered);
        let theirs = spoken(start, number);
        let voice = if number < 150 { 200 } else { 201 };
        records.played.push(heard(&theirs, voice, ms(3)));
        records.played.push(heard(&theirs, 300, ms(9)));
        accounts.take(&records);
        accounts.note(told(Record::Played(heard(&ours, 100, ms(4)))));
        accounts.note(told(Record::Sent(Ssrc(55), theirs)));
        // The names are known a little after the first packets.
        let named = |it: &str, voice: u32| RoomRecord::Voice {
            id: id(it),
            voice: Ssrc(voice),
        };
        match number {
            10 => accounts.note(named("a", 200)),
            20 => accounts.note(named("b", 300)),
            160 => accounts.note(named("a", 201)),
            _ => {}
        }
    }
    accounts.take(&Records::default());
    accounts
}

#[test]
fn each_of_the_others_has_tables_of_both_directions() {
    let mut accounts = accounts(Clock::new().now());
    assert!(accounts.unnamed.is_empty());
    assert_eq!(accounts.mouth_to_ear_ms(0.5).map(f64::round), Some(28.0));
    accounts.note(RoomRecord::Far {
        id: id("a"),
        report: Some(far::Report {
            is_there: true,
            clock: Some(far::Clock {
                skew_ppm: 0.0,
                error: ms(1),
                round_trip_min: ms(2),
            }),
            ..far::Report::default()
        }),
    });
    let all = accounts.finish("http://host/call/team");
    let [to_ann, from_ann, to_bob, from_bob] = &all.directions[..] else {
        panic!("{}", all.to_text(false));
    };
    assert_eq!(p50(to_ann, Stage::Network), Some(4.0));
    assert_eq!(p50(to_ann, Stage::MouthToEar), Some(29.0));
    assert_eq!(p50(from_ann, Stage::Network), Some(3.0));
    let network = from_ann.table(Stage::Network).expect("both told");
    assert_eq!(
        (network.count, network.lost, network.unmatched),
        (300, 0, 0)
    );
    // About Bob, there are only the stages of this end.
    assert!(to_bob.table(Stage::Network).is_none());
    assert_eq!(to_bob.table(Stage::Send).map(|it| it.count), Some(300));
    assert!(from_bob.table(Stage::MouthToEar).is_none());
    assert_eq!(p50(from_bob, Stage::JitterBuffer), Some(5.0));
    assert!(from_bob.notes.iter().any(|it| it.contains("no channel")));

    let json: serde_json::Value = serde_json::from_str(&all.to_json()).expect("JSON");
    assert_eq!(json["peer"], "Ann");
    assert_eq!(json["back"]["direction"], "heard");
    assert_eq!(json["more"][1]["peer"], "Bob, \"B\"");
    let csv = all.to_csv();
    assert!(csv.contains(",said to Ann\n") && csv.contains(",heard from Bob_ _B_\n"));
    let cells = csv.lines().map(|it| it.split(',').count());
    assert!(cells.into_iter().all(|it| it == 13));
}

#[test]
fn where_nobody_comes_there_is_what_is_said() {
    let mut accounts = RoomAccounts::default();
    let start = Clock::new().now();
    let mut records = Records::default();
    records.sent.extend((0..10).map(|it| spoken(start, it)));
    accounts.take(&records);
    let all = accounts.finish("http://host/call/team");
    let [said] = &all.directions[..] else {
        panic!("{}", all.to_text(false));
    };
    assert_eq!(said.table(Stage::Send).map(|it| it.count), Some(10));
    assert!(said.source.contains("nobody in"));
}

#[test]
fn what_is_kept_is_bounded() {
    let mut accounts = RoomAccounts::default();
    let start = Clock::new().now();
    for number in 0..2 * UNNAMED_MAX as u64 {
        let mut records = Records::default();
        records.played.push(heard(&spoken(start, number), 1, ms(1)));
        accounts.take(&records);
        assert!(accounts.unnamed.len() <= UNNAMED_MAX);
    }
    for number in 0..2 * OTHERS_MAX {
        let (id, called) = (number.to_string(), String::new());
        accounts.note(RoomRecord::Joined { id, name: called });
    }
    assert_eq!(accounts.others.len(), OTHERS_MAX);
    let all = accounts.finish("a room");
    assert!(all.directions.iter().flat_map(|it| &it.notes).count() < 1_000);
}
