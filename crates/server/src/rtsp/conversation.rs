//! What a client asks for, and what it is told.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::Stream;
use glassline_media::Track;
use glassline_rtsp::range::Range;
use glassline_rtsp::sdp::{Description, Presentation, Section};
use glassline_rtsp::server::{
    Access, Answer, Closed, Event, Presented, Refusal, RequestId, Start, Way,
};

use super::access::{self, Decision};
use super::client::{Client, Session};
use super::files::{self, Asked, Wish};
use super::groups::Seat;
use super::place::{Place, TRACKS_MAX};
use super::record::Recording;
use super::source::Source;
use super::udp::Target;
use super::worker::Worker;
use crate::shard::Key;
use smallvec::SmallVec;

/// When to ask again for a stream that is not there yet.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// How long a client may take to read the last response.
const LINGER: Duration = Duration::from_secs(2);

/// Who a client says that it is, and for what.
struct Claim {
    user: String,
    password: String,
    access: Access,
    path: String,
}

impl Worker {
    /// Answers what the client's connection asks.
    pub(super) fn converse(&mut self, key: Key, now: Instant) {
        while let Some(event) = self
            .clients
            .get_mut(key)
            .and_then(|client| client.connection.poll_event())
        {
            self.handle(key, event, now);
        }
        self.count_answered(key);
    }

    fn count_answered(&mut self, key: Key) {
        if let Some(client) = self.clients.get_mut(key) {
            while let Some(answered) = client.connection.poll_answered() {
                self.counters.requests.add(&answered);
            }
        }
    }

    fn handle(&mut self, key: Key, event: Event, now: Instant) {
        let answered = match event {
            Event::Authorise {
                id,
                access,
                path,
                query,
                credentials,
            } => {
                let query = query.as_deref();
                let answer = self.authorise(key, id, access, &path, query, credentials);
                answer.map(|answer| (id, answer))
            }
            Event::Describe { id, path, .. } => {
                let answer = self.describe(key, id, &path);
                answer.map(|answer| (id, answer))
            }
            Event::SetUp {
                id,
                track,
                way,
                access: Access::Publish,
                ..
            } => Some((id, self.set_up_recording(key, track, way))),
            Event::SetUp {
                id,
                path,
                track,
                way,
                ..
            } => {
                let answer = self.set_up(key, id, &path, track, way, now);
                answer.map(|answer| (id, answer))
            }
            Event::Play {
                id,
                range,
                scale,
                speed,
            } => {
                let asked = Asked {
                    range,
                    scale,
                    speed,
                };
                return self.begin_to_play(key, id, &asked, now);
            }
            Event::Pause { id } => Some((id, self.pause(key))),
            Event::Announce {
                id,
                path,
                description,
                ..
            } => Some((id, self.announce(key, &path, &description, now))),
            Event::Record { id } => Some((id, self.record(key, now))),
            Event::TearDown { track } => return self.tear_down(key, track),
            Event::TunnelGet { cookie } => return self.open_tunnel(key, cookie),
            Event::TunnelPost { cookie, rest } => return self.join_tunnel(key, &cookie, rest),
            Event::Closed(reason) => return self.end(key, &reason, now),
        };
        if let (Some((id, answer)), Some(client)) = (answered, self.clients.get_mut(key)) {
            client.connection.answer(now, id, answer);
        }
    }

    /// May it? `None`: a password must be hashed first, and the answer comes later.
    fn authorise(
        &self,
        key: Key,
        id: RequestId,
        access: Access,
        path: &str,
        query: Option<&str>,
        credentials: Option<Presented>,
    ) -> Option<Answer> {
        let (users, peer) = (&self.shared.users, self.clients.get(key)?.peer.ip());
        match access::authorise(users, peer, access, path, query, credentials) {
            Decision::Now(answer) => Some(answer),
            Decision::Hash { user, password } => {
                let claim = Claim {
                    user,
                    password,
                    access,
                    path: path.to_owned(),
                };
                self.verify_later(key, id, claim);
                None
            }
        }
    }

    /// What is in it? `None`: it is looked up in the media folder.
    fn describe(&self, key: Key, id: RequestId, path: &str) -> Option<Answer> {
        let answer = match self.stream(path) {
            Ok(stream) => {
                let (name, tracks) = (stream.name().as_str(), stream.tracks());
                self.description(key, name, &tracks, stream.totals().sources, None)
            }
            Err(refusal) => Answer::Refused(refusal),
        };
        self.unless_found_later(key, id, path, answer, Wish::Describe)
    }

    /// The same for a track that is to be sent.
    fn set_up(
        &mut self,
        key: Key,
        id: RequestId,
        path: &str,
        track: Option<usize>,
        way: Way,
        now: Instant,
    ) -> Option<Answer> {
        // A file that somebody plays is listed under its name, too; a session that began
        // with it goes on with it.
        let stream = if self.plays_file(key) {
            Err(Refusal::NotFound)
        } else {
            self.stream(path)
        };
        let answer = match stream {
            Ok(stream) => self.set_up_stream(key, &stream, track, way, now),
            Err(refusal) => Answer::Refused(refusal),
        };
        self.unless_found_later(key, id, path, answer, Wish::SetUp { track, way })
    }

    /// The answer, unless a file may be what no stream is: then the answer comes later.
    fn unless_found_later(
        &self,
        key: Key,
        id: RequestId,
        path: &str,
        answer: Answer,
        wish: Wish,
    ) -> Option<Answer> {
        let is_unknown = answer == Answer::Refused(Refusal::NotFound);
        let is_later = is_unknown && self.look_up(key, id, path, wish);
        (!is_later).then_some(answer)
    }

    /// What the client has set up is a file of the media folder.
    fn plays_file(&self, key: Key) -> bool {
        let session = self.clients.get(key).and_then(|it| it.session.as_deref());
        session.is_some_and(|session| session.file.is_some())
    }

    fn begin_to_play(&mut self, key: Key, id: RequestId, asked: &Asked, now: Instant) {
        let answer = if self.plays_file(key) {
            self.play_file(key, id, asked, now)
        } else {
            Some(self.play(key, now))
        };
        if let Some(answer) = answer {
            self.answer_play(key, id, answer, now);
        }
    }

    /// The connection is over: what was said is still sent.
    fn end(&mut self, key: Key, reason: &Closed, now: Instant) {
        self.tear_down(key, None);
        if let Some(client) = self.clients.get_mut(key) {
            tracing::debug!(client = %client.name(), %reason, "RTSP connection ends");
            client.closing.get_or_insert(now + LINGER);
        }
    }

    /// Has a password hashed elsewhere; the answer comes as a command.
    fn verify_later(&self, key: Key, id: RequestId, claim: Claim) {
        let shared = Arc::clone(&self.shared);
        let thread = self.index;
        self.shared.runtime.spawn(async move {
            let users = &shared.users;
            let is_right = users.verify(&claim.user, &claim.password).await;
            let answer = access::by_name(users, is_right, &claim.user, claim.access, &claim.path);
            shared.tell(thread, key, id, answer);
        });
    }

    /// The stream of `path`, if there is one that has begun.
    fn stream(&self, path: &str) -> Result<Arc<Stream>, Refusal> {
        let stream = self.shared.hub.stream(path).ok_or(Refusal::NotFound)?;
        if stream.tracks().is_empty() {
            return Err(Refusal::Unavailable {
                retry_after: Some(RETRY_AFTER),
            });
        }
        Ok(stream)
    }

    pub(super) fn description(
        &self,
        key: Key,
        name: &str,
        tracks: &[Track],
        version: u64,
        duration: Option<Duration>,
    ) -> Answer {
        let Some(client) = self.clients.get(key) else {
            return Answer::Refused(Refusal::Internal);
        };
        let sections = tracks.iter().take(TRACKS_MAX).cloned().map(Section::new);
        Answer::Described(Box::new(Presentation {
            name: name.to_owned(),
            information: String::new(),
            version,
            address: client.local.ip().to_canonical(),
            duration,
            tracks: sections.collect(),
        }))
    }

    pub(super) fn set_up_stream(
        &mut self,
        key: Key,
        stream: &Arc<Stream>,
        track: Option<usize>,
        way: Way,
        now: Instant,
    ) -> Answer {
        match self.try_set_up(key, stream, track, way, now) {
            Ok(answer) => answer,
            Err(refusal) => Answer::Refused(refusal),
        }
    }

    fn try_set_up(
        &mut self,
        key: Key,
        stream: &Arc<Stream>,
        track: Option<usize>,
        way: Way,
        now: Instant,
    ) -> Result<Answer, Refusal> {
        let tracks = stream.tracks().len().min(TRACKS_MAX);
        let track = match track {
            Some(track) if track < tracks => track,
            Some(_) => return Err(Refusal::NotFound),
            None if tracks == 1 => 0,
            None => return Err(Refusal::AggregateNotAllowed),
        };
        let seat = match (way, &self.shared.groups) {
            (Way::Multicast, Some(groups)) => {
                let seat = groups.seat(stream, track);
                Some(seat.ok_or(Refusal::NotEnoughBandwidth)?)
            }
            _ => None,
        };
        let multicast = seat.as_ref().map(Seat::group);
        let source = self.source_of(stream, now);
        let Some(client) = self.clients.get_mut(key) else {
            return Err(Refusal::Internal);
        };
        if let Some(session) = &client.session
            && session.source != source
        {
            return Err(Refusal::AggregateNotAllowed);
        }
        let is_new = client.session.is_none();
        let session = client
            .session
            .get_or_insert_with(|| Box::new(Session::new(source, Arc::clone(stream))));
        let server_ports = match way {
            Way::Multicast if !session.is_udp() && !session.is_interleaved() => {
                let seat = seat.ok_or(Refusal::UnsupportedTransport)?;
                if session.seats.len() <= track {
                    session.seats.resize_with(track + 1, || None);
                }
                session.seats[track] = Some(seat);
                None
            }
            Way::Interleaved { channels } if !session.is_udp() && !session.is_multicast() => {
                put(&mut session.channels, track, channels);
                None
            }
            Way::Udp {
                client_ports: (media, control),
                destination,
            } if !session.is_interleaved() && !session.is_multicast() => {
                let udp = self.udp.as_mut().ok_or(Refusal::UnsupportedTransport)?;
                let target = Target {
                    media: SocketAddr::new(destination, media),
                    control: SocketAddr::new(destination, control),
                };
                put(&mut session.targets, track, target);
                udp.learn(&target, key, track);
                Some(udp.ports())
            }
            _ => return Err(Refusal::UnsupportedTransport),
        };
        let channel = self.channels.get_mut(source).ok_or(Refusal::Internal)?;
        if is_new {
            channel.source.feed.viewers.push(key);
        }
        let label = channel.source.label(track).ok_or(Refusal::NotFound)?;
        Ok(Answer::SetUp {
            ssrc: Some(label.numbers.ssrc),
            server_ports,
            multicast,
        })
    }

    /// Answers PLAY, with reports behind the answer, and begins to send.
    pub(super) fn answer_play(&mut self, key: Key, id: RequestId, answer: Answer, now: Instant) {
        let plays = matches!(answer, Answer::Playing { .. });
        if let Some(client) = self.clients.get_mut(key) {
            client.connection.answer(now, id, answer);
            client.take_responses();
        }
        if plays {
            self.push_reports(key, now);
            // The response first: datagrams may overtake it all the same.
            self.pump(key, now);
            self.offer_datagrams_to(key, now);
        }
    }

    pub(super) fn play(&mut self, key: Key, now: Instant) -> Answer {
        let Some((client, source)) = self.client_and_source(key) else {
            return Answer::Refused(Refusal::NotInThisState);
        };
        let Some(session) = client.session.as_deref_mut() else {
            return Answer::Refused(Refusal::NotInThisState);
        };
        let tracks = session.tracks();
        let is_multicast = session.is_multicast();
        let anchored = tracks & super::place::bit(source.ring.anchor()) != 0;
        let place = session.place.get_or_insert_with(|| match is_multicast {
            // What the group gets next; nobody gets the past.
            true => Place::begin_at(source.ring.end(), tracks, now),
            false => Place::begin(&source.ring, tracks, anchored, now),
        });
        let set = (0..TRACKS_MAX).filter(|track| tracks & super::place::bit(*track) != 0);
        let starts = set.map(|track| start(source, place, track)).collect();
        if place.is_waiting() && (is_multicast || source.ring.keyframe().is_none()) {
            source.stream().request_keyframe();
        }
        let stream = Arc::clone(&session.stream);
        session.viewer.get_or_insert_with(|| stream.viewer());
        session.set_seats_playing(true);
        Answer::Playing {
            range: Some(Range::LIVE),
            scale: None,
            speed: None,
            starts,
        }
    }

    fn pause(&mut self, key: Key) -> Answer {
        let client = self.clients.get_mut(key);
        match client.and_then(|client| client.session.as_deref_mut()) {
            Some(session) => {
                session.rest();
                let range = files::pause(session);
                Answer::Paused { range }
            }
            None => Answer::Refused(Refusal::NotInThisState),
        }
    }

    fn announce(
        &mut self,
        key: Key,
        path: &str,
        description: &Description,
        now: Instant,
    ) -> Answer {
        let shared = &self.shared;
        let recording = Recording::announce(&shared.hub, &shared.keys, path, description, now);
        match (recording, self.clients.get_mut(key)) {
            (Ok(recording), Some(client)) => {
                client.recording = Some(Box::new(recording));
                Answer::Announced
            }
            (Ok(_), None) => Answer::Refused(Refusal::Internal),
            (Err(refusal), _) => Answer::Refused(refusal),
        }
    }

    fn set_up_recording(&mut self, key: Key, track: Option<usize>, way: Way) -> Answer {
        let client = self.clients.get_mut(key);
        let Some(recording) = client.and_then(|client| client.recording.as_deref_mut()) else {
            return Answer::Refused(Refusal::NotInThisState);
        };
        let tracks = recording.tracks();
        let track = match track {
            Some(track) if track < tracks => track,
            Some(_) => return Answer::Refused(Refusal::NotFound),
            None if tracks == 1 => 0,
            None => return Answer::Refused(Refusal::AggregateNotAllowed),
        };
        let server_ports = match way {
            Way::Interleaved { channels } => {
                put(&mut recording.channels, track, channels);
                None
            }
            Way::Udp {
                client_ports: (media, control),
                destination,
            } => {
                let Some(udp) = &mut self.udp else {
                    return Answer::Refused(Refusal::UnsupportedTransport);
                };
                let target = Target {
                    media: SocketAddr::new(destination, media),
                    control: SocketAddr::new(destination, control),
                };
                put(&mut recording.targets, track, target);
                recording.comes_by_datagrams(track);
                udp.learn(&target, key, track);
                Some(udp.ports())
            }
            Way::Multicast => return Answer::Refused(Refusal::UnsupportedTransport),
        };
        Answer::SetUp {
            ssrc: None,
            server_ports,
            multicast: None,
        }
    }

    fn record(&mut self, key: Key, now: Instant) -> Answer {
        let client = self.clients.get_mut(key);
        match client.and_then(|client| client.recording.as_deref_mut()) {
            Some(recording) => {
                recording.start(now);
                Answer::Recording
            }
            None => Answer::Refused(Refusal::NotInThisState),
        }
    }

    fn tear_down(&mut self, key: Key, track: Option<usize>) {
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        if track.is_none()
            && let Some(recording) = client.recording.take()
        {
            self.unlearn(key, &recording.targets);
            recording.leave(glassline_hub::State::Down {
                detail: "the publisher left".to_owned(),
            });
            return;
        }
        let Some(session) = client.session.as_deref_mut() else {
            return;
        };
        if let Some(track) = track {
            session.forget(track);
        }
        if track.is_none() || session.tracks() == 0 {
            let session = client.session.take();
            if let Some(session) = session {
                self.leave(key, &session);
            }
        }
    }

    /// Sender reports behind the response to PLAY, so that a player can join sound and
    /// picture from its first frame on.
    fn push_reports(&mut self, key: Key, now: Instant) {
        let wall = self.shared.wall;
        self.push_control(key, |source, track| source.report(track, &wall, now));
    }

    /// The farewell of every track.
    pub(super) fn push_farewell(&mut self, key: Key, now: Instant) {
        let wall = self.shared.wall;
        self.push_control(key, |source, track| source.farewell(track, &wall, now));
    }

    fn push_control(&mut self, key: Key, make: impl Fn(&Source, usize) -> Option<Vec<u8>>) {
        let Some((client, source)) = self.client_and_source(key) else {
            return;
        };
        let Some(session) = client.session.as_deref() else {
            return;
        };
        let mut frames = Vec::new();
        for (track, channels) in session.channels.iter().enumerate() {
            if let Some((_, control)) = channels
                && let Some(packet) = make(source, track)
            {
                glassline_rtsp::interleaved::write_frame(&mut frames, *control, &packet);
            }
        }
        let mut datagrams = Vec::new();
        for (track, target) in session.targets.iter().enumerate() {
            if let Some(target) = target
                && let Some(packet) = make(source, track)
            {
                datagrams.push((*target, packet));
            }
        }
        let from = client.local.ip();
        client.outlet.push(&frames);
        if let Some(udp) = &self.udp {
            for (target, packet) in datagrams {
                udp.send_report(&packet, &target, Some(from));
            }
        }
    }

    pub(super) fn client_and_source(&mut self, key: Key) -> Option<(&mut Client, &mut Source)> {
        let client = self.clients.get_mut(key)?;
        let source = client.session.as_ref()?.source;
        let channel = self.channels.get_mut(source)?;
        Some((client, &mut channel.source))
    }
}

/// Notes how a track goes.
fn put<T: Copy>(tracks: &mut SmallVec<[Option<T>; 2]>, track: usize, way: T) {
    if tracks.len() <= track {
        tracks.resize(track + 1, None);
    }
    tracks[track] = Some(way);
}

/// Where a track begins for a client at `place`. Without its first frame the number of
/// the next packet is known, and no time.
fn start(source: &Source, place: &Place, track: usize) -> Start {
    let label = source.label(track);
    let first = place
        .first_of(&source.ring, track)
        .and_then(|it| it.burst());
    let number = match first {
        Some(burst) => Some(burst.first_packet),
        None => source.next_packet(track),
    };
    Start {
        track,
        sequence: label
            .zip(number)
            .map(|(label, number)| label.numbers.sequence(number)),
        timestamp: label
            .zip(first)
            .map(|(label, burst)| label.numbers.timestamp(burst.time, label.clock_rate)),
    }
}
