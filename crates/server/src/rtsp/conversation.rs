//! What a client asks for, and what it is told.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::Stream;
use glassline_rtsp::mikey::Cipher;
use glassline_rtsp::range::Range;
use glassline_rtsp::sdp::Description;
use glassline_rtsp::server::{Access, Answer, Closed, Event, Presented, Refusal, RequestId, Start};

use super::access::{self, Decision};
use super::client::Client;
use super::files::{self, PendingRequest, PlayRequest};
use super::setup::{Described, Wanted};
use super::worker::Worker;
use crate::egress::rtsp::cursor::{Cursor, TRACKS_MAX};
use crate::egress::rtsp::srtp::{TrackSrtps, sealed_sequence};
use crate::egress::rtsp::stream_reader::StreamReader;
use crate::ingest::rtsp::Recording;
use crate::runtime::Key;

/// When to ask again for a stream that is not there yet.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// How long a client may take to read the last response.
const LINGER: Duration = Duration::from_secs(2);

/// Who a client says that it is, and for what.
struct Credentials {
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
            Event::Describe { id, path, query } => {
                let cipher = self.cipher_for(key, query.as_deref());
                let answer = self.describe(key, id, &path, cipher, now);
                answer.map(|answer| (id, answer))
            }
            Event::SetUp {
                id,
                path,
                track,
                way,
                access,
                srtp,
                ..
            } => {
                let wanted = Wanted { track, way, srtp };
                let answer = match access {
                    Access::Read => self.set_up(key, id, &path, wanted, now),
                    Access::Publish => Some(self.set_up_recording(key, &wanted, now)),
                };
                answer.map(|answer| (id, answer))
            }
            Event::Play {
                id,
                range,
                scale,
                speed,
            } => {
                let asked = PlayRequest {
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
                let claim = Credentials {
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
    fn describe(
        &mut self,
        key: Key,
        id: RequestId,
        path: &str,
        cipher: Option<Cipher>,
        now: Instant,
    ) -> Option<Answer> {
        let answer = match self.stream(path) {
            Ok(stream) => {
                let described = Described {
                    name: stream.name().as_str(),
                    tracks: &stream.tracks(),
                    version: stream.totals().sources,
                    duration: None,
                    cipher,
                };
                self.description(key, &described, now)
            }
            Err(refusal) => Answer::Refused(refusal),
        };
        self.unless_found_later(key, id, path, answer, PendingRequest::Describe { cipher })
    }

    /// The same for a track that is to be sent.
    fn set_up(
        &mut self,
        key: Key,
        id: RequestId,
        path: &str,
        wanted: Wanted,
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
            Ok(stream) => self.set_up_stream(key, &stream, &wanted, now),
            Err(refusal) => Answer::Refused(refusal),
        };
        self.unless_found_later(key, id, path, answer, PendingRequest::SetUp(wanted))
    }

    /// The answer, unless a file may be what no stream is: then the answer comes later.
    fn unless_found_later(
        &self,
        key: Key,
        id: RequestId,
        path: &str,
        answer: Answer,
        wish: PendingRequest,
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

    fn begin_to_play(&mut self, key: Key, id: RequestId, asked: &PlayRequest, now: Instant) {
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
    fn verify_later(&self, key: Key, id: RequestId, claim: Credentials) {
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
        let anchored = tracks & crate::egress::rtsp::cursor::bit(source.ring.anchor()) != 0;
        let place = session.place.get_or_insert_with(|| match is_multicast {
            // What the group gets next; nobody gets the past.
            true => Cursor::begin_at(source.ring.end(), tracks, now),
            false => Cursor::begin(&source.ring, tracks, anchored, now),
        });
        let set =
            (0..TRACKS_MAX).filter(|track| tracks & crate::egress::rtsp::cursor::bit(*track) != 0);
        let seals = &session.seals;
        let starts = set
            .map(|track| start(source, place, seals, track))
            .collect();
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

    fn push_control(&mut self, key: Key, make: impl Fn(&StreamReader, usize) -> Option<Vec<u8>>) {
        let Some((client, source)) = self.client_and_source(key) else {
            return;
        };
        let Some(session) = client.session.as_deref_mut() else {
            return;
        };
        let seals = &mut session.seals;
        let mut make = |track| {
            let packet = make(source, track)?;
            match seals.get_mut(track) {
                Some(Some(seal)) => seal.control(&packet),
                _ => Some(packet),
            }
        };
        let mut frames = Vec::new();
        for (track, channels) in session.channels.iter().enumerate() {
            if let Some((_, control)) = channels
                && let Some(packet) = make(track)
            {
                glassline_rtsp::interleaved::write_frame(&mut frames, *control, &packet);
            }
        }
        let mut datagrams = Vec::new();
        for (track, target) in session.targets.iter().enumerate() {
            if let Some(target) = target
                && let Some(packet) = make(track)
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

    pub(super) fn client_and_source(
        &mut self,
        key: Key,
    ) -> Option<(&mut Client, &mut StreamReader)> {
        let client = self.clients.get_mut(key)?;
        let source = client.session.as_ref()?.source;
        let channel = self.channels.get_mut(source)?;
        Some((client, &mut channel.source))
    }
}

/// Where a track begins for a client at `place`. Without its first frame the number of
/// the next packet is known, and no time.
fn start(source: &StreamReader, place: &Cursor, seals: &TrackSrtps, track: usize) -> Start {
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
        sequence: sealed_sequence(seals, track).or(label
            .zip(number)
            .map(|(label, number)| label.numbers.sequence(number))),
        timestamp: label
            .zip(first)
            .map(|(label, burst)| label.numbers.timestamp(burst.time, label.clock_rate)),
    }
}
