//! The far end's records: any messages on both channels, at any times. Checks that nothing
//! panics, that memory is bounded, and that records which were read can be written and read
//! again.

use std::time::Duration;

use glassline_sim::Clock;
use glassline_voice::far::wire::{Message, Unwritten, Writer, parse};
use glassline_voice::far::{Channel, FarEnd};

pub(crate) fn run(bytes: &[u8]) {
    again(bytes);
    // The same as a run of messages: a channel and a length each.
    let start = Clock::new().now();
    let mut now = start + Duration::from_secs(10);
    let mut far = FarEnd::new(start, true);
    let mut rest = bytes;
    while let Some((&first, after)) = rest.split_first() {
        let (message, after) = after.split_at(after.len().min(usize::from(first >> 1)));
        rest = after;
        let channel = match first & 1 {
            0 => Channel::Records,
            _ => Channel::Clock,
        };
        // What is refused is counted.
        let _ = far.receive(channel, message, now);
        while let Some(sent) = far.poll_records(now) {
            assert!(parse(&sent).is_ok());
        }
        while far.poll_clock(now).is_some() {}
        now += Duration::from_millis(u64::from(first));
        while let Some(remote) = far.poll_remote(now) {
            far.push(&remote.record, now);
        }
    }
    far.flush();
    while far.poll_remote(now).is_some() {}
}

fn again(bytes: &[u8]) {
    let Ok(Message::Records { dropped, records }) = parse(bytes) else {
        return;
    };
    let mut written = Vec::new();
    let mut writer = Writer::new(dropped, 0);
    for record in records {
        match writer.push(&record) {
            Ok(()) => written.push(record),
            Err(Unwritten::Full) => break,
            Err(Unwritten::OutOfRange) => panic!("{record:?} was read"),
        }
    }
    let read = parse(&writer.finish());
    let records = written;
    assert_eq!(read, Ok(Message::Records { dropped, records }));
}
