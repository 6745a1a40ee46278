//! Pages' reports of their frames: any JSON is refused by field, or joins with the server's stamps so
//! that each frame is counted once and each delay is a number.

use std::time::{Duration, Instant};

use glassline_hub::StreamName;
use glassline_latency::FrameCode;
use glassline_latency::{FrameStamps, LatencyRegistry, Origins, Report, join};
use glassline_runtime::{Clock, SessionId};

pub(crate) fn run(bytes: &[u8]) {
    let Some((&known, json)) = bytes.split_first() else {
        return;
    };
    let Ok(report) = serde_json::from_slice::<Report>(json) else {
        return;
    };
    if let Err(error) = report.check() {
        return assert!(!error.to_string().is_empty());
    }
    let clock = Clock::start();
    let now = Instant::now() + Duration::from_secs(1_000);
    let ms = |ms: u64| now + Duration::from_millis(ms);
    let timestamps = report.timestamps();
    assert_eq!(timestamps.len(), report.frames.len());
    let mut stamps: Vec<_> = timestamps
        .iter()
        .enumerate()
        .map(|(place, &timestamp)| {
            (place as u8 & known == 0).then(|| FrameStamps {
                timestamp,
                origin: ms(0),
                published: ms(1),
                relay: None,
                read_at: ms(2),
                paced: ms(3),
                sent: ms(4),
            })
        })
        .collect();
    // A shard may answer for fewer frames than it was asked.
    if known & 0x80 != 0 {
        stamps.truncate(stamps.len() / 2);
    }
    let code = FrameCode {
        fps: 30,
        frames: 300,
        epoch: now,
    };
    let joined = join(&report, &stamps, Origins::drawn(&code), &clock);
    let frames = report.frames.len() as u64;
    let (registry, session) = (LatencyRegistry::default(), SessionId::new("page"));
    let name = StreamName::parse("demo").expect("a good name");
    let view = registry.report(&name, &session, &joined, ms(10));
    assert!(view.frames.len() as u64 <= frames);
    let text = serde_json::to_string(&view).expect("plain data");
    serde_json::from_str::<serde_json::Value>(&text).expect("what a page reads");
}
