//! The curves of each controller on three paths, kept as text beside the code: a change of an
//! algorithm shows as a readable difference. Columns: milliseconds, window and bytes in
//! flight, pacing rate in kbit/s, the longest queueing delay of the last tenth of a second
//! in ms, and packets lost so far; on the mobile uplink also the rate that an encoder is
//! told in kbit/s, and what the controller has concluded: `s` slow start, `p` a policer,
//! `c` others that fill the queue, `h` held back, `a` limited by the application. A live
//! encoder has two columns before these: its target in kbit/s, and the longest time by which
//! what it made was late, in ms.
//!
//! After an intended change: `UPDATE_CURVES=1 cargo test -p glassline-congestion`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::Algorithm;
use crate::adaptation::Rule;
use crate::bottleneck::{Bottleneck, PLAIN, Path, Policer, Sender, TrafficSource};
use crate::live::Stream;

/// A home's uplink: 5 Mbit/s, 40 ms, 200 ms of queue.
const PATH: Bottleneck = Bottleneck {
    mbps: 5.0,
    round_trip: Duration::from_millis(40),
    queue_bytes: 125_000,
    loss: 0.0,
    policer: None,
    ..PLAIN
};

/// A phone's uplink: 4 Mbit/s, 60 ms, 300 ms of queue, uneven delays, and acknowledgements
/// that come together every 5 ms.
const MOBILE: Bottleneck = Bottleneck {
    mbps: 4.0,
    round_trip: Duration::from_millis(60),
    queue_bytes: 150_000,
    jitter: Duration::from_millis(6),
    lumps: Duration::from_millis(5),
    ..PLAIN
};

/// A policer that drops what is above 2 Mbit/s.
const POLICER: Policer = Policer {
    mbps: 2.0,
    bucket_bytes: 20_000.0,
};

/// Draws bulk for ten seconds: 2 Mbit/s for five seconds from second four on, and some loss
/// in the last two.
fn draw(algorithm: Algorithm) -> String {
    let mut path = Path::new(PATH, 7);
    let mut senders = [Sender::bulk(algorithm)];
    let mut text = String::from("    ms   window   flight     kbps  queue  lost\n");
    for tick in 1..=100 {
        path.bottleneck.mbps = if (40..90).contains(&tick) { 2.0 } else { 5.0 };
        path.bottleneck.loss = if tick > 80 { 0.02 } else { 0.0 };
        path.run(&mut senders, Duration::from_millis(100));
        let [sender] = &mut senders;
        row(&mut text, tick, sender);
        text.push('\n');
    }
    text
}

/// Draws 24 seconds of a phone: alone, behind a policer, beside CUBIC, with loss in bursts
/// of which one was none, with a mark, with larger and smaller datagrams, with 1.5 Mbit/s to send, and after three seconds
/// without any way through.
fn draw_mobile(algorithm: Algorithm) -> String {
    let mut path = Path::new(MOBILE, 11);
    let mut senders = [
        Sender::bulk(algorithm),
        Sender::bulk(Algorithm::Cubic).active(7.0, 12.0),
    ];
    let mut text = String::from("    ms   window   flight     kbps  queue  lost     told  state\n");
    for tick in 1..=240 {
        path.bottleneck.policer = (25..60).contains(&tick).then_some(POLICER);
        path.bottleneck.loss = match tick {
            130..150 => 0.02,
            200..230 => 1.0,
            _ => 0.0,
        };
        path.bottleneck.loss_burst = if tick < 200 { 3.0 } else { 1.0 };
        match tick {
            145 => senders[0].flow.on_spurious_loss(path.now()),
            155 => senders[0].flow.on_marked(path.now()),
            160 => senders[0].flow.on_mtu(1_400),
            165 => senders[0].flow.on_mtu(1_100),
            170 => senders[0].source = TrafficSource::Even(1.5),
            _ => {}
        }
        path.run(&mut senders, Duration::from_millis(100));
        let sender = &mut senders[0];
        row(&mut text, tick, sender);
        conclusions(&mut text, sender);
    }
    text
}

/// Draws 48 seconds of a camera whose encoder follows `rule`: a wide path, a narrow one, a
/// policer, uneven delays, CUBIC beside it, two seconds without any way through, and the wide
/// path again.
fn draw_live(algorithm: Algorithm, rule: Rule) -> String {
    let mut stream = Stream::new(algorithm, rule, PATH);
    stream
        .senders
        .push(Sender::bulk(Algorithm::Cubic).active(26.0, 36.0));
    let mut text = String::from(
        "target   late      ms   window   flight     kbps  queue  lost     told  state\n",
    );
    for tick in 1..=480 {
        let path = &mut stream.path.bottleneck;
        path.mbps = match tick {
            80..140 => 1.2,
            200..360 => 3.0,
            _ => 8.0,
        };
        path.policer = (140..200).contains(&tick).then_some(POLICER);
        path.jitter = Duration::from_millis(if (200..260).contains(&tick) { 20 } else { 0 });
        path.lumps = Duration::from_millis(if (200..260).contains(&tick) { 10 } else { 0 });
        path.loss = if (360..380).contains(&tick) { 1.0 } else { 0.0 };
        let target = stream.film(0.1) * 1e3;
        write!(text, "{target:6.0}  {:5.0}  ", stream.worst * 1e3).expect("a string takes all");
        let sender = &mut stream.senders[0];
        row(&mut text, tick, sender);
        conclusions(&mut text, sender);
    }
    text
}

/// Writes what an encoder is told and what the controller has concluded, and ends the line.
fn conclusions(text: &mut String, sender: &Sender) {
    let flow = &sender.flow;
    let told = flow.deliverable_rate().map_or(0, |rate| rate.bps() / 1000);
    let model = flow.controller().path_model();
    let states = [
        ('s', flow.controller().is_starting()),
        ('p', model.policed),
        ('c', model.competing),
        ('h', flow.controller().is_holding_back()),
        ('a', flow.is_app_limited()),
    ];
    write!(text, "  {told:7}  ").expect("a string takes all");
    text.extend(states.map(|(name, holds)| if holds { name } else { '-' }));
    text.push('\n');
}

/// Writes the state of a sender after `tick` tenths of a second, without the end of the
/// line.
fn row(text: &mut String, tick: u64, sender: &mut Sender) {
    let queue = sender.queued.drain(..).max().unwrap_or_default();
    let flow = &sender.flow;
    let pacing = flow.pacing_rate().map_or(0, |rate| rate.bps() / 1000);
    write!(
        text,
        "{:6}  {:7}  {:7}  {pacing:7}  {:5}  {:4}",
        tick * 100,
        flow.window(),
        flow.in_flight(),
        queue.as_millis(),
        flow.totals().lost / 1200,
    )
    .expect("a string takes all");
}

#[test]
fn the_curves_are_those_beside_the_code() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("curves");
    let update = std::env::var_os("UPDATE_CURVES").is_some();
    let mut changed = Vec::new();
    let drawn = Algorithm::ALL.into_iter().flat_map(|algorithm| {
        [
            (format!("{algorithm}"), draw(algorithm)),
            (format!("{algorithm}-mobile"), draw_mobile(algorithm)),
            (
                format!("{algorithm}-live"),
                draw_live(algorithm, Rule::Coupled),
            ),
        ]
    });
    let study = draw_live(Algorithm::Cubic, Rule::Study);
    let drawn = drawn.chain([("cubic-live-study".to_owned(), study)]);
    for (name, drawn) in drawn {
        let file = folder.join(format!("{name}.txt"));
        if update {
            std::fs::create_dir_all(&folder).expect("a folder");
            std::fs::write(&file, &drawn).expect("written");
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        let differs = kept.lines().zip(drawn.lines()).find(|(a, b)| a != b);
        if let Some((before, after)) = differs {
            changed.push(format!("{name}\n  - {before}\n  + {after}"));
        } else if kept.lines().count() != drawn.lines().count() {
            changed.push(format!("{name}: no curve in {}", file.display()));
        }
    }
    assert!(
        changed.is_empty(),
        "curves changed (UPDATE_CURVES=1 keeps the new ones): {changed:#?}"
    );
}
