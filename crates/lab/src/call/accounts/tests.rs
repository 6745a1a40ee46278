use std::collections::HashMap;
use std::time::Instant;

use glassline_client::call::far::{Channel, FarEnd, Report as FarReport};
use glassline_client::call::{PlayoutStamps, Record, SendStamps, Ssrc};
use glassline_sim::{Clock, Conditions, Link, Loss, SendOutcome};
use glassline_voice::{Operation, SignalDelay};
use serde_json::Value;

use super::*;
use crate::call::stage::Stage;

const STEP: Duration = Duration::from_millis(1);
const FRAME: Duration = Duration::from_millis(10);
const SSRCS: [Ssrc; 2] = [Ssrc(0xa), Ssrc(0xb)];

/// A datagram or message on a path.
enum InFlight {
    Voice(u64),
    Message(Channel, Vec<u8>),
}

/// Two hosts in virtual time: the first one's clock is true, the other's runs at another speed
/// and with an offset. Both speak and listen; the first collects records.
///
/// The loop is not a `glassline_sim::Simulation`: a voice packet is a number whose true delay the
/// test reads from the link when it is sent, to compare the records with it.
struct Hosts {
    start: Instant,
    skew: f64,
    ends: [FarEnd; 2],
    paths: [Link<InFlight>; 2],
    accounts: Accounts,
    /// True delays of the frames of each end, by timestamp: network, and mouth to ear.
    truth: [HashMap<u32, [Duration; 2]>; 2],
    at: Duration,
    /// Number of far records that were compared with the true delays.
    compared: usize,
}

const OFFSET: Duration = Duration::from_millis(7_345);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A path that delays by `delay` and up to `jitter` more, and loses one in twenty.
fn path(delay: u64, jitter: u64, seed: u64) -> Link<InFlight> {
    let conditions = Conditions {
        jitter: ms(jitter),
        loss: Loss::Random(0.05),
        ..Conditions::delayed(ms(delay))
    };
    Link::new(conditions, seed)
}

impl Hosts {
    fn new(skew_ppm: f64, asks: [bool; 2], there: (u64, u64), back: (u64, u64)) -> Self {
        let start = Clock::new().now();
        let epoch = |end: u32| start + OFFSET * end - Duration::from_secs(60);
        Self {
            start,
            skew: 1.0 + skew_ppm / 1e6,
            ends: [
                FarEnd::new(epoch(0), asks[0]),
                FarEnd::new(epoch(1), asks[1]),
            ],
            paths: [path(there.0, there.1, 11), path(back.0, back.1, 12)],
            accounts: Accounts::new(),
            truth: [HashMap::new(), HashMap::new()],
            at: Duration::ZERO,
            compared: 0,
        }
    }

    /// Clock of host `end` at true time `at`.
    fn clock(&self, end: usize, at: Duration) -> Instant {
        match end {
            0 => self.start + at,
            _ => self.start + OFFSET + at.mul_f64(self.skew),
        }
    }

    fn run(&mut self, time: Duration) {
        let until = self.at + time;
        let mut number = 0;
        while self.at < until {
            if self.at.as_millis().is_multiple_of(FRAME.as_millis()) {
                self.speak(0, number);
                self.speak(1, number);
                number += 1;
            }
            self.talk(0);
            self.talk(1);
            self.arrivals(0);
            self.arrivals(1);
            let now = self.clock(0, self.at);
            while let Some(remote) = self.ends[0].poll_remote(now) {
                self.compare(&remote);
                self.accounts.record_remote(&remote);
            }
            self.at += STEP;
        }
    }

    /// End `end` sends frame `number`, which was captured 13 ms ago.
    fn speak(&mut self, end: usize, number: u64) {
        let stamp = |before: u64| self.clock(end, self.at + ms(40) - ms(before));
        let spoken = SendStamps {
            timestamp: number * 480,
            duration: FRAME,
            captured: stamp(13),
            delivered: stamp(3),
            framed: stamp(2),
            preprocessed: stamp(1),
            encode_began: stamp(1),
            encoded: stamp(0),
            enqueued: None,
            paced: None,
            handed_over: None,
            dequeued: None,
            sent: Some(stamp(0)),
            signal: SignalDelay::default(),
            encoded_something: true,
        };
        self.record(end, &Record::Sent(SSRCS[end], spoken));
        let sent = self.start + self.at + ms(40);
        let fate = self.paths[end].send(sent, 100, InFlight::Voice(number));
        if let SendOutcome::Arrives(at) = fate {
            let network = at - sent;
            let whole = ms(13) + network + ms(30);
            self.truth[end].insert(number as u32 * 480, [network, whole]);
        }
    }

    /// End `end` plays frame `number`, which arrived at true time `at`, 30 ms later.
    fn deliver(&mut self, end: usize, number: u64, at: Duration) {
        let stamp = |after: u64| self.clock(end, at + ms(after));
        let heard = PlayoutStamps {
            ssrc: SSRCS[1 - end],
            timestamp: number * 480,
            sequence: Some(number as u16),
            arrived: stamp(0),
            opened: stamp(0),
            inserted: stamp(0),
            pulled: stamp(20),
            decode: Duration::ZERO,
            mix: Duration::ZERO,
            resample: Duration::ZERO,
            called: stamp(20),
            played: stamp(30),
            operation: Operation::Normal,
            signal: SignalDelay::default(),
        };
        self.record(end, &Record::Played(heard));
    }

    fn record(&mut self, end: usize, record: &Record) {
        let now = self.clock(end, self.at);
        self.ends[end].push(record, now);
        match record {
            _ if end == 1 => {}
            Record::Sent(ssrc, it) => self.accounts.sent.record_sent(*ssrc, *it, None),
            Record::Played(it) => self.accounts.received.record_played(*it, None),
            _ => {}
        }
    }

    /// Sends the messages of end `end`; those of the reliable channel are retransmitted until
    /// they arrive.
    fn talk(&mut self, end: usize) {
        let now = self.clock(end, self.at);
        let sent = self.start + self.at + ms(40);
        while let Some(message) = self.ends[end].poll_clock(now) {
            self.paths[end].send(sent, 100, InFlight::Message(Channel::Clock, message));
        }
        while let Some(message) = self.ends[end].poll_records(now) {
            let again = || InFlight::Message(Channel::Records, message.clone());
            while self.paths[end].send(sent, 100, again()) == SendOutcome::Lost {}
        }
    }

    /// Packets that were sent 40 ms ahead arrive by then: voices and messages share a path whose
    /// time does not go back.
    fn arrivals(&mut self, from: usize) {
        let now = self.start + self.at + ms(40);
        while let Some(arrival) = self.paths[from].poll(now) {
            let at = arrival.at - self.start;
            match arrival.datagram {
                InFlight::Voice(number) => self.deliver(1 - from, number, at),
                InFlight::Message(channel, message) => {
                    let arrived = self.clock(1 - from, at - ms(40));
                    // An answer that arrives after the last request was given up is refused.
                    let _ = self.ends[1 - from].receive(channel, &message, arrived);
                }
            }
        }
    }

    /// Checks that a far record is within its error of the true time.
    fn compare(&mut self, remote: &far::RemoteRecord) {
        let Record::Played(heard) = remote.record else {
            return;
        };
        let number = heard.timestamp / 480;
        let truth = self.truth[0][&(heard.timestamp as u32)][0];
        let arrived = self.start + FRAME * number as u32 + ms(40) + truth;
        let off = arrived.max(heard.arrived) - arrived.min(heard.arrived);
        assert!(off <= remote.error, "{off:?} off, {:?} told", remote.error);
        self.compared += 1;
    }

    fn finish(mut self) -> (TwoWay, [HashMap<u32, [Duration; 2]>; 2], usize) {
        let now = self.clock(0, self.at);
        self.ends[0].flush();
        while let Some(remote) = self.ends[0].poll_remote(now) {
            self.compare(&remote);
            self.accounts.record_remote(&remote);
        }
        let figures = Figures {
            far: Some(self.ends[0].report()),
            ..Figures::default()
        };
        let reports = self.accounts.finish(&figures, "a test");
        (reports, self.truth, self.compared)
    }
}

#[test]
fn true_delays_lie_within_the_bar_of_a_skewed_far_clock_and_uneven_ways() {
    for (skew_ppm, there, back) in [
        (200.0, (15, 40), (45, 8)),
        (-200.0, (15, 40), (45, 8)),
        (-200.0, (60, 3), (2, 25)),
    ] {
        let mut hosts = Hosts::new(skew_ppm, [true, false], there, back);
        hosts.run(Duration::from_secs(40));
        let (reports, truth, compared) = hosts.finish();
        assert!(compared > 3_000, "{compared}");
        let [said, heard] = reports.directions.as_slice() else {
            panic!("{} directions", reports.directions.len());
        };
        let half_round_trip = f64::midpoint(f64::from(there.0 as u32), f64::from(back.0 as u32));
        for (report, truth) in [said, heard].into_iter().zip(&truth) {
            assert!(report.frames.len() > 200);
            for frame in &report.frames {
                let error = frame.error_ms.expect("two clocks");
                let [network, whole] = truth[&frame.timestamp];
                let told = frame.stages_ms.get(Stage::Network).expect("joined") as f64 / 1e6;
                let off = (told - network.as_secs_f64() * 1e3).abs();
                assert!(off <= error, "{off} ms off, {frame:?}");
                let off = (frame.mouth_to_ear_ms - whole.as_secs_f64() * 1e3).abs();
                assert!(off <= error, "{off} ms off, {frame:?}");
                let sum = frame.stages_ms.sum() as f64 / 1e6;
                assert!((sum - frame.mouth_to_ear_ms).abs() < 1e-6, "{frame:?}");
            }
            let table = report.table(Stage::Network).expect("joined");
            let error = table.error_ms.expect("two clocks");
            // No exchange can be more exact than half of the round trip, and this one is not much
            // worse: the skew is unknown in the first seconds.
            assert!(
                error >= half_round_trip && error < half_round_trip + 30.0,
                "{error}"
            );
            let errors = table.row_errors_ms.as_ref().expect("two clocks");
            assert_eq!(errors.len(), table.rows.len());
            for (row, error) in table.rows.iter().zip(errors) {
                assert_eq!(row.1 > 0, error.is_some(), "{table:?}");
            }
            // One packet in twenty is lost.
            let share = table.lost as f64 / (table.lost + table.count) as f64;
            assert!((0.03..0.07).contains(&share), "{share}");
            assert_eq!(table.unmatched, 0);
        }
    }
}

/// Without the errors' bound, the delays differ from the true ones by far more than stamps do, so
/// that the test above can fail.
#[test]
fn uneven_ways_shift_delays_by_half_of_what_they_differ() {
    let mut hosts = Hosts::new(0.0, [true, false], (60, 0), (10, 0));
    hosts.run(Duration::from_secs(20));
    let (reports, truth, _) = hosts.finish();
    let frame = reports.directions[0].frames.last().expect("joined");
    let told = frame.stages_ms.get(Stage::Network).expect("joined") as f64 / 1e6;
    let off = truth[0][&frame.timestamp][0].as_secs_f64() * 1e3 - told;
    assert!((off - 25.0).abs() < 1.5, "{off}");
}

#[test]
fn a_far_end_that_tells_nothing_leaves_tables_of_one_end_and_says_why() {
    let mut hosts = Hosts::new(0.0, [false, false], (20, 0), (20, 0));
    hosts.run(Duration::from_secs(2));
    assert_eq!(hosts.compared, 0);
    let cases = [
        (None, "no channel for stamps"),
        (Some(FarReport::default()), "sends no stamps"),
        (
            Some(FarReport {
                is_there: true,
                ..FarReport::default()
            }),
            "did not answer clock requests",
        ),
    ];
    let Hosts { accounts, .. } = hosts;
    let mut accounts = Some(accounts);
    for (far, wanted) in cases {
        let (notes, is_told) = notes(far.as_ref());
        assert!(!is_told && notes[0].contains(wanted), "{notes:?}");
        let Some(accounts) = accounts.take() else {
            continue;
        };
        let figures = Figures {
            far,
            ..Figures::default()
        };
        let reports = accounts.finish(&figures, "a browser");
        let [said, heard] = reports.directions.as_slice() else {
            panic!("{} directions", reports.directions.len());
        };
        let count = |report: &Report, stage| report.table(stage).map_or(0, |it| it.count);
        assert_eq!(count(said, Stage::Send), 200);
        assert!(count(heard, Stage::JitterBuffer) > 150);
        for report in [said, heard] {
            assert!(report.table(Stage::Network).is_none());
            assert!(report.table(Stage::MouthToEar).is_none());
            assert!(report.waterfall.is_empty());
            assert!(report.to_text(false).contains("not the network"));
        }
    }
}

#[test]
fn both_directions_are_in_every_form_and_told_apart() {
    let mut hosts = Hosts::new(50.0, [true, true], (20, 5), (20, 5));
    hosts.run(Duration::from_secs(12));
    let (reports, ..) = hosts.finish();
    let json: Value = serde_json::from_str(&reports.to_json()).expect("JSON");
    assert_eq!(json["direction"], "said");
    assert_eq!(json["back"]["direction"], "heard");
    for report in [&json, &json["back"]] {
        let stages = report["stages"].as_array().expect("an array");
        let network = stages.iter().find(|it| it["stage"] == "network");
        let network = network.expect("joined");
        assert!(network["error_ms"].as_f64() > Some(10.0), "{network}");
        let errors = network["row_errors_ms"].as_array().map(Vec::len);
        assert_eq!(errors, network["rows"].as_array().map(Vec::len));
        assert!(report["frames"][0]["error_ms"].is_number());
        let steps = report["waterfall"].as_array().expect("an array");
        let step = steps.iter().find(|it| it["stage"] == "network");
        assert!(step.is_some_and(|it| it["error_ms"].is_number()));
    }
    let csv = reports.to_csv();
    let columns = |line: &str| line.split(',').count();
    assert!(csv.lines().all(|line| columns(line) == 13), "{csv}");
    let lines = |end: &str| csv.lines().filter(|it| it.ends_with(end)).count();
    assert!(lines(",said") > 20 && lines(",heard") > 20, "{csv}");
    assert_eq!(lines(",direction"), 1);
    let text = reports.to_text(false);
    assert!(text.contains("Audio sent from here to a test\n"), "{text}");
    assert!(text.contains("Audio received here from a test\n"), "{text}");
    assert!(text.contains("|Error, ms           |"), "{text}");
    assert!(text.contains("|± "), "{text}");
    assert!(
        text.contains("note: the other end's clock: known to ± "),
        "{text}"
    );
    let drawn = reports.to_svg();
    crate::plot::assert_well_formed(&drawn);
    assert!(drawn.matches("Mean delays of a frame").count() == 2 && drawn.contains(" ± "));
}
