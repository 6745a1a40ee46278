//! Places that are kept here for viewers who were told to come and are not counted yet.
//!
//! Only this node knows its own places, so others ask before they send somebody. A place is kept
//! until the viewer is counted, or for [`KEPT_FOR`].

use std::time::Duration;

use super::Node;
use crate::liveness::TOO_BUSY;
use crate::name::StreamName;
use crate::question::Holder;

/// How long a place is kept: a browser follows a redirect and is counted within some seconds.
const KEPT_FOR: Duration = Duration::from_secs(8);

impl Node {
    /// Keeps a place for a viewer whom the server lets in without asking where it is best served.
    pub fn expect_viewer(&mut self, now: crate::config::Moment, name: &StreamName) {
        self.now = now;
        self.keep_places(name, 1);
    }

    /// Returns how many places are kept for viewers of a stream who are on their way here.
    pub fn kept_places(&self, name: &StreamName) -> usize {
        self.relays.get(name).map_or(0, |it| it.places.kept.len())
    }

    /// How many more viewers of a stream this node takes.
    pub(super) fn room(&self, name: &StreamName) -> u32 {
        let is_closed = self.presence.is_draining() || self.is_sending_away();
        if is_closed || self.load.busy >= TOO_BUSY {
            return 0;
        }
        let relay = self.relays.get(name);
        let taken = relay.map_or(0, |it| {
            // A server that asks for all its viewers at once asks for one of those who have a place.
            let coming = it.counted.saturating_add(number(it.places.kept.len()));
            it.viewers.max(coming)
        });
        let of_stream = self.config.viewers_per_stream.saturating_sub(taken);
        of_stream.min(self.load.headroom.saturating_sub(number(self.kept)))
    }

    /// Keeps up to `places` places for a node that asks, and returns the answer, whether or not this
    /// node has the stream.
    pub(super) fn keep_asked_places(&mut self, name: &StreamName, places: u32) -> Holder {
        let own = self.own_holder(name);
        let mut own = own.unwrap_or_else(|| self.holder(0, 0));
        own.room = self.room(name).min(places);
        self.keep_places(name, own.room);
        own
    }

    pub(super) fn keep_places(&mut self, name: &StreamName, count: u32) {
        if count == 0 {
            return;
        }
        let until = self.now.at + KEPT_FOR;
        let relay = self.relays.entry(name.clone()).or_default();
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        relay.places.kept.extend(std::iter::repeat_n(until, count));
        relay.dues.linger = None;
        self.kept += count;
    }

    /// Viewers are counted now for whom places were kept.
    pub(super) fn places_taken(&mut self, name: &StreamName, count: u32) {
        if let Some(relay) = self.relays.get_mut(name) {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            let count = count.min(relay.places.kept.len());
            relay.places.kept.drain(..count);
            self.kept -= count;
        }
    }

    /// Whether the number of kept places is that of all relays, for checks.
    pub fn counts_places_right(&self) -> bool {
        let kept = self.relays.values().map(|it| it.places.kept.len());
        kept.sum::<usize>() == self.kept
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::tests::{at, node};

    #[test]
    fn a_server_that_asks_for_all_its_viewers_takes_no_place_beside_theirs() {
        let mut node = node(at(0));
        (node.config.viewers_per_stream, node.load.headroom) = (3, 100);
        let name = StreamName::new("cam").expect("a name");
        // The first of two viewers who were told to come is there, and not counted yet.
        node.keep_places(&name, 2);
        let relay = node.relays.entry(name.clone()).or_default();
        relay.viewers = 1;
        assert_eq!(node.room(&name), 1);
        node.set_viewers(at(10), &name, 1);
        assert_eq!(node.room(&name), 1);
        node.set_viewers(at(20), &name, 2);
        assert_eq!(node.room(&name), 1);
    }
}
