//! Who watches a stream, as far as requests for playlists tell.
//!
//! HLS has no sessions: a viewer is an address with a name of a program that asked for a playlist within
//! the last seconds. Several viewers behind one address with one browser count as one, and viewers behind a
//! cache as the cache. An address can invent names of programs, and counts as a few viewers at most: servers
//! of a cluster send viewers away by these numbers.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{Stream, ViewerToken};
use glassline_runtime::SourcePrefix;

/// Time after its last request at which a viewer counts as gone. Players ask at least once a segment.
const GONE: Duration = Duration::from_secs(15);

/// Most viewers of a stream that are told from each other.
const VIEWERS_MAX: usize = 10_000;

/// Most of them with one IPv4 address, or one /64 of IPv6.
const VIEWERS_PER_SOURCE: usize = 64;

/// The viewers of one stream, by their addresses.
#[derive(Debug, Default)]
pub(super) struct Viewers {
    by_source: HashMap<SourcePrefix, HashMap<ViewerKey, Viewer>>,
    count: usize,
}

/// A viewer as lists name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ViewerKey {
    pub(super) address: IpAddr,
    agent: u64,
}

#[derive(Debug)]
struct Viewer {
    seen: Instant,
    /// Counts the viewer for the stream.
    _token: ViewerToken,
}

impl ViewerKey {
    pub(super) fn new(address: IpAddr, agent: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        agent.hash(&mut hasher);
        let agent = hasher.finish();
        Self { address, agent }
    }

    /// Returns the name of the viewer in lists.
    pub(super) fn name(&self) -> String {
        format!("{}-{:04x}", self.address, self.agent & 0xffff)
    }
}

impl Viewers {
    /// Notes a request of a viewer of `stream`.
    pub(super) fn note(&mut self, key: ViewerKey, stream: &Arc<Stream>, now: Instant) {
        let source = SourcePrefix::from(key.address);
        let is_full = self.count >= VIEWERS_MAX;
        let of_source = match self.by_source.entry(source) {
            Entry::Vacant(_) if is_full => return,
            entry => entry.or_default(),
        };
        if let Some(viewer) = of_source.get_mut(&key) {
            viewer.seen = now;
        } else if !is_full && of_source.len() < VIEWERS_PER_SOURCE {
            let viewer = Viewer {
                seen: now,
                _token: stream.add_viewer(),
            };
            of_source.insert(key, viewer);
            self.count += 1;
        }
    }

    /// Forgets who asked for nothing lately.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.by_source.retain(|_, viewers| {
            viewers.retain(|_, viewer| now.saturating_duration_since(viewer.seen) < GONE);
            !viewers.is_empty()
        });
        self.count = self.by_source.values().map(HashMap::len).sum();
    }

    pub(super) fn present(&self) -> impl Iterator<Item = ViewerKey> {
        self.by_source.values().flat_map(HashMap::keys).copied()
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use glassline_hub::{Limits, StreamName};

    use super::*;

    #[test]
    fn a_viewer_counts_from_its_first_request_until_it_is_gone() {
        let name = StreamName::parse("cam").expect("a name");
        let stream = Stream::unlisted(name, Limits::default());
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let [one, other] =
            [&b"hls.js"[..], b"vlc"].map(|it| ViewerKey::new(Ipv4Addr::LOCALHOST.into(), it));
        let mut viewers = Viewers::default();
        viewers.note(one, &stream, at(0));
        viewers.note(other, &stream, at(0));
        viewers.note(one, &stream, at(10));
        assert_eq!((viewers.count(), stream.viewers()), (2, 2));
        viewers.sweep(at(16));
        assert_eq!((viewers.count(), stream.viewers()), (1, 1));
        assert_eq!(viewers.present().next(), Some(one));
        viewers.sweep(at(25));
        assert_eq!((viewers.count(), stream.viewers()), (0, 0));
    }

    #[test]
    fn an_address_that_invents_programs_is_a_few_viewers_and_keeps_no_other_out() {
        let name = StreamName::parse("cam").expect("a name");
        let stream = Stream::unlisted(name, Limits::default());
        let now = Instant::now();
        let mut viewers = Viewers::default();
        for program in 0..2 * VIEWERS_MAX {
            let key = ViewerKey::new(Ipv4Addr::LOCALHOST.into(), &program.to_le_bytes());
            viewers.note(key, &stream, now);
        }
        assert_eq!(stream.viewers(), VIEWERS_PER_SOURCE);
        let other = ViewerKey::new(Ipv4Addr::new(192, 0, 2, 1).into(), b"vlc");
        viewers.note(other, &stream, now);
        assert_eq!((viewers.count(), stream.viewers()), (65, 65));
        viewers.sweep(now + GONE);
        assert_eq!((viewers.count(), viewers.present().count()), (0, 0));
        assert!(viewers.by_source.is_empty());
    }
}
