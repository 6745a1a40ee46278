//! Waiting for a source that comes because somebody asks.

use std::sync::Arc;
use std::time::Duration;

use glassline_hub::{Demand, Prospect, Stream};

use super::task_waker::TaskWaker;

/// Longest time that a request waits for a source: a camera has 10 s to accept a connection, but
/// players give up about then.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether a request for `stream` should wait with [`await_tracks`]: the stream has no tracks yet,
/// and will have some because somebody asks.
pub fn may_come(stream: &Stream) -> bool {
    stream.prospect() != Prospect::None && stream.tracks().is_empty()
}

/// Makes the stream needed, and waits until it has tracks, if they come because somebody asks; until
/// its source has failed with nothing in its place; or for 10 s. The caller reads from the stream
/// which of them it was, and holds the demand until it has a receiver.
pub async fn await_tracks(stream: &Arc<Stream>) -> Demand {
    // Subscribers are woken by units, and by each failure.
    let arrival = Arc::new(TaskWaker::default());
    let failures = stream.failures();
    let subscription = stream.subscribe(Arc::clone(&arrival) as _);
    let has_failed = || stream.prospect() == Prospect::OnDemand && stream.failures() > failures;
    let waiting = async {
        while may_come(stream) && !has_failed() {
            arrival.woken().await;
        }
    };
    let _ = tokio::time::timeout(PATIENCE, waiting).await;
    let demand = stream.demand();
    drop(subscription);
    demand
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use glassline_hub::{Limits, State, StreamName};
    use glassline_media::{Codec, MediaTime, Stamps, Track, TrackIndex, UnitBuilder};

    use super::*;

    fn stream(prospect: Prospect) -> Arc<Stream> {
        let name = StreamName::parse("cam").expect("a name");
        let stream = Stream::unlisted(name, Limits::default());
        stream.set_prospect(prospect);
        stream
    }

    fn down() -> State {
        State::Down {
            detail: "no route".to_owned(),
        }
    }

    #[tokio::test]
    async fn a_stream_without_prospect_is_not_waited_for() {
        let stream = stream(Prospect::None);
        assert!(!may_come(&stream));
        assert!(await_tracks(&stream).await.stream().is_demanded());
        assert!(!stream.is_demanded());
    }

    #[tokio::test]
    async fn the_wait_ends_with_the_first_unit_or_the_next_failure() {
        let stream = stream(Prospect::OnDemand);
        stream.set_state(down());
        let waits = tokio::spawn({
            let stream = Arc::clone(&stream);
            async move { drop(await_tracks(&stream).await) }
        });
        while !stream.is_demanded() {
            tokio::task::yield_now().await;
        }
        assert!(!waits.is_finished(), "the failure was before");
        stream.set_state(down());
        waits.await.expect("no panic");

        let waits = tokio::spawn({
            let stream = Arc::clone(&stream);
            async move { drop(await_tracks(&stream).await) }
        });
        while !stream.is_demanded() {
            tokio::task::yield_now().await;
        }
        let now = Instant::now();
        let publisher = stream.publish(vec![Track::audio(Codec::Opus, 2)], now);
        let mut builder = UnitBuilder::default();
        builder.push(b"an Opus packet");
        let unit = builder.build(TrackIndex(0), MediaTime::ZERO, true, Stamps::arrived(now));
        let pushed = publisher.expect("free").push(unit.expect("a packet"), now);
        pushed.expect("announced");
        waits.await.expect("no panic");
        assert!(!may_come(&stream));
    }

    #[tokio::test]
    async fn a_failure_does_not_end_the_wait_for_what_stands_in() {
        let stream = stream(Prospect::StandIn);
        let waits = tokio::spawn({
            let stream = Arc::clone(&stream);
            async move { drop(await_tracks(&stream).await) }
        });
        while !stream.is_demanded() {
            tokio::task::yield_now().await;
        }
        stream.set_state(down());
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(!waits.is_finished());
        waits.abort();
    }
}
