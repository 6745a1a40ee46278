//! Who watches a stream, as far as requests for playlists tell.
//!
//! HLS has no sessions: a viewer is an address with a name of a program that asked for a playlist within
//! the last seconds. Several viewers behind one address with one browser count as one, and viewers behind a
//! cache as the cache.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{Stream, ViewerToken};

/// Time after its last request at which a viewer counts as gone. Players ask at least once a segment.
const GONE: Duration = Duration::from_secs(15);

/// Most viewers of a stream that are told from each other.
const VIEWERS_MAX: usize = 10_000;

/// The viewers of one stream.
#[derive(Debug, Default)]
pub(super) struct Viewers(HashMap<ViewerKey, Viewer>);

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
        if let Some(viewer) = self.0.get_mut(&key) {
            viewer.seen = now;
        } else if self.0.len() < VIEWERS_MAX {
            let viewer = Viewer {
                seen: now,
                _token: stream.add_viewer(),
            };
            self.0.insert(key, viewer);
        }
    }

    /// Forgets who asked for nothing lately.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.0
            .retain(|_, viewer| now.saturating_duration_since(viewer.seen) < GONE);
    }

    pub(super) fn present(&self) -> impl Iterator<Item = ViewerKey> {
        self.0.keys().copied()
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
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
}
