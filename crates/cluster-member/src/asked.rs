//! The streams of other servers that this one was asked for, and how often it may be asked.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{Stream, StreamName};
use glassline_quic::moq::NodeName;
use glassline_runtime::{SourceRates, TokenBucket};

/// Time for which a name that no origin has is not asked for again.
const NEGATIVE: Duration = Duration::from_secs(2);

/// Most names that are known to be nowhere.
const NEGATIVE_MAX: usize = 1024;

/// Cold names that clients of one address may ask for: a second, and at once.
const COLD_PER_S: f64 = 5.0;
const COLD_AT_ONCE: f64 = 50.0;

/// Streams of other servers that readers over QUIC, all together, may begin to read: a second, and at
/// once. A reader may ask for every stream that is announced to it.
const READ_PER_S: f64 = 20.0;
const READ_AT_ONCE: f64 = 200.0;

/// Most streams that are searched for at the same time.
const SEARCHES_MAX: usize = 256;

/// Somebody who asks for a stream that the hub does not have.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asking<'a> {
    /// A client with this address.
    Client(IpAddr),
    /// A reader over QUIC of a stream that was announced to it.
    Reader,
    /// Servers, which are bounded by their number.
    Nodes(&'a [NodeName]),
}

/// The streams that were asked for.
#[derive(Debug)]
pub(super) struct AskedStreams {
    /// Streams that are pulled, or searched for.
    pulled: HashMap<StreamName, Pulled>,
    searches: usize,
    nowhere: HashMap<StreamName, Instant>,
    cold: SourceRates,
    read: TokenBucket,
}

#[derive(Debug)]
struct Pulled {
    stream: Arc<Stream>,
    is_live: bool,
}

impl Default for AskedStreams {
    fn default() -> Self {
        Self {
            pulled: HashMap::new(),
            searches: 0,
            nowhere: HashMap::new(),
            cold: SourceRates::new(COLD_PER_S, COLD_AT_ONCE),
            read: TokenBucket::new(READ_PER_S, READ_AT_ONCE),
        }
    }
}

impl AskedStreams {
    /// Returns the stream that is pulled, or searched for, under `name`.
    pub(super) fn stream(&self, name: &StreamName) -> Option<Arc<Stream>> {
        let pulled = self.pulled.get(name)?;
        Some(Arc::clone(&pulled.stream))
    }

    /// Returns whether a search for `name` may begin: it was not nowhere a moment ago, not too many
    /// searches run, and whoever asks has not asked too often.
    pub(super) fn may_search(
        &mut self,
        name: &StreamName,
        asking: Asking<'_>,
        now: Instant,
    ) -> bool {
        let is_nowhere = self.nowhere.get(name).is_some_and(|until| now < *until);
        let has_room = !is_nowhere && self.searches < SEARCHES_MAX;
        has_room
            && match asking {
                Asking::Client(by) => self.cold.take(by, now),
                Asking::Reader => self.read.take(now),
                Asking::Nodes(_) => true,
            }
    }

    /// Notes that the search for a stream begins.
    pub(super) fn begin(&mut self, stream: &Arc<Stream>) {
        self.searches += 1;
        self.insert(stream, false);
    }

    /// Notes that a stream has come, so that it is searched for no longer.
    pub(super) fn note_live(&mut self, name: &StreamName) {
        if let Some(pulled) = self.pulled.get_mut(name)
            && !pulled.is_live
        {
            pulled.is_live = true;
            self.searches -= 1;
        }
    }

    /// Notes that a stream that was forgotten is pulled again.
    pub(super) fn list_again(&mut self, stream: &Arc<Stream>) {
        self.insert(stream, true);
    }

    fn insert(&mut self, stream: &Arc<Stream>, is_live: bool) {
        let pulled = Pulled {
            stream: Arc::clone(stream),
            is_live,
        };
        self.pulled.insert(stream.name().clone(), pulled);
    }

    /// Forgets a stream. One that was `nowhere` is not searched for again at once.
    pub(super) fn forget(&mut self, name: &StreamName, is_nowhere: bool, now: Instant) {
        if let Some(pulled) = self.pulled.remove(name)
            && !pulled.is_live
        {
            self.searches -= 1;
        }
        if is_nowhere {
            if self.nowhere.len() >= NEGATIVE_MAX {
                self.nowhere.retain(|_, until| now < *until);
            }
            if self.nowhere.len() < NEGATIVE_MAX {
                self.nowhere.insert(name.clone(), now + NEGATIVE);
            }
        }
    }
}
