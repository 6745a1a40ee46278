//! Sends to the clients of one thread, and receives their datagrams.
//!
//! ```text
//! Streams: what is new, read once ─► offer ─┬► each client's connection, in turn
//!                                           └► UdpClients: many with one system call
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_egress::rtsp::{Budget, Recipient, Ring, Sent, TrackTransport, TransportKind};
use glassline_media::Stage;
use glassline_net::ReceiveBatch;
use glassline_rtsp::interleaved;
use glassline_rtsp::server::{Answer, RequestId};
use glassline_runtime::{Key, Serving, Slots};

use super::client::{Client, Role, Served};
use super::counters::Counters;
use super::streams::Streams;
use super::udp_clients::{ClientDatagram, UdpClients};

/// Time that a client has to take the rest of a stream that ended for it, and again to take the
/// last reports.
const REST: Duration = Duration::from_secs(2);

/// The clients of one thread, and the streams that they are sent.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) clients: Slots<Client>,
    pub(super) streams: Streams,
    /// UDP clients of the thread; `None` if media may not go by UDP.
    pub(super) udp: Option<UdpClients>,
    pub(super) counters: Arc<Counters>,
    /// Limits on the delay of the clients, as they are since the latest sweep.
    pub(super) budget: Budget,
    /// The client that is served at the moment.
    pub(super) serving: Serving,
    /// Clients to be released: their connection is lost, or they take too little.
    pub(super) gone: Vec<Key>,
}

/// An RTCP packet for every track of a player.
#[derive(Clone, Copy, Debug)]
enum ControlPacket {
    /// A sender report, with which a player can synchronize audio and video from its first frame
    /// on.
    Report,
    /// A sender report with BYE behind it.
    Bye,
}

impl Delivery {
    pub(super) fn new(
        streams: Streams,
        udp: Option<UdpClients>,
        counters: Arc<Counters>,
        serving: Serving,
    ) -> Self {
        let budget = streams.context.timing.get().budget;
        Self {
            clients: Slots::default(),
            streams,
            udp,
            counters,
            budget,
            serving,
            gone: Vec::new(),
        }
    }

    /// Forgets all streams, and all addresses of clients.
    pub(super) fn clear(&mut self) {
        self.streams.clear();
        if let Some(udp) = &mut self.udp {
            udp.clear();
        }
        self.gone.clear();
        self.serving.take();
    }

    /// Enters every client in the list of its stream's receivers again, because a panic may have come
    /// while the list was taken out.
    pub(super) fn restore_receivers(&mut self) {
        for reader in self.streams.keys() {
            let clients = self.clients.entries();
            let receivers = clients.filter(|(_, client)| client.reader() == Some(reader));
            let receivers = receivers.map(|(key, _)| key).collect();
            if let Some(reader) = self.streams.get_mut(reader) {
                reader.subscription.viewers = receivers;
            }
        }
    }

    /// Returns when something must be sent even if no stream has a new unit.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let paced = self.udp.as_ref().and_then(|udp| udp.paced_until);
        let deadlines = [self.streams.deadline(), paced];
        deadlines.into_iter().flatten().min()
    }

    pub(super) fn answer(&mut self, key: Key, id: RequestId, answer: Answer, now: Instant) {
        if let Some(client) = self.clients.get_mut(key) {
            client.connection.answer(now, id, answer);
        }
    }

    /// Answers PLAY, with reports behind the answer, and begins to send.
    pub(super) fn answer_play(&mut self, key: Key, id: RequestId, answer: Answer, now: Instant) {
        let plays = matches!(answer, Answer::Playing { .. });
        if let Some(client) = self.clients.get_mut(key) {
            client.connection.answer(now, id, answer);
            client.take_responses();
        }
        if plays {
            self.push_control(key, ControlPacket::Report, now);
            // The response is written first; datagrams may still overtake it.
            self.pump(key, now);
            self.offer_datagrams_to(key, now);
        }
    }

    /// Sends BYE on every track of a client.
    pub(super) fn push_farewell(&mut self, key: Key, now: Instant) {
        self.push_control(key, ControlPacket::Bye, now);
    }

    fn push_control(&mut self, key: Key, what: ControlPacket, now: Instant) {
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        let from = client.local.ip();
        let Role::Player(session) = &mut client.role else {
            return;
        };
        let Some(reader) = self.streams.get(session.reader) else {
            return;
        };
        let mut frames = Vec::new();
        for (track, transport) in session.transports.iter_mut() {
            let packet = match what {
                ControlPacket::Report => reader.report(track, now),
                ControlPacket::Bye => reader.farewell(track, now),
            };
            let Some(packet) = packet.and_then(|packet| transport.seal_control(packet)) else {
                continue;
            };
            match (transport, &self.udp) {
                (TrackTransport::Interleaved { channels, .. }, _) => {
                    interleaved::write_frame(&mut frames, channels.control, &packet);
                }
                (TrackTransport::Udp { addresses, .. }, Some(udp)) => {
                    let sockets = &udp.writer.sockets;
                    sockets.send_report(&packet, *addresses, Some(from));
                }
                // The multicast thread reports to groups.
                (TrackTransport::Udp { .. }, None) | (TrackTransport::Multicast(_), _) => {}
            }
        }
        client.writer.push(&frames);
    }

    /// Sends a publisher the reports and keyframe requests that are due.
    pub(super) fn tell_publisher(&mut self, key: Key, now: Instant) {
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        let from = client.local.ip();
        let Role::Publisher(session) = &mut client.role else {
            return;
        };
        let (recording, counters) = (&mut session.recording, &self.counters.recorded);
        let feedback = recording.poll_feedback(now, rand::random_range(0.5..1.5), counters);
        if feedback.is_empty() {
            return;
        }
        for (track, packet) in feedback {
            let Some(transport) = session.transports.get_mut(track) else {
                continue;
            };
            let Some(packet) = transport.seal_control(packet) else {
                continue;
            };
            match (transport, &self.udp) {
                // A publisher that does not read leaves its socket's buffer full of reports; the
                // next report says the same.
                (TrackTransport::Interleaved { channels, .. }, _)
                    if client.writer.between_bytes() == 0 =>
                {
                    let mut frame = Vec::with_capacity(packet.len() + interleaved::HEADER_BYTES);
                    interleaved::write_frame(&mut frame, channels.control, &packet);
                    client.writer.push(&frame);
                }
                (TrackTransport::Udp { addresses, .. }, Some(udp)) => {
                    let sockets = &udp.writer.sockets;
                    sockets.send_report(&packet, *addresses, Some(from));
                }
                _ => {}
            }
        }
        self.pump(key, now);
    }

    /// Writes what waits for a client.
    pub(super) fn pump(&mut self, key: Key, now: Instant) {
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        let reader = client.reader().and_then(|key| self.streams.get_mut(key));
        let budget = &self.budget;
        if client.pump(reader, budget, now, &self.counters) == Served::Ends {
            self.gone.push(key);
        }
    }

    /// Writes the new entries of a stream, from entry `before` on, to its clients in turn.
    pub(super) fn offer(&mut self, reader_key: Key, before: u64, read_at: Instant) {
        let Some(reader) = self.streams.get_mut(reader_key) else {
            return;
        };
        let budget = &self.budget;
        let receivers = std::mem::take(&mut reader.subscription.viewers);
        for key in &receivers {
            let Some(client) = self.clients.get_mut(*key) else {
                continue;
            };
            self.serving.begin(*key);
            if client.is_playing()
                && client.pump(Some(reader), budget, read_at, &self.counters) == Served::Ends
            {
                self.gone.push(*key);
            }
        }
        self.serving.end();
        // No client joined in the meantime: only this thread adds clients. After a panic,
        // `restore_receivers` finds them again.
        reader.subscription.viewers = receivers;
        self.offer_datagrams(reader_key, read_at);
        self.account(reader_key, before, read_at);
    }

    /// Records the delay of a whole round, which the last client waited, if the new entries have
    /// frames whose delays are accounted.
    fn account(&self, reader: Key, before: u64, read_at: Instant) {
        let Some(reader) = self.streams.get(reader) else {
            return;
        };
        let anchor = reader.ring.anchor();
        let mut entries = reader.ring.since(before);
        let is_accounted = entries.any(|(_, entry)| {
            let unit = entry.unit();
            unit.is_some_and(|unit| unit.track == anchor)
        });
        if is_accounted {
            let sent = Instant::now();
            reader.account(Stage::Send, sent.saturating_duration_since(read_at), sent);
        }
    }

    /// Sends the new entries of a stream to its clients by UDP.
    fn offer_datagrams(&mut self, reader_key: Key, now: Instant) {
        let Some(reader) = self.streams.get_mut(reader_key) else {
            return;
        };
        let Some(udp) = &mut self.udp else {
            return;
        };
        if udp.writer.is_full() {
            return;
        }
        let counters = &self.counters.sent;
        let mut sent = Sent::default();
        let mut left = Vec::new();
        for key in &reader.subscription.viewers {
            let Some(client) = self.clients.get_mut(*key) else {
                continue;
            };
            self.serving.begin(*key);
            let before = sent.skips;
            if !plan(
                *key,
                client,
                &mut reader.ring,
                udp,
                &self.budget,
                now,
                &mut sent,
            ) {
                self.counters.closed_too_slow.add(1);
                client.is_too_slow = true;
                self.gone.push(*key);
            }
            if sent.skips > before {
                client.log_skip(&sent);
            }
            self.serving.end();
            if udp.writer.is_ripe() {
                udp.writer
                    .flush(&reader.ring, counters, &mut sent, &mut left);
                if udp.writer.is_full() {
                    break;
                }
            }
        }
        udp.writer
            .flush(&reader.ring, counters, &mut sent, &mut left);
        counters.add(&sent);
        for (key, entry) in left {
            let session = self.clients.get_mut(key).and_then(Client::player_mut);
            if let Some(cursor) = session.and_then(|session| session.cursor.as_mut())
                && entry < cursor.position()
            {
                cursor.return_to(entry, &reader.ring);
            }
        }
    }

    /// Continues to send by UDP after the socket was full, because it has room again.
    pub(super) fn unblock_datagrams(&mut self, now: Instant) {
        if let Some(udp) = &mut self.udp
            && udp.writer.is_full()
        {
            udp.writer.unblock();
            self.offer_datagrams_to_all(now);
        }
    }

    /// Sends the new entries of every stream by UDP.
    fn offer_datagrams_to_all(&mut self, now: Instant) {
        for reader in self.streams.keys() {
            self.offer_datagrams(reader, now);
        }
    }

    /// Sends the next chunks to clients by UDP, if some are due.
    pub(super) fn offer_due_datagrams(&mut self, now: Instant) {
        if let Some(udp) = &mut self.udp
            && udp.paced_until.is_some_and(|at| at <= now)
        {
            udp.paced_until = None;
            self.offer_datagrams_to_all(now);
        }
    }

    /// Sends the new entries of one client's stream by UDP, because the client has just begun to
    /// play.
    fn offer_datagrams_to(&mut self, key: Key, now: Instant) {
        let session = self.clients.get(key).and_then(Client::player);
        if let Some(session) = session.filter(|session| session.is(TransportKind::Udp)) {
            self.offer_datagrams(session.reader, now);
        }
    }

    /// Notifies the clients of streams that came to their end, and asks for a keyframe for clients
    /// that wait for one.
    pub(super) fn check_streams(&mut self, now: Instant) {
        for reader_key in self.streams.keys() {
            let Some(reader) = self.streams.get(reader_key) else {
                continue;
            };
            if let Some(since) = reader.superseded_at() {
                self.end_superseded(reader_key, since, now);
                continue;
            }
            let has_ended = reader.has_ended();
            for key in reader.subscription.viewers.clone() {
                self.serving.begin(key);
                let session = self.clients.get_mut(key).and_then(Client::player_mut);
                let Some(session) = session else {
                    continue;
                };
                let is_multicast = session.is(TransportKind::Multicast);
                let Some(cursor) = &mut session.cursor else {
                    continue;
                };
                let Some(reader) = self.streams.get(reader_key) else {
                    break;
                };
                if is_multicast {
                    // The multicast thread sends.
                    cursor.advance(reader.ring.end(), &reader.ring);
                }
                if has_ended && cursor.position() >= reader.ring.end() {
                    // The session stays: the client may ask to play again.
                    session.rest();
                    self.push_farewell(key, now);
                    self.pump(key, now);
                } else if cursor.is_waiting() && !is_multicast {
                    reader.stream().request_keyframe();
                }
            }
        }
    }

    /// Ends the clients of a reader whose stream has other tracks `since` some time. A client first
    /// gets what was read for it, for at most [`REST`].
    fn end_superseded(&mut self, reader_key: Key, since: Instant, now: Instant) {
        let Some(reader) = self.streams.get(reader_key) else {
            return;
        };
        let (end, is_over) = (reader.ring.end(), since + REST <= now);
        let is_deleted = reader.stream().is_deleted();
        for key in reader.subscription.viewers.clone() {
            let Some(client) = self.clients.get_mut(key) else {
                continue;
            };
            let cursor = client.player().and_then(|session| session.cursor.as_ref());
            let has_rest = cursor.is_some_and(|cursor| cursor.position() < end);
            let by_group = client
                .player()
                .is_some_and(|it| it.is(TransportKind::Multicast));
            if client.closing.is_some() || has_rest && !by_group && !is_over {
                continue;
            }
            if is_deleted {
                tracing::info!(client = %client.name(), "RTSP client disconnected: the stream was deleted");
                self.counters.closed_deleted.add(1);
            } else {
                tracing::info!(client = %client.name(), "RTSP client disconnected: the source changed its codecs; the client may set the stream up again");
                self.counters.closed_tracks_changed.add(1);
            }
            self.push_farewell(key, now);
            if let Some(client) = self.clients.get_mut(key) {
                client.closing = Some(now + REST);
            }
            self.pump(key, now);
        }
    }

    /// Handles the datagrams that arrived, up to a limit. Returns the publishers among their
    /// senders, and whether more datagrams may wait.
    pub(super) fn receive(&mut self, batch: &mut ReceiveBatch, now: Instant) -> (Vec<Key>, bool) {
        let mut publishers = Vec::new();
        let Some(udp) = &self.udp else {
            return (publishers, false);
        };
        let (clients, counters) = (&mut self.clients, &self.counters);
        let serving = &mut self.serving;
        let is_rest = udp.receive(batch, |datagram| {
            let ClientDatagram {
                client: key,
                track,
                is_control,
                bytes,
            } = datagram;
            let Some(client) = clients.get_mut(key) else {
                return;
            };
            serving.begin(key);
            if !client.role.take(track, is_control, bytes, now, counters) {
                return;
            }
            client.connection.note_alive(now);
            if let Role::Publisher(_) = client.role {
                publishers.push(key);
            }
        });
        serving.end();
        publishers.dedup();
        (publishers, is_rest)
    }
}

/// Plans the datagrams of a client, if it plays by UDP and its next chunk is due. Returns false if
/// the client will not catch up.
fn plan(
    key: Key,
    client: &mut Client,
    ring: &mut Ring,
    udp: &mut UdpClients,
    budget: &Budget,
    now: Instant,
    sent: &mut Sent,
) -> bool {
    let from = client.local.ip();
    let Role::Player(session) = &mut client.role else {
        return true;
    };
    let is_paced = session.paced_until.is_some_and(|at| at > now);
    if is_paced || !session.is(TransportKind::Udp) {
        return true;
    }
    session.paced_until = None;
    let Some(cursor) = &mut session.cursor else {
        return true;
    };
    let recipient = Recipient {
        client: key,
        from: Some(from),
        transports: &mut session.transports,
        cursor,
        paced_until: &mut session.paced_until,
        bytes: &mut session.bytes,
    };
    let will_catch_up = udp.writer.plan(recipient, ring, budget, now, sent);
    let deadlines = [udp.paced_until, session.paced_until];
    udp.paced_until = deadlines.into_iter().flatten().min();
    will_catch_up
}
