//! The curves of each controller on two paths, kept as text beside the code: a change of an
//! algorithm shows as a readable difference. Columns: milliseconds, window and bytes in
//! flight, pacing rate in kbit/s, the longest queueing delay of the last tenth of a second
//! in ms, and packets lost so far; on the mobile uplink also the rate that an encoder is
//! told in kbit/s, and what the controller has concluded: `s` slow start, `p` a policer,
//! `c` others that fill the queue, `h` held back, `a` limited by the application.
//!
//! After an intended change: `UPDATE_CURVES=1 cargo test -p glassline-congestion`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::Algorithm;
use crate::bottleneck::{Bottleneck, PLAIN, Path, Policer, Sender, TrafficSource};

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
    text
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
        flow.controller().window(),
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
        ]
    });
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
