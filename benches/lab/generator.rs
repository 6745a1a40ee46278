//! Viewers in a process of their own.
//!
//! The parent reads clocks when this process prints a line: `begin`, `end {…}`.

use std::thread;
use std::time::{Duration, Instant};

use glassline_client::viewers::{Endpoint, Id, Join, Options, Pool, State, Wait};
use glassline_lab::viewers::RECEIVE_BUFFER_BYTES;
use serde_json::{Value, json};

use crate::report::quantile;

const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Arguments `URL ROUNDS VIEWERS`: in each round the viewers join, and leave as soon as all of
/// them have keys. Two more rounds before the measured ones warm up.
pub(crate) fn join_and_leave(arguments: &[String]) -> Result<(), String> {
    let [url, rounds, viewers] = arguments else {
        return Err("URL ROUNDS VIEWERS".to_owned());
    };
    let (rounds, viewers): (usize, usize) = (number(rounds)?, number(viewers)?);
    let endpoint = Endpoint::parse(url).map_err(|error| error.to_string())?;
    let pool = pool()?;
    let (mut connects, mut joins) = (Vec::new(), Vec::new());
    for round in 0..rounds + 2 {
        if round == 2 {
            thread::sleep(Duration::from_secs(1));
            println!("begin");
            (connects, joins) = (Vec::new(), Vec::new());
        }
        let ids: Vec<Id> = (0..viewers)
            .map(|_| pool.join(Join::new(endpoint.clone()).counting()))
            .collect();
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
    // Time for the goodbyes to arrive.
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

fn pool() -> Result<Pool, String> {
    let options = Options {
        wait: Wait::Events,
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
