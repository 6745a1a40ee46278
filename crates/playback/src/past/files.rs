//! The files of a stream next to an instant, on this server and on the others: a stream may have tens of
//! thousands.

use std::time::{Duration, Instant, SystemTime};

use glassline_recording::{CatalogueError, RecordedFile};
use tokio::sync::oneshot;

use super::super::holdings::{Holdings, PlacedFile};
use super::super::missing::Missing;
use super::super::others::{OtherServer, Question, micros};
use super::super::stretch::{JITTER, best_layer};
use super::super::{NoFootage, Subject};

/// Files that are asked for before and after an instant, of all layers together.
const COUNT: u32 = 8;

/// Time for which an answer of other servers holds where files are begun or written, and elsewhere.
const FRESH: Duration = Duration::from_secs(1);
const FRESH_BEFORE_THE_NEWEST: Duration = Duration::from_secs(60);

/// The files of one layer of a stream. What other servers have is asked for ahead of its need where that is
/// known, so that a server that is slow or gone holds nobody up in the middle.
#[derive(Debug)]
pub(super) struct PastFiles {
    of: Subject,
    /// The layer that is played, once there is a file.
    layer: Option<String>,
    /// The answers of other servers that came last.
    known: Option<Neighborhood>,
    coming: Option<oneshot::Receiver<Neighborhood>>,
}

/// The files at which a playback goes on behind the end of one.
#[derive(Debug, Default)]
pub(super) struct Continuation {
    /// The file itself, as it is now.
    pub(super) current: Option<PlacedFile>,
    /// The file that is played next.
    pub(super) next: Option<PlacedFile>,
}

/// The files of other servers from one instant to another, complete as far as servers answer.
#[derive(Debug)]
struct Neighborhood {
    /// The instant around which it was asked for.
    at: SystemTime,
    from: Option<SystemTime>,
    to: Option<SystemTime>,
    files: Vec<PlacedFile>,
    missing: Missing,
    asked: Instant,
}

impl PastFiles {
    pub(super) fn new(of: Subject) -> Self {
        let layer = of.layer.clone();
        Self {
            of,
            layer,
            known: None,
            coming: None,
        }
    }

    pub(super) const fn of(&self) -> &Subject {
        &self.of
    }

    /// Returns the servers that may have more than was found.
    pub(super) fn missing(&self) -> Missing {
        let known = self.known.as_ref();
        known.map(|it| it.missing.clone()).unwrap_or_default()
    }

    /// Asks the other servers what they have around `at`, and waits for their answers.
    pub(super) async fn ask_ahead(&mut self, at: SystemTime) {
        if self.of.others.is_some() {
            self.known = Some(Neighborhood::ask(self.of.clone(), at).await);
        }
    }

    /// Begins to ask the other servers what they have around `at`, unless that is known.
    pub(super) fn expect(&mut self, at: SystemTime) {
        let is_known = |it: &Neighborhood| it.covers(at) && it.is_fresh();
        if self.coming.is_some() || self.known.as_ref().is_some_and(is_known) {
            return;
        }
        if let Some(others) = &self.of.others {
            let (tell, told) = oneshot::channel();
            let of = self.of.clone();
            others.runtime().spawn(async move {
                // The session may have ended.
                let _ = tell.send(Neighborhood::ask(of, at).await);
            });
            self.coming = Some(told);
        }
    }

    /// Returns the last file that begins at or before `at`: one that has something of that instant, if any
    /// has.
    pub(super) fn at_or_before(&mut self, at: SystemTime) -> Result<Option<PlacedFile>, NoFootage> {
        let files = self.near(at)?;
        let begun = files.iter().rev().filter(|it| it.file.start <= at);
        let has = |it: &&PlacedFile| it.file.end() > at;
        let grows = |it: &&PlacedFile| !it.file.is_closed;
        let found = begun.clone().find(has).or(begun.clone().find(grows));
        Ok(found.or(begun.clone().next()).cloned())
    }

    /// Returns the first file that begins after `at`.
    pub(super) fn after(&mut self, at: SystemTime) -> Result<Option<PlacedFile>, NoFootage> {
        let files = self.near(at)?;
        Ok(files.into_iter().find(|it| it.file.start > at))
    }

    /// Returns what follows `current`, which was played up to `end`: the next file of the same server if it
    /// goes on there, or else the first one of any server that has something behind the end.
    pub(super) fn behind(
        &mut self,
        current: &PlacedFile,
        end: SystemTime,
    ) -> Result<Continuation, NoFootage> {
        let files = self.near(current.file.start)?;
        let is_of_one = |it: &&PlacedFile| it.server() == current.server();
        let same = |it: &&PlacedFile| is_of_one(it) && it.file.path == current.file.path;
        let follows = |it: &&PlacedFile| it.file.start > current.file.start;
        let goes_on = |it: &&PlacedFile| is_of_one(it) && it.file.start <= end + JITTER;
        let has_more = |it: &&PlacedFile| !it.file.is_closed || it.file.end() > end;
        let later = files.iter().filter(follows);
        let next = later.clone().find(goes_on);
        let next = next.or_else(|| later.clone().find(has_more));
        Ok(Continuation {
            current: files.iter().find(same).cloned(),
            next: next.cloned(),
        })
    }

    /// Returns how much of the time from one instant to a later one is recorded.
    pub(super) fn recorded_between(
        &mut self,
        from: SystemTime,
        to: SystemTime,
    ) -> Result<Duration, NoFootage> {
        /// Files that are looked at; the rest of a longer way counts as recorded.
        const FILES_MAX: usize = 64;
        let mut next = self.at_or_before(from)?;
        let (mut at, mut sum) = (from, Duration::ZERO);
        for _ in 0..FILES_MAX {
            if let Some(PlacedFile { file, .. }) = &next {
                let end = file.end().min(to);
                sum += end.duration_since(file.start.max(at)).unwrap_or_default();
                at = at.max(end);
            }
            let begun = next.map_or(from, |it| it.file.start.max(from));
            next = self.after(begun)?;
            if next.as_ref().is_none_or(|it| it.file.start >= to) {
                return Ok(sum);
            }
        }
        Ok(sum + to.duration_since(at).unwrap_or_default())
    }

    /// Returns the files next to `at`, by their beginnings. Asks other servers and waits for them if nothing
    /// is known.
    fn near(&mut self, at: SystemTime) -> Result<Vec<PlacedFile>, NoFootage> {
        self.learn(at);
        let mut files = self.here(at)?;
        if let Some(known) = &self.known {
            files.extend(known.files.iter().cloned());
        }
        // Of files that begin at the same time, the one of this server is found before others.
        files.sort_by_key(|it| (it.file.start, it.server.is_none()));
        if !files.is_empty() {
            let of = files.iter().map(|it| &it.file);
            let layer = self.layer.get_or_insert_with(|| best_layer(of));
            files.retain(|it| it.file.layer == *layer);
        }
        Ok(files)
    }

    /// Returns the files of this server next to `at`.
    fn here(&self, at: SystemTime) -> Result<Vec<PlacedFile>, CatalogueError> {
        let (of, layer) = (&self.of, self.layer.as_deref());
        let files = of.catalogue.around(&of.stream, layer, at, COUNT)?;
        let placed = |file: RecordedFile| PlacedFile { file, server: None };
        Ok(files.into_iter().map(placed).collect())
    }

    /// Takes answers that have come, and sees to it that something is known around `at`.
    fn learn(&mut self, at: SystemTime) {
        if let Some(coming) = &mut self.coming {
            match coming.try_recv() {
                Ok(came) => (self.known, self.coming) = (Some(came), None),
                Err(oneshot::error::TryRecvError::Empty) => {}
                Err(oneshot::error::TryRecvError::Closed) => self.coming = None,
            }
        }
        self.expect(at);
        while self.known.as_ref().is_none_or(|it| !it.covers(at)) {
            let Some(coming) = self.coming.take() else {
                return;
            };
            // No answer will come of a runtime that has ended with its server.
            let Ok(came) = coming.blocking_recv() else {
                return;
            };
            self.known = Some(came);
            self.expect(at);
        }
    }
}

impl Neighborhood {
    async fn ask(of: Subject, at: SystemTime) -> Self {
        let asked = Instant::now();
        let question = Question::Around {
            at_us: micros(at),
            layer: of.layer.clone(),
            count: COUNT,
        };
        let answers = of.ask_others(&question, |json| Holdings::parse(json, &of.stream));
        let (answers, missing) = answers.await;
        let mut all = Self {
            at,
            from: None,
            to: None,
            files: Vec::new(),
            missing,
            asked,
        };
        for (server, holdings) in answers {
            all.add(&server, holdings);
        }
        all
    }

    fn add(&mut self, server: &OtherServer, holdings: Holdings) {
        let mut files: Vec<_> = holdings.into_files(server).collect();
        files.sort_by_key(|it| it.file.start);
        let before = files.partition_point(|it| it.file.start <= self.at);
        let first = files.first().filter(|_| before >= COUNT as usize);
        let last = files
            .last()
            .filter(|_| files.len() - before >= COUNT as usize);
        self.from = self.from.max(first.map(|it| it.file.start));
        let to = last.map(|it| it.file.start);
        self.to = [self.to, to].into_iter().flatten().min();
        self.files.extend(files);
    }

    /// Returns whether the files next to `at` are known.
    fn covers(&self, at: SystemTime) -> bool {
        at == self.at || self.from.is_none_or(|it| it <= at) && self.to.is_none_or(|it| at < it)
    }

    fn is_fresh(&self) -> bool {
        let changes = self.to.is_none() || self.files.iter().any(|it| !it.file.is_closed);
        let holds = if changes {
            FRESH
        } else {
            FRESH_BEFORE_THE_NEWEST
        };
        self.asked.elapsed() < holds
    }
}
