//! Viewers in a process of their own.
//!
//! The parent reads clocks when a line arrives: `joined {…}`, `begin`, `end {…}`.

use std::thread;
use std::time::{Duration, Instant};

use glassline_client::viewers::{Flow, Id, Mode, Options, Pool, State, Viewer, Wait};
use serde_json::{Value, json};

use crate::report::quantile;

/// How often viewers look for datagrams under load: the server does not pay for
/// waking them.
pub(crate) const SWEEP: Duration = Duration::from_millis(20);

/// A keyframe of a few hundred packets, in the kernel's accounting.
pub(crate) const RECEIVE_BUFFER_BYTES: usize = 1 << 20;

/// Viewers that join at a time.
const JOINING: usize = 25;

const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// `URL VIEWERS WARM-UP-SECONDS SECONDS`: joins, watches, tells what arrived.
pub(crate) fn watch(arguments: &[String]) -> Result<(), String> {
    let [url, viewers, warm_up, seconds] = arguments else {
        return Err("URL VIEWERS WARM-UP-SECONDS SECONDS".to_owned());
    };
    let count: usize = number(viewers)?;
    let pool = pool(Wait::Sweep(SWEEP))?;
    for start in (0..count).step_by(JOINING) {
        for _ in start..count.min(start + JOINING) {
            pool.join(url).map_err(|error| error.to_string())?;
        }
        wait_for(&pool, State::Playing)?;
    }
    let joins: Vec<f64> = pool
        .snapshot()
        .iter()
        .filter_map(|viewer| Some(viewer.join_time?.as_secs_f64() * 1e3))
        .collect();
    println!("joined {}", quantiles(&joins));
    thread::sleep(Duration::from_secs(number(warm_up)?));
    let (before, began) = (pool.snapshot(), Instant::now());
    println!("begin");
    thread::sleep(Duration::from_secs(number(seconds)?));
    let (after, took) = (pool.snapshot(), began.elapsed());
    println!("end {}", account(&before, &after, took));
    // The parent reads our clocks; it kills us when it is done.
    thread::sleep(Duration::from_secs(60));
    Ok(())
}

/// `URL ROUNDS VIEWERS`: so many join, and leave as soon as all have keys, round
/// after round; two rounds before the measured ones warm up.
pub(crate) fn join_and_leave(arguments: &[String]) -> Result<(), String> {
    let [url, rounds, viewers] = arguments else {
        return Err("URL ROUNDS VIEWERS".to_owned());
    };
    let (rounds, viewers): (usize, usize) = (number(rounds)?, number(viewers)?);
    let pool = pool(Wait::Events)?;
    let (mut connects, mut joins) = (Vec::new(), Vec::new());
    for round in 0..rounds + 2 {
        if round == 2 {
            thread::sleep(Duration::from_secs(1));
            println!("begin");
            (connects, joins) = (Vec::new(), Vec::new());
        }
        let ids: Result<Vec<Id>, _> = (0..viewers).map(|_| pool.join(url)).collect();
        let ids = ids.map_err(|error| error.to_string())?;
        wait_for(&pool, State::Playing)?;
        for viewer in pool.snapshot() {
            let ms = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3);
            connects.extend(ms(viewer.connect_time));
            joins.extend(ms(viewer.join_time));
        }
        for id in ids {
            pool.leave(id);
        }
    }
    // The farewells are on their way.
    thread::sleep(Duration::from_secs(1));
    let report = json!({
        "joins": rounds * viewers,
        "connect_ms": quantiles(&connects),
        "join_ms": quantiles(&joins),
    });
    println!("end {report}");
    thread::sleep(Duration::from_secs(60));
    Ok(())
}

fn pool(wait: Wait) -> Result<Pool, String> {
    let options = Options {
        mode: Mode::Count,
        wait,
        receive_buffer: RECEIVE_BUFFER_BYTES,
        ..Options::default()
    };
    Pool::start(options).map_err(|error| error.to_string())
}

fn wait_for(pool: &Pool, state: State) -> Result<(), String> {
    let deadline = Instant::now() + JOIN_TIMEOUT;
    loop {
        let viewers = pool.snapshot();
        if let Some(reason) = viewers.iter().find_map(|viewer| viewer.failure.as_ref()) {
            return Err(format!("a viewer failed: {reason}"));
        }
        let there = viewers
            .iter()
            .filter(|viewer| viewer.state >= state)
            .count();
        if there == viewers.len() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("{there} of {} are {state:?}", viewers.len()));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// What arrived between two snapshots.
fn account(before: &[Viewer], after: &[Viewer], took: Duration) -> Value {
    let (mut expected, mut received, mut recovered, mut bytes) = (0, 0, 0, 0);
    let (mut advanced, mut kept) = (0.0, Vec::new());
    for (before, after) in before.iter().zip(after) {
        let (from, to) = (before.total(), after.total());
        expected += to.expected - from.expected;
        received += to.received - from.received;
        recovered += to.recovered - from.recovered;
        bytes += to.bytes - from.bytes;
        let media = media_time(after) - media_time(before);
        advanced += media;
        kept.push(media);
    }
    let wall = took.as_secs_f64();
    let viewers = after.len().max(1) as f64;
    let lost = (expected - received - recovered) as f64;
    let loss_ratio = lost.max(0.0) / (expected as f64).max(1.0);
    let slowest = kept.iter().copied().fold(f64::INFINITY, f64::min) / wall;
    let gaps = |quantile: fn(&Viewer) -> f64| after.iter().map(quantile).fold(0.0, f64::max);
    json!({
        "duration_s": wall,
        "packets_expected": expected,
        "packets_received": received,
        "packets_recovered": recovered,
        "bytes_received": bytes,
        "loss_ratio": loss_ratio,
        "delivered_ratio": advanced / viewers / wall * (1.0 - loss_ratio),
        "slowest_viewer_ratio": slowest,
        "gap_ms": {
            "p99": gaps(|viewer| viewer.gaps.summary().p99.as_secs_f64() * 1e3),
            "max": gaps(|viewer| viewer.gaps.summary().max.as_secs_f64() * 1e3),
        },
    })
}

fn media_time(viewer: &Viewer) -> f64 {
    let flow: Flow = match viewer.video {
        flow if flow.received > 0 => flow,
        _ => viewer.audio,
    };
    flow.media_time.as_secs_f64()
}

fn quantiles(values: &[f64]) -> Value {
    json!({
        "p50": quantile(values, 0.5),
        "p95": quantile(values, 0.95),
        "max": quantile(values, 1.0),
    })
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}
