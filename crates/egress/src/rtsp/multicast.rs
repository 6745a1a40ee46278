//! The thread that sends to multicast groups: each stream once, however many clients play it.
//!
//! ```text
//! Groups (what is played) ─► MulticastSender ─ StreamReader.read ─► Ring ─► Cursor ─► group
//! ```
//!
//! The thread has its own reader and ring of a stream, so that no RTSP thread sends for the others.
//! A group is served like one client by UDP: large frames in chunks, reports every two seconds,
//! starting with a keyframe. Packets from its receivers are ignored: their RTSP requests keep their
//! sessions alive.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, mem};

use glassline_hub::{Stream, TrackLayout};
use glassline_net::{Multicast, ReceiveBatch};
use glassline_runtime::{Key, PollingThread, Slots, Turn, Waker, catch};
use mio::{Events, Poll, Token};

use super::counters::Sent;
use super::cursor::{Cursor, TrackSet};
use super::datagram_writer::{DatagramWriter, Recipient};
use super::groups::{GroupRange, Groups, Played};
use super::stream_reader::{StreamContext, StreamReader};
use super::transport::{TrackTransport, TrackTransports, UdpAddresses};
use super::udp::UdpPair;

const MEDIA: Token = Token(0);
const CONTROL: Token = Token(1);
const WAKE: Token = Token(2);

/// Interval at which keyframes are requested again and a full socket is tried again.
const SWEEP: Duration = Duration::from_millis(250);

/// Datagrams read in one call; all are dropped.
const BATCH: usize = 8;

/// The state of the thread that sends to multicast groups.
#[derive(Debug)]
pub struct MulticastSender {
    poll: Poll,
    waker: Arc<Waker>,
    groups: Arc<Groups>,
    context: StreamContext,
    writer: DatagramWriter,
    batch: ReceiveBatch,
    /// Whether datagrams may wait that are not read yet.
    is_unread: bool,
    sendings: Slots<Sending>,
    /// The value of [`Groups::changes`] when the table was read last.
    changes: u64,
    /// Whether the table must be read although it has not changed.
    must_follow: bool,
    events: Events,
    swept: Instant,
    /// Number of this thread in the tables of stage delays.
    index: usize,
}

/// A stream of which at least one client plays a track.
#[derive(Debug)]
struct Sending {
    reader: StreamReader,
    /// The group of each played track, as the addresses of one receiver.
    transports: TrackTransports,
    cursor: Cursor,
    paced_until: Option<Instant>,
    bytes: u64,
}

/// Creates the group table, the poll and the waker. They are made before the thread, so that other
/// threads can wake it.
pub fn open(range: GroupRange) -> io::Result<(Groups, Poll, Arc<Waker>)> {
    let poll = Poll::new()?;
    let waker = Arc::new(Waker::new(&poll, WAKE)?);
    Ok((Groups::new(range, Arc::clone(&waker)), poll, waker))
}

impl PollingThread for MulticastSender {
    /// Waits for events and sends. [`Groups::stop`] makes this turn the last one.
    fn turn(&mut self) -> Turn {
        let wait = self.longest_wait(Instant::now());
        self.waker.wait(&mut self.poll, &mut self.events, wait);
        let now = Instant::now();
        for event in &self.events {
            if event.is_writable() {
                self.writer.unblock();
            }
            self.is_unread |= event.is_readable();
        }
        if self.is_unread {
            self.is_unread = self.writer.sockets.receive(&mut self.batch, |_| {});
            if self.is_unread {
                self.waker.wake();
            }
        }
        if self.groups.is_stopping() {
            for key in self.sendings.keys() {
                self.send_bye(key, now);
            }
            return Turn::Ended;
        }
        self.follow(now);
        for key in self.sendings.keys() {
            self.send(key, now);
        }
        self.sweep(now);
        Turn::Again
    }

    /// Drops nothing: the thread has no peers, only groups.
    fn drop_served(&mut self) -> bool {
        false
    }

    fn start_anew(&mut self) {
        for key in self.sendings.keys() {
            let sending = self.sendings.remove(key);
            // One that is half changed may panic again while it is dropped.
            let _ = catch(move || drop(sending));
        }
        self.writer.discard();
        self.batch = ReceiveBatch::new(BATCH);
        self.is_unread = true;
        self.must_follow = true;
        self.waker.wake();
    }
}

impl MulticastSender {
    /// Opens the sockets. `index` must differ from the number of every RTSP thread in the tables of
    /// stage delays.
    pub fn new(
        groups: Arc<Groups>,
        poll: Poll,
        waker: Arc<Waker>,
        context: StreamContext,
        index: usize,
    ) -> io::Result<Self> {
        let interface = groups.range.interface;
        let multicast = Multicast {
            ttl: groups.range.ttl,
            interface,
            is_looped: true,
        };
        let from = IpAddr::V4(interface.unwrap_or(Ipv4Addr::UNSPECIFIED));
        let sockets = UdpPair::bind(from, 0, Some(multicast)).map_err(|error| {
            io::Error::new(error.kind(), format!("for rtsp.multicast: {error}"))
        })?;
        sockets.register(poll.registry(), MEDIA, CONTROL)?;
        Ok(Self {
            poll,
            waker,
            groups,
            context,
            writer: DatagramWriter::new(sockets),
            batch: ReceiveBatch::new(BATCH),
            is_unread: false,
            sendings: Slots::default(),
            changes: 0,
            must_follow: false,
            events: Events::with_capacity(16),
            swept: Instant::now(),
            index,
        })
    }

    /// Returns the groups that this thread sends to.
    pub fn groups(&self) -> &Arc<Groups> {
        &self.groups
    }

    fn longest_wait(&self, now: Instant) -> Duration {
        let deadlines = self.sendings.iter().flat_map(|it| {
            let paced = it.paced_until.filter(|_| !self.writer.is_full());
            [it.reader.subscription.deadline(), paced]
        });
        let until = deadlines.flatten().fold(self.swept + SWEEP, Instant::min);
        until.saturating_duration_since(now)
    }

    /// Starts to send the streams that are newly played, and drops those that no client plays any
    /// more.
    fn follow(&mut self, now: Instant) {
        let changes = self.groups.changes();
        if changes == self.changes && !self.must_follow {
            return;
        }
        self.must_follow = false;
        self.changes = changes;
        let played = self.groups.played();
        for key in self.sendings.keys() {
            let Some(sending) = self.sendings.get_mut(key) else {
                continue;
            };
            if !sending.aim(&played) {
                if sending.reader.has_ended() || sending.reader.superseded_at().is_some() {
                    self.send_bye(key, now);
                }
                self.sendings.remove(key);
            }
        }
        for Played { stream, layout, .. } in &played {
            let mut known = self.sendings.iter();
            if known.any(|it| it.is_of(stream, *layout)) {
                continue;
            }
            drop(known);
            let reader =
                StreamReader::subscribe(stream, &self.context, &self.waker, self.index, now);
            let cursor = Cursor::begin_at(reader.ring.end(), TrackSet::default(), now);
            let mut sending = Sending {
                reader,
                transports: TrackTransports::default(),
                cursor,
                paced_until: None,
                bytes: 0,
            };
            if !sending.aim(&played) {
                // The group is of a layout that is gone; its clients are about to leave.
                continue;
            }
            sending.reader.stream().request_keyframe();
            self.sendings.insert(sending);
        }
    }

    /// Sends the new entries of one stream.
    fn send(&mut self, key: Key, now: Instant) {
        let Some(sending) = self.sendings.get_mut(key) else {
            return;
        };
        if sending.reader.take_due(now) {
            sending.reader.read(now);
        }
        let is_paced = sending.paced_until.is_some_and(|at| at > now);
        if is_paced || self.writer.is_full() {
            return;
        }
        sending.paced_until = None;
        let (mut sent, mut left) = (Sent::default(), Vec::new());
        let recipient = Recipient {
            client: key,
            from: None,
            transports: &mut sending.transports,
            cursor: &mut sending.cursor,
            paced_until: &mut sending.paced_until,
            bytes: &mut sending.bytes,
        };
        let budget = self.context.timing.get().budget;
        let ring = &mut sending.reader.ring;
        // However often the cursor skips, there is no client to close.
        let _ = self.writer.plan(recipient, ring, &budget, now, &mut sent);
        let counters = &self.groups.counters;
        self.writer.flush(ring, counters, &mut sent, &mut left);
        counters.add(&sent);
        if let Some((_, entry)) = left.iter().min_by_key(|(_, entry)| *entry) {
            sending.cursor.advance(*entry, ring);
        }
    }

    fn sweep(&mut self, now: Instant) {
        if now < self.swept + SWEEP {
            return;
        }
        self.swept = now;
        self.writer.unblock();
        for sending in self.sendings.iter() {
            if sending.cursor.is_waiting() && !sending.reader.has_ended() {
                sending.reader.stream().request_keyframe();
            }
        }
    }

    /// Sends RTCP BYE to every group of a stream.
    fn send_bye(&mut self, key: Key, now: Instant) {
        let Some(sending) = self.sendings.get_mut(key) else {
            return;
        };
        let transports = mem::take(&mut sending.transports);
        for (track, transport) in transports.iter() {
            if let TrackTransport::Udp { addresses, .. } = transport
                && let Some(packet) = sending.reader.farewell(track, now)
            {
                let sockets = &self.writer.sockets;
                sockets.send_report(&packet, *addresses, None);
            }
        }
    }
}

impl Sending {
    fn is_of(&self, stream: &Arc<Stream>, layout: TrackLayout) -> bool {
        Arc::ptr_eq(self.reader.stream(), stream) && self.reader.layout() == layout
    }

    /// Sets the groups that the played tracks of this stream are sent to. Returns false, and
    /// changes nothing, if no track is played.
    fn aim(&mut self, played: &[Played]) -> bool {
        let own = played.iter();
        let own = own.filter(|it| self.is_of(&it.stream, it.layout));
        let mut transports = TrackTransports::default();
        for Played { track, group, .. } in own {
            let addresses = UdpAddresses {
                media: SocketAddr::new(group.address, group.ports.0),
                control: SocketAddr::new(group.address, group.ports.1),
            };
            let srtp = None;
            transports.set(*track, TrackTransport::Udp { addresses, srtp });
        }
        let tracks = transports.set_up();
        if tracks.is_empty() {
            return false;
        }
        self.transports = transports;
        self.cursor.keep(tracks);
        self.cursor.add(tracks);
        true
    }
}

#[cfg(test)]
mod tests {
    use glassline_hub::{Hub, Publisher, StreamName};
    use glassline_media::{MediaTime, Stamps, Track, TrackIndex, UnitBuilder, VideoParameters};

    use super::super::cursor::Budget;
    use super::super::groups::MulticastMembership;
    use super::super::stream_reader::Timing;
    use super::super::{Bounds, NumberKeys};
    use super::*;
    use glassline_runtime::{Clock, Current};

    const VIDEO: TrackIndex = TrackIndex(0);

    /// A sender without its thread, a live stream, and a client that has set up the video.
    struct Scene {
        sender: MulticastSender,
        publisher: Publisher,
        client: MulticastMembership,
        start: Instant,
    }

    impl Scene {
        fn new() -> Self {
            let range = GroupRange {
                first: Ipv4Addr::new(239, 255, 77, 40),
                count: 2,
                port: 0,
                ttl: 0,
                interface: Some(Ipv4Addr::LOCALHOST),
            };
            let (groups, poll, waker) = open(range).expect("descriptors");
            let groups = Arc::new(groups);
            let context = StreamContext {
                latencies: Arc::default(),
                clock: Clock::start(),
                keys: NumberKeys::default(),
                timing: Arc::new(Current::new(Timing {
                    budget: Budget {
                        lag: Duration::from_millis(500),
                        stall: Duration::from_secs(5),
                        skips_in_a_row: 2,
                    },
                    bounds: Bounds {
                        bytes: 1 << 20,
                        span: Duration::from_secs(10),
                        lag: Duration::from_secs(1),
                    },
                })),
            };
            let sender = MulticastSender::new(Arc::clone(&groups), poll, waker, context, 1);
            let sender = sender.expect("two ports");
            let name = StreamName::parse("cam").expect("a good name");
            let stream = Hub::default().create(name).expect("room");
            let tracks = vec![Track::h264(VideoParameters::default())];
            let publisher = stream.publish(tracks, sender.swept).expect("free");
            let client = groups.join(&stream, VIDEO).expect("a free group");
            Self {
                start: sender.swept,
                sender,
                publisher,
                client,
            }
        }

        fn at(&self, time: u64) -> Instant {
            self.start + Duration::from_millis(time)
        }

        /// Publishes a keyframe, and lets the sender send what there is.
        fn film(&mut self, time: u64) {
            let mut builder = UnitBuilder::default();
            builder.push(b"keyframe");
            let at = self.at(time);
            let unit = builder.build(VIDEO, MediaTime::ZERO, true, Stamps::arrived(at));
            let pushed = self.publisher.push(unit.expect("a packet"), at);
            pushed.expect("a track");
            for key in self.sender.sendings.keys() {
                self.sender.send(key, at);
            }
        }

        fn play(&mut self, plays: bool) {
            self.client.set_playing(plays);
            self.sender.follow(self.start);
        }
    }

    #[test]
    fn a_keyframe_is_requested_every_quarter_of_a_second_until_one_comes() {
        let mut scene = Scene::new();
        scene.play(true);
        assert!(scene.publisher.keyframe_wanted(), "for the first client");
        let wanted = |scene: &mut Scene, time| {
            scene.sender.sweep(scene.at(time));
            scene.publisher.keyframe_wanted()
        };
        assert!(!wanted(&mut scene, 249));
        assert!(wanted(&mut scene, 250));
        assert!(!wanted(&mut scene, 499));
        assert!(wanted(&mut scene, 500));
        scene.film(600);
        assert!(!wanted(&mut scene, 900), "one came");
    }

    #[test]
    fn the_thread_sleeps_until_its_next_duty() {
        let mut scene = Scene::new();
        scene.play(true);
        let wait = |scene: &Scene, time| scene.sender.longest_wait(scene.at(time)).as_millis();
        assert_eq!(
            [0, 100, 250, 300].map(|time| wait(&scene, time)),
            [250, 150, 0, 0]
        );
        let paced = scene.at(30);
        let key = scene.sender.sendings.keys()[0];
        let sending = scene.sender.sendings.get_mut(key).expect("played");
        sending.paced_until = Some(paced);
        assert_eq!([0, 20, 40].map(|time| wait(&scene, time)), [30, 10, 0]);
    }

    #[test]
    fn a_stream_is_sent_while_a_client_plays_and_no_packet_leaves_before_its_time() {
        let mut scene = Scene::new();
        scene.film(0);
        scene.play(true);
        assert_eq!(scene.sender.sendings.keys().len(), 1);
        let sent = |scene: &Scene| {
            let counters = &scene.sender.groups().counters;
            counters.packets.get()
        };
        scene.film(40);
        assert_eq!(sent(&scene), 1, "from the next keyframe on");
        let key = scene.sender.sendings.keys()[0];
        let until = scene.at(90);
        let sending = scene.sender.sendings.get_mut(key).expect("played");
        sending.paced_until = Some(until);
        scene.film(80);
        assert_eq!(sent(&scene), 1, "paced");
        scene.sender.send(key, until);
        assert_eq!(sent(&scene), 2);
        scene.play(false);
        assert!(scene.sender.sendings.keys().is_empty());
    }

    #[test]
    fn a_thread_that_starts_anew_finds_what_is_played() {
        let mut scene = Scene::new();
        scene.play(true);
        scene.film(40);
        assert!(scene.publisher.keyframe_wanted());
        scene.sender.start_anew();
        assert!(scene.sender.sendings.keys().is_empty());
        scene.sender.follow(scene.at(50));
        assert_eq!(scene.sender.sendings.keys().len(), 1);
        assert!(scene.publisher.keyframe_wanted(), "to begin with");
        scene.sender.follow(scene.at(60));
        assert!(!scene.publisher.keyframe_wanted(), "nothing changed");
        assert!(!scene.sender.drop_served());
        scene.sender.groups().stop();
        assert!(matches!(scene.sender.turn(), Turn::Ended));
    }
}
