//! Readers' requests for keyframes of the broadcasts that a collection offers.
//!
//! ```text
//! reader ─ datagram: number of the track ─► session: may it read the broadcast? ─► the broadcast's publisher
//! ```
//!
//! A broadcast of a collection has many readers, and its publisher learns only that one of them
//! needs a keyframe: requests that come before the publisher looks are one request.

use std::collections::HashMap;
use std::sync::Arc;

use moq_net::Patterns;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Where requests for the tracks of a collection's broadcasts go.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyframeRequests(Arc<Mutex<HashMap<u32, Entry>>>);

#[derive(Debug)]
struct Entry {
    broadcast: String,
    requested: Arc<Notify>,
}

/// A broadcast's place among [`KeyframeRequests`], which it has until this value is dropped.
#[derive(Debug)]
pub(super) struct Registration {
    requests: KeyframeRequests,
    tracks: Vec<u32>,
    requested: Arc<Notify>,
}

/// The requests that a session may make, which are those for broadcasts that it may read.
#[derive(Debug)]
pub(super) struct RequestScope {
    requests: KeyframeRequests,
    /// Names that the session may read; `None` if all.
    only: Option<Patterns>,
}

impl KeyframeRequests {
    /// Lets requests for `tracks`, by their numbers, reach the publisher of `broadcast`.
    pub(super) fn register(&self, broadcast: &str, tracks: Vec<u32>) -> Registration {
        let requested = Arc::<Notify>::default();
        let mut entries = self.0.lock();
        for &track in &tracks {
            let entry = Entry {
                broadcast: broadcast.to_owned(),
                requested: Arc::clone(&requested),
            };
            entries.insert(track, entry);
        }
        drop(entries);
        Registration {
            requests: self.clone(),
            tracks,
            requested,
        }
    }

    /// Returns the requests of a session that may read names which match `only`.
    pub(super) fn scoped(&self, only: Option<Patterns>) -> RequestScope {
        RequestScope {
            requests: self.clone(),
            only,
        }
    }
}

impl RequestScope {
    /// Requests a keyframe of the track with this number, if there is one that may be read.
    pub(super) fn request(&self, track: u32) {
        if let Some(entry) = self.requests.0.lock().get(&track) {
            let only = self.only.as_ref();
            if only.is_none_or(|only| only.matches(&entry.broadcast)) {
                entry.requested.notify_one();
            }
        }
    }
}

impl Registration {
    /// Notes that readers need a keyframe, although none of them has said so.
    pub(super) fn request(&self) {
        self.requested.notify_one();
    }

    /// Waits until a keyframe is requested. Requests before the call count as one.
    pub(super) async fn requested(&self) {
        self.requested.notified().await;
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut entries = self.requests.0.lock();
        for track in &self.tracks {
            // A successor of the same name may have taken the place already.
            let is_own = |it: &Entry| Arc::ptr_eq(&it.requested, &self.requested);
            if entries.get(track).is_some_and(is_own) {
                entries.remove(track);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_requested(registration: &Registration) -> bool {
        tokio::select! {
            biased;
            () = registration.requested() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn requests_reach_the_publisher_that_a_session_may_read() {
        let requests = KeyframeRequests::default();
        let (cam, door) = (
            requests.register("cam", vec![1, 2]),
            requests.register("door", vec![3]),
        );
        let all = requests.scoped(None);
        let only: Patterns = ["cam"].iter().filter_map(|it| it.parse().ok()).collect();
        let only = requests.scoped(Some(only));
        for track in [1, 2, 3, 4] {
            only.request(track);
        }
        assert!(is_requested(&cam).await && !is_requested(&cam).await);
        assert!(!is_requested(&door).await, "a name beyond the right");
        all.request(3);
        assert!(is_requested(&door).await);
        // A successor takes the place before the predecessor has left.
        let next = requests.register("cam", vec![1, 2]);
        drop(cam);
        all.request(2);
        assert!(is_requested(&next).await);
        drop((next, door));
        all.request(1);
        assert!(requests.0.lock().is_empty());
    }
}
