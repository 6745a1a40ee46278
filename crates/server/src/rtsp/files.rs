//! Files of the media folder: found elsewhere, played together or each on its own.
//!
//! A client that just plays from the start joins the reading that all share. One that
//! asks for a place, a scale or a speed gets a reading of its own, whose stream takes
//! the place of the shared one in its session.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_rtsp::mikey::Cipher;
use glassline_rtsp::range::{Npt, Range};
use glassline_rtsp::server::{Answer, Refusal, RequestId, Start};

use super::Command;
use super::client::Session;
use super::setup::{Described, Wanted};
use super::worker::Worker;
use crate::egress::rtsp::cursor::{self, Cursor};
use crate::egress::rtsp::srtp::sealed_sequence;
use crate::ingest::library::{Live, Play, Private, Started, Title};
use crate::runtime::Key;

/// How long a reading may take to begin: a disk that sleeps wakes up in this time.
const START_LIMIT: Duration = Duration::from_secs(8);

/// What a client wanted of a name while it was looked up.
#[derive(Debug)]
pub(super) enum PendingRequest {
    Describe { cipher: Option<Cipher> },
    SetUp(Wanted),
}

/// A name that was looked up in the media folder.
#[derive(Debug)]
pub(super) struct LookupResult {
    pub(super) client: Key,
    pub(super) id: RequestId,
    pub(super) wish: PendingRequest,
    /// `None`: there is no such file, or it cannot be played.
    pub(super) title: Option<Arc<Title>>,
}

/// A session's part in a file.
#[derive(Debug)]
pub(super) struct File {
    pub(super) title: Arc<Title>,
    /// The reading that all share.
    live: Live,
    /// Its own reading, once it asked for one.
    private: Option<Private>,
    /// A PLAY whose reading has not begun yet.
    starting: Option<(RequestId, Instant)>,
}

impl File {
    pub(super) fn new(title: Arc<Title>, live: Live) -> Self {
        Self {
            title,
            live,
            private: None,
            starting: None,
        }
    }

    /// Nobody else plays what it plays.
    pub(super) fn is_private(&self) -> bool {
        self.private.is_some()
    }
}

/// What a client asks PLAY for.
#[derive(Clone, Debug, Default)]
pub(super) struct PlayRequest {
    pub(super) range: Option<Range>,
    pub(super) scale: Option<f64>,
    pub(super) speed: Option<f64>,
}

impl PlayRequest {
    /// From the start, or from now on, as it comes: what all can share.
    fn is_plain(&self) -> bool {
        let from_start = match &self.range {
            None => true,
            Some(range) => range.is_live() || *range == Range::ALL,
        };
        let is_one = |factor: Option<f64>| factor.is_none_or(|it| (it - 1.0).abs() < 1e-3);
        from_start && is_one(self.scale) && is_one(self.speed)
    }

    /// # Errors
    /// A range that no file has.
    fn play(&self, duration: Duration) -> Result<Play, Refusal> {
        let (from, until) = match &self.range {
            None => (None, None),
            Some(Range::Npt { start, end }) => {
                let at = |npt: &Option<Npt>| match npt {
                    Some(Npt::At(at)) => Some(*at),
                    Some(Npt::Now) | None => None,
                };
                // "The end minus" what is said (RFC 2326 §3.6 leaves it open).
                match (at(start), at(end)) {
                    (None, Some(last)) if start.is_none() => {
                        (Some(duration.saturating_sub(last)), None)
                    }
                    both => both,
                }
            }
            Some(_) => return Err(Refusal::InvalidRange),
        };
        if from.is_some_and(|from| from > duration) {
            return Err(Refusal::InvalidRange);
        }
        Ok(Play {
            from,
            until,
            scale: self.scale.unwrap_or(1.0),
            speed: self.speed.unwrap_or(1.0),
            once: true,
        })
    }
}

impl Worker {
    /// Looks `path` up in the media folder, elsewhere; false if there is none.
    pub(super) fn look_up(
        &self,
        client: Key,
        id: RequestId,
        path: &str,
        wish: PendingRequest,
    ) -> bool {
        let Some(library) = self.shared.library.clone() else {
            return false;
        };
        let shared = Arc::clone(&self.shared);
        let (thread, path) = (self.index, path.to_owned());
        self.shared.runtime.spawn(async move {
            let title = match library.find(&path).await {
                Ok(title) => title,
                Err(error) => {
                    tracing::warn!(%error, "asked for over RTSP");
                    None
                }
            };
            let found = LookupResult {
                client,
                id,
                wish,
                title,
            };
            shared.send(thread, Command::LookupResult(Box::new(found)));
        });
        true
    }

    /// Goes on where [`Worker::look_up`] left off.
    pub(super) fn found(&mut self, found: LookupResult, now: Instant) {
        let LookupResult {
            client: key,
            id,
            wish,
            title,
        } = found;
        let answer = match (title, wish) {
            (None, _) => Answer::Refused(Refusal::NotFound),
            (Some(title), PendingRequest::Describe { cipher }) => {
                let described = Described {
                    name: title.name(),
                    tracks: title.tracks(),
                    version: 1,
                    duration: Some(title.duration()),
                    cipher,
                };
                self.description(key, &described, now)
            }
            (Some(title), PendingRequest::SetUp(wanted)) => {
                let session = self.clients.get(key).and_then(|it| it.session.as_deref());
                let stream = session.map(|session| Arc::clone(&session.stream));
                let file = session.and_then(|session| session.file.as_ref());
                match (stream, file) {
                    // A further track of what it has.
                    (Some(stream), Some(file)) if Arc::ptr_eq(&file.title, &title) => {
                        self.set_up_stream(key, &stream, &wanted, now)
                    }
                    (Some(_), _) => Answer::Refused(Refusal::AggregateNotAllowed),
                    (None, _) => self.set_up_file(key, title, &wanted, now),
                }
            }
        };
        if let Some(client) = self.clients.get_mut(key) {
            client.connection.answer(now, id, answer);
            self.serve(key, now);
        }
    }

    fn set_up_file(
        &mut self,
        key: Key,
        title: Arc<Title>,
        wanted: &Wanted,
        now: Instant,
    ) -> Answer {
        let live = title.live();
        let stream = Arc::clone(live.stream());
        let answer = self.set_up_stream(key, &stream, wanted, now);
        let client = self.clients.get_mut(key);
        if let Some(session) = client.and_then(|client| client.session.as_deref_mut()) {
            session.file = Some(File::new(title, live));
        }
        answer
    }

    /// Begins to play a file; the answer, unless it comes with the first frame.
    pub(super) fn play_file(
        &mut self,
        key: Key,
        id: RequestId,
        asked: &PlayRequest,
        now: Instant,
    ) -> Option<Answer> {
        let client = self.clients.get_mut(key)?;
        let session = client.session.as_deref_mut()?;
        let is_multicast = session.is_multicast();
        let file = session.file.as_mut()?;
        // What a group gets is nobody's own.
        if file.private.is_none() && (asked.is_plain() || is_multicast) {
            file.live.play();
            return Some(self.play(key, now));
        }
        let play = match asked.play(file.title.duration()) {
            Ok(play) => play,
            Err(refusal) => return Some(Answer::Refused(refusal)),
        };
        session.rest();
        let file = session.file.as_mut()?;
        file.starting = Some((id, now + START_LIMIT));
        if let Some(private) = &file.private {
            private.play(play);
            return None;
        }
        let private = match file.title.fork(None) {
            Ok(private) => private,
            Err(full) => {
                tracing::warn!(%full, "a client cannot play a file its own way");
                file.starting = None;
                return Some(Answer::Refused(Refusal::NotEnoughBandwidth));
            }
        };
        self.change_source(key, &private, now);
        private.play(play);
        let client = self.clients.get_mut(key)?;
        let file = client.session.as_deref_mut()?.file.as_mut()?;
        file.private = Some(private);
        None
    }

    /// Puts a client's own reading in the place of the shared one.
    fn change_source(&mut self, key: Key, private: &Private, now: Instant) {
        let source = self.source_of(private.stream(), now);
        let Some(session) = self
            .clients
            .get_mut(key)
            .and_then(|client| client.session.as_deref_mut())
        else {
            return;
        };
        let before = std::mem::replace(&mut session.source, source);
        let numbers = self.channels.get(before).map(|it| it.source.going_on());
        if let (Some(channel), Some(numbers)) = (self.channels.get_mut(source), numbers) {
            channel.source.inherit(numbers);
        }
        let Some(session) = self
            .clients
            .get_mut(key)
            .and_then(|client| client.session.as_deref_mut())
        else {
            return;
        };
        session.stream = Arc::clone(private.stream());
        self.leave_source(key, before);
        if let Some(channel) = self.channels.get_mut(source) {
            channel.source.feed.viewers.push(key);
        }
    }

    /// Answers PLAYs whose reading has begun, after something of the stream was read.
    pub(super) fn answer_starts(&mut self, source: Key, now: Instant) {
        let Some(channel) = self.channels.get(source) else {
            return;
        };
        // A client's own stream has that client alone.
        let [key] = channel.source.feed.viewers[..] else {
            return;
        };
        self.answer_start(key, now);
    }

    /// The same for one client, and an end to those that take too long.
    pub(super) fn answer_start(&mut self, key: Key, now: Instant) {
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        let Some(session) = client.session.as_deref_mut() else {
            return;
        };
        let Some(file) = &mut session.file else {
            return;
        };
        let Some((id, until)) = file.starting else {
            return;
        };
        let started = file.private.as_ref().and_then(Private::started);
        let answer = match started {
            Some(Ok(started)) => {
                file.starting = None;
                self.begin_private(key, &started, now)
            }
            Some(Err(failure)) => {
                file.starting = None;
                tracing::warn!(file = file.title.name(), %failure, "cannot be played");
                Answer::Refused(Refusal::Internal)
            }
            None if until <= now => {
                file.starting = None;
                Answer::Refused(Refusal::Unavailable { retry_after: None })
            }
            None => return,
        };
        self.answer_play(key, id, answer, now);
        self.serve(key, now);
    }

    fn begin_private(&mut self, key: Key, started: &Started, now: Instant) -> Answer {
        let Some((client, source)) = self.client_and_source(key) else {
            return Answer::Refused(Refusal::Internal);
        };
        let Some(session) = client.session.as_deref_mut() else {
            return Answer::Refused(Refusal::Internal);
        };
        let tracks = session.tracks();
        let is_new = |track: usize, number: u64| {
            let first = started.first_packets.get(track);
            first.is_none_or(|first| number >= *first)
        };
        let mut entries = source.ring.since(source.ring.first());
        let begin = entries.find_map(|(number, entry)| {
            let burst = entry.burst()?;
            is_new(burst.track, burst.first_packet).then_some(number)
        });
        let begin = begin.unwrap_or(source.ring.end());
        session.place = Some(Cursor::begin_at(begin, tracks, now));
        let stream = Arc::clone(&session.stream);
        session.viewer.get_or_insert_with(|| stream.viewer());
        let set = (0..cursor::TRACKS_MAX).filter(|track| tracks & cursor::bit(*track) != 0);
        let starts = set.map(|track| {
            let label = source.label(track);
            let first = started.first_packets.get(track);
            Start {
                track,
                sequence: sealed_sequence(&session.seals, track).or(label
                    .zip(first)
                    .map(|(label, first)| label.numbers.sequence(*first))),
                timestamp: label.map(|it| it.numbers.timestamp(started.time, it.clock_rate)),
            }
        });
        Answer::Playing {
            range: Some(Range::Npt {
                start: Some(Npt::At(started.from)),
                end: started.until.map(Npt::At),
            }),
            scale: Some(started.scale),
            speed: Some(started.speed),
            starts: starts.collect(),
        }
    }
}

/// Holds a file of the session's own; where it stands then. The shared one goes on.
pub(super) fn pause(session: &mut Session) -> Option<Range> {
    let private = session.file.as_ref()?.private.as_ref()?;
    Some(Range::Npt {
        start: Some(Npt::At(private.pause())),
        end: None,
    })
}
