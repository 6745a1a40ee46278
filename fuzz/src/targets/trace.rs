//! Mahimahi's traces: any text either fails with the line at fault or is a schedule that
//! can drive a link, and whose written form means the same.

use std::sync::Arc;
use std::time::Duration;

use glassline_sim::{Capacity, Clock, Conditions, Link, Schedule, SendOutcome};

pub(crate) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let schedule = match Schedule::parse(&text) {
        Ok(schedule) => schedule,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let times = schedule.opportunities();
    assert!(times.is_sorted() && schedule.period() > Duration::ZERO);
    let lines: Vec<_> = times.iter().map(ToString::to_string).collect();
    assert_eq!(Schedule::parse(&lines.join("\n")).as_ref(), Ok(&schedule));
    drive(schedule, bytes);
}

/// Sends datagrams whose sizes and pauses are the text's bytes.
fn drive(schedule: Schedule, bytes: &[u8]) {
    let period = schedule.period();
    let offset = period.mul_f64(f64::from(bytes[0]) / 256.0);
    let schedule = Arc::new(schedule);
    let capacity = Capacity::Trace { schedule, offset };
    let conditions = Conditions {
        capacity,
        ..Conditions::default()
    };
    let mut now = Clock::new().now();
    let mut link = Link::new(conditions, 0);
    let mut last = now;
    for &byte in bytes.iter().take(200) {
        now += Duration::from_micros(100) * u32::from(byte);
        let SendOutcome::Arrives(at) = link.send(now, usize::from(byte) * 12, byte) else {
            panic!("nothing here drops");
        };
        assert!(at >= now && at >= last);
        last = at;
    }
    assert_eq!(
        std::iter::from_fn(|| link.poll(last)).count() as u64,
        link.counts().sent
    );
}
