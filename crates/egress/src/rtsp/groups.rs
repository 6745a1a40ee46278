//! The multicast groups of tracks: one table for all RTSP threads.
//!
//! ```text
//! SETUP ─► MulticastMembership: the track has a group ─┐
//! PLAY  ─► the member plays ───────────────────────────┴─► Groups ─► MulticastSender
//! ```
//!
//! A track has a group and a pair of ports of its own from the first client that sets it up to the
//! last one that drops it. The ports differ, too, because a receiver's socket gets the packets of
//! every group that any program on its machine joined.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use glassline_hub::{Stream, TrackLayout};
use glassline_media::TrackIndex;
use glassline_rtsp::transport::Group;
use glassline_runtime::Waker;
use parking_lot::Mutex;

use super::counters::SendCounters;

/// The groups and ports that the server may use.
#[derive(Clone, Copy, Debug)]
pub struct GroupRange {
    /// The first multicast group.
    pub first: Ipv4Addr,
    /// Number of consecutive groups from the first on, at least one.
    pub count: u32,
    /// The even RTP port of the first group; each further group has the next pair of ports.
    pub port: u16,
    /// Time to live of packets, in hops.
    pub ttl: u8,
    /// Address of the interface to send on; `None` leaves the choice to the routing table.
    pub interface: Option<Ipv4Addr>,
}

impl GroupRange {
    /// Returns the group of this index; `None` behind the last.
    fn group(&self, index: u32) -> Option<Group> {
        if index >= self.count {
            return None;
        }
        let media = u32::from(self.port).checked_add(index.checked_mul(2)?)?;
        let control = u16::try_from(media + 1).ok()?;
        let address = u32::from(self.first).checked_add(index)?;
        Some(Group {
            address: IpAddr::V4(address.into()),
            ports: (control - 1, control),
            ttl: self.ttl,
        })
    }
}

/// The table of groups that tracks have, shared by all RTSP threads and the sending thread.
#[derive(Debug)]
pub struct Groups {
    /// Addresses that groups may have.
    pub range: GroupRange,
    /// Counters of the datagrams that go to groups.
    pub counters: Arc<SendCounters>,
    /// Wakes the thread that sends.
    waker: Arc<Waker>,
    held: Mutex<BTreeMap<u32, AssignedGroup>>,
    /// Number of changes of the set of played tracks.
    changes: AtomicU64,
    is_stopping: AtomicBool,
}

/// A track that has a group.
#[derive(Debug)]
struct AssignedGroup {
    stream: Arc<Stream>,
    /// Layout of the stream's tracks: after a change of codecs, tracks get groups of their own.
    layout: TrackLayout,
    track: TrackIndex,
    group: Group,
    members: usize,
    /// Number of members that play.
    players: usize,
}

/// A track that at least one client plays.
#[derive(Debug)]
pub struct Played {
    pub stream: Arc<Stream>,
    pub layout: TrackLayout,
    pub track: TrackIndex,
    pub group: Group,
}

impl Groups {
    /// Creates an empty table; `waker` wakes the thread that sends.
    pub fn new(range: GroupRange, waker: Arc<Waker>) -> Self {
        Self {
            range,
            counters: Arc::default(),
            waker,
            held: Mutex::default(),
            changes: AtomicU64::new(0),
            is_stopping: AtomicBool::new(false),
        }
    }

    /// Returns a client's membership in the group of a track; `None` if no group is free.
    pub fn join(
        self: &Arc<Self>,
        stream: &Arc<Stream>,
        track: TrackIndex,
    ) -> Option<MulticastMembership> {
        let layout = stream.layout();
        let mut held = self.held.lock();
        let known = held.iter_mut().find(|(_, it)| {
            it.track == track && it.layout == layout && Arc::ptr_eq(&it.stream, stream)
        });
        let (index, group) = if let Some((index, it)) = known {
            it.members += 1;
            (*index, it.group)
        } else {
            // The lowest free group is taken, so that few ports must be opened in a firewall.
            let taken = held.keys().copied();
            let index = (0..).zip(taken).take_while(|(free, it)| free == it).count();
            let index = u32::try_from(index).ok()?;
            let group = self.range.group(index)?;
            let new = AssignedGroup {
                stream: Arc::clone(stream),
                layout,
                track,
                group,
                members: 1,
                players: 0,
            };
            held.insert(index, new);
            (index, group)
        };
        Some(MulticastMembership {
            groups: Arc::clone(self),
            index,
            group,
            plays: false,
        })
    }

    /// Returns a number that changes whenever the result of [`Groups::played`] does.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Returns the tracks that are played.
    pub fn played(&self) -> Vec<Played> {
        let held = self.held.lock();
        let played = held.values().filter(|it| it.players > 0);
        let played = played.map(|it| Played {
            stream: Arc::clone(&it.stream),
            layout: it.layout,
            track: it.track,
            group: it.group,
        });
        played.collect()
    }

    /// Ends the sending thread.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Returns whether the sending thread shall end.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Counts one more player of a group, or one less.
    fn count(&self, index: u32, plays: bool) {
        let mut held = self.held.lock();
        let Some(it) = held.get_mut(&index) else {
            return;
        };
        let before = it.players;
        it.players = if plays { before + 1 } else { before - 1 };
        if (before == 0) != (it.players == 0) {
            self.changes.fetch_add(1, Ordering::AcqRel);
            self.waker.wake();
        }
    }

    fn leave(&self, index: u32) {
        let mut held = self.held.lock();
        if let Some(it) = held.get_mut(&index) {
            it.members -= 1;
            if it.members == 0 {
                held.remove(&index);
            }
        }
    }
}

/// A client's membership in a group, given back when dropped.
#[derive(Debug)]
pub struct MulticastMembership {
    groups: Arc<Groups>,
    index: u32,
    group: Group,
    plays: bool,
}

impl MulticastMembership {
    /// Returns the address and the ports of the group.
    pub fn group(&self) -> Group {
        self.group
    }

    /// Notes that the member's client plays or pauses.
    pub fn set_playing(&mut self, plays: bool) {
        if self.plays != plays {
            self.plays = plays;
            self.groups.count(self.index, plays);
        }
    }
}

impl Drop for MulticastMembership {
    fn drop(&mut self) {
        self.set_playing(false);
        self.groups.leave(self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_hub::{Hub, StreamName};
    use glassline_media::{Codec, Track};

    fn range(count: u32, port: u16) -> GroupRange {
        GroupRange {
            first: Ipv4Addr::new(239, 255, 42, 0),
            count,
            port,
            ttl: 1,
            interface: None,
        }
    }

    fn groups(range: GroupRange) -> Arc<Groups> {
        let poll = mio::Poll::new().expect("a poll");
        let waker = Waker::new(&poll, mio::Token(0)).expect("a waker");
        Arc::new(Groups::new(range, Arc::new(waker)))
    }

    fn stream(hub: &Hub, name: &str) -> Arc<Stream> {
        let name = StreamName::parse(name).expect("a good name");
        hub.create(name).expect("room")
    }

    #[test]
    fn each_track_has_a_group_and_ports_of_its_own_while_someone_has_it() {
        let hub = Hub::default();
        let (cam, door) = (stream(&hub, "cam"), stream(&hub, "door"));
        let groups = groups(range(3, 5000));
        let frame = groups.join(&cam, TrackIndex(0)).expect("free");
        let audio = groups.join(&cam, TrackIndex(1)).expect("free");
        let other = groups.join(&door, TrackIndex(0)).expect("free");
        let again = groups.join(&cam, TrackIndex(0)).expect("shared");
        let of = |member: &MulticastMembership| {
            (member.group().address.to_string(), member.group().ports)
        };
        assert_eq!(of(&frame), ("239.255.42.0".to_owned(), (5000, 5001)));
        assert_eq!(of(&audio), ("239.255.42.1".to_owned(), (5002, 5003)));
        assert_eq!(of(&other), ("239.255.42.2".to_owned(), (5004, 5005)));
        assert_eq!(again.group(), frame.group());
        assert!(groups.join(&door, TrackIndex(1)).is_none(), "no fourth");
        drop(frame);
        assert!(
            groups.join(&door, TrackIndex(1)).is_none(),
            "one client still has it"
        );
        drop(again);
        let next = groups.join(&door, TrackIndex(1)).expect("freed");
        assert_eq!(of(&next), ("239.255.42.0".to_owned(), (5000, 5001)));
    }

    #[test]
    fn a_track_is_played_while_any_client_plays_it() {
        let hub = Hub::default();
        let cam = stream(&hub, "cam");
        let groups = groups(range(3, 5000));
        let mut one = groups.join(&cam, TrackIndex(0)).expect("free");
        let mut two = groups.join(&cam, TrackIndex(0)).expect("shared");
        assert!(groups.played().is_empty());
        one.set_playing(true);
        let changes = groups.changes();
        two.set_playing(true);
        two.set_playing(true);
        assert_eq!(groups.played().len(), 1, "once for both");
        assert_eq!(groups.changes(), changes);
        drop(one);
        assert_eq!(groups.played().len(), 1);
        two.set_playing(false);
        assert!(groups.played().is_empty());
        assert_ne!(groups.changes(), changes);
    }

    #[test]
    fn a_track_of_another_codec_has_another_group() {
        let hub = Hub::default();
        let cam = stream(&hub, "cam");
        let groups = groups(range(3, 5000));
        let publish = |codec| {
            let tracks = vec![Track::new(codec)];
            drop(
                cam.publish(tracks, std::time::Instant::now())
                    .expect("free"),
            );
        };
        publish(Codec::H264);
        let old = groups.join(&cam, TrackIndex(0)).expect("free");
        publish(Codec::Vp8);
        let new = groups.join(&cam, TrackIndex(0)).expect("free");
        assert_ne!(old.group(), new.group());
        drop(old);
        let again = groups.join(&cam, TrackIndex(0)).expect("shared");
        assert_eq!(again.group(), new.group());
    }

    #[test]
    fn ports_end_where_they_end() {
        let range = range(256, 65_532);
        let ports = |index| range.group(index).map(|group| group.ports);
        assert_eq!(ports(0), Some((65_532, 65_533)));
        assert_eq!(ports(1), Some((65_534, 65_535)));
        assert_eq!(ports(2), None);
    }
}
