//! The watch of all streams: always read, and made anew with growing pauses when it breaks.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use glassline_cluster::Key;
use glassline_cluster::engine::{Answered, Incoming};
use tokio::time::{Instant, timeout};

use crate::backoff::Backoff;
use crate::bucket::STREAMS;
use crate::link::SessionLink;
use crate::queue::Pledge;
use crate::store::{Consumer, Delivered, HEARTBEAT};

/// Pauses before a watch is made anew. A fleet that did so at once left hundreds of consumers.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// A watch that lasted so long begins with the least pause again.
const LASTING: Duration = Duration::from_secs(60);

/// Silence after which a watch is broken.
const SILENCE: Duration = HEARTBEAT.saturating_mul(3);

/// Most keys of which the watch remembers that they were there.
const KNOWN_MAX: usize = 200_000;

/// Watches all streams until the task is ended. `pledge` is answered when the first watch stands.
pub(crate) async fn run(link: Arc<SessionLink>, pledge: Pledge) {
    let mut pledge = Some(pledge);
    let mut backoff = Backoff::new(PAUSE_MIN, PAUSE_MAX);
    let mut known = HashSet::new();
    loop {
        let began = Instant::now();
        let end = watch_once(&link, &mut pledge, &mut known).await;
        tracing::debug!(?end, "the watch of streams ended");
        if let Some(pledge) = pledge.take() {
            // The watch did not stand within the time of a request; it is tried on.
            pledge.answer(Ok(Answered::Watching));
        }
        if end == End::Gone {
            link.suspect_buckets();
        }
        if began.elapsed() >= LASTING || end == End::Stale {
            backoff.reset();
        }
        let pause = backoff.next(&mut rand::rng());
        tokio::time::sleep(pause).await;
    }
}

/// The reason why a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The bucket, or the servers that have it, may be gone.
    Gone,
    /// Heartbeats did not come, a message is missing, or the connection was lost.
    Broken,
    /// The core read too slowly, and missed notices that a new watch tells again.
    Stale,
}

async fn watch_once(
    link: &SessionLink,
    pledge: &mut Option<Pledge>,
    known: &mut HashSet<Key>,
) -> End {
    let opening = Consumer::open(&link.connection, STREAMS, "s.>");
    let mut consumer = match opening.await {
        Ok(consumer) => consumer,
        Err(failure) if failure.is_no_stream() => return End::Gone,
        Err(_) => return End::Broken,
    };
    if let Some(pledge) = pledge.take() {
        pledge.answer(Ok(Answered::Watching));
    }
    // Keys that were there before and that the first records do not name are gone.
    let mut missing = std::mem::take(known);
    let mut is_whole = false;
    if consumer.pending == 0 {
        tell_gone(link, &mut missing);
        is_whole = true;
    }
    let end = loop {
        let next = tokio::select! {
            next = timeout(SILENCE, consumer.next()) => next,
            () = link.queue.emptied.notified() => break End::Stale,
        };
        match next {
            Ok(Some(Delivered::Record { delivery, record })) => {
                if let Some((key, entry)) = record {
                    missing.remove(&key);
                    match &entry {
                        Some(_) if known.len() < KNOWN_MAX => known.insert(key.clone()),
                        Some(_) => false,
                        None => known.remove(&key),
                    };
                    link.notice(Incoming::Changed { key, entry });
                }
                if delivery.pending == 0 && !is_whole {
                    tell_gone(link, &mut missing);
                    is_whole = true;
                }
            }
            Ok(Some(Delivered::Heartbeat)) => {}
            Ok(Some(Delivered::Gap) | None) | Err(_) => break End::Broken,
        }
    };
    // What was not told of the former watch is compared with the next one.
    known.extend(missing);
    consumer.close().await;
    end
}

fn tell_gone(link: &SessionLink, missing: &mut HashSet<Key>) {
    for key in missing.drain() {
        link.notice(Incoming::Missing { key });
    }
}
