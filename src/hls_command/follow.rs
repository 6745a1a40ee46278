//! Following one media playlist: reload after reload, with the parts that it hints at.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use glassline_client::hls::{Ask, Fetcher};
use glassline_hls::judge::{
    Directive, Findings, Follower, Load, ReloadAnswer, judge_media, judge_reload, rules,
};
use glassline_hls::reader::{HintKind, MediaPlaylist, Position, PreloadHint};
use url::Url;

use super::load::{Loaded, load};
use super::presentation::{MediaMember, Presentation};

/// Failed reloads in a row after which a playlist is given up.
const FAILURES_MAX: u32 = 4;

/// Pause after a reload that failed, or that brought nothing new at once.
const PAUSE: Duration = Duration::from_millis(250);

/// Hinted parts of a playlist that are asked for ahead.
const HINTS_MAX: usize = 4;

/// Follows a playlist until a moment, or until it ends.
pub(super) fn follow(all: &Presentation, member: &MediaMember, fetcher: &Fetcher, until: Instant) {
    let began = member.first_at;
    let mut following = Following {
        all,
        member,
        fetcher,
        began,
        follower: Follower::default(),
        known: member.first.clone(),
        polled: member.first_at,
        hinted: BTreeSet::new(),
        failures: 0,
    };
    let first = member.first.clone();
    following.take(&first, member.first_at, Duration::ZERO, &member.url);
    std::thread::scope(|scope| {
        while Instant::now() < until
            && !following.known.is_ended
            && following.failures < FAILURES_MAX
        {
            if let Some(hint) = following.next_hint() {
                scope.spawn(move || ask_for_hint(member, fetcher, &hint, until));
            }
            following.reload(until);
        }
    });
}

/// State of a playlist that is followed.
struct Following<'a> {
    all: &'a Presentation,
    member: &'a MediaMember,
    fetcher: &'a Fetcher,
    began: Instant,
    follower: Follower,
    known: MediaPlaylist,
    /// When the last request was sent.
    polled: Instant,
    /// URIs of hints that were asked for.
    hinted: BTreeSet<String>,
    failures: u32,
}

impl Following<'_> {
    fn reload(&mut self, until: Instant) {
        let target = self.known.target_duration.unwrap_or(Duration::from_secs(6));
        let directive = match (self.known.can_block(), self.known.part_target) {
            (true, Some(_)) => Directive::part(self.known.next_position()),
            (true, None) => Directive::segment(self.known.next_sequence()),
            (false, _) => {
                let pause = (target / 2).min(until.saturating_duration_since(Instant::now()));
                std::thread::sleep(pause);
                Directive::default()
            }
        };
        let uncertainty = match directive.sequence {
            Some(_) => Duration::ZERO,
            None => self.polled.elapsed(),
        };
        self.polled = Instant::now();
        let left = until.saturating_duration_since(Instant::now()) + PAUSE;
        let patience = (3 * target + Duration::from_secs(3)).min(left);
        let mut findings = Findings::default();
        let answer = load(
            self.fetcher,
            &self.member.url,
            directive,
            patience,
            self.all.variables(),
            &mut findings,
        );
        self.member.findings.lock().merge(findings);
        let loaded = match answer {
            Ok(loaded) => loaded,
            // The time of the check is over, and not that of the server.
            Err(_) if Instant::now() >= until => return,
            Err(problem) => {
                self.member
                    .findings
                    .lock()
                    .add(&rules::RELOAD_FAILED, 0, problem);
                return self.failed();
            }
        };
        self.judge(directive, &loaded);
        let Some(playlist) = loaded.media() else {
            return self.failed();
        };
        self.failures = 0;
        let is_news = playlist.next_position() > self.known.next_position();
        let (playlist, url) = (playlist.clone(), loaded.url);
        self.take(&playlist, loaded.at, uncertainty, &url);
        if !is_news && directive.sequence.is_some() && !self.known.is_ended {
            // A server that does not block must not be asked in a tight loop.
            std::thread::sleep(PAUSE);
        }
    }

    fn judge(&self, directive: Directive, loaded: &Loaded) {
        let mut findings = self.member.findings.lock();
        if directive.sequence.is_some() {
            let answer = ReloadAnswer {
                directive,
                status: loaded.status,
                waited: loaded.took,
                playlist: loaded.media(),
                before: &self.known,
            };
            judge_reload(answer, &mut findings);
        } else if let Some(problem) = &loaded.problem {
            findings.add(&rules::RELOAD_FAILED, 0, problem.as_str());
        }
    }

    fn take(&mut self, playlist: &MediaPlaylist, at: Instant, uncertainty: Duration, base: &Url) {
        let load = Load {
            at: at.saturating_duration_since(self.began),
            uncertainty,
            playlist,
        };
        {
            let mut findings = self.member.findings.lock();
            judge_media(playlist, &mut findings);
            self.follower.take(load, &mut findings);
        }
        {
            let mut counts = self.member.counts.lock();
            counts.loads += 1;
            counts.segments += playlist
                .next_sequence()
                .saturating_sub(self.known.next_sequence());
            counts.parts += new_parts(&self.known, playlist);
        }
        self.reports(playlist, base);
        if let Some(last) = playlist.last_part() {
            self.all.note(base, last);
            self.all.note(&self.member.url, last);
        }
        self.known = playlist.clone();
    }

    /// Judges the reports of the other renditions: there must be one of each, and each must be about as
    /// new as the playlist that has it.
    fn reports(&self, playlist: &MediaPlaylist, base: &Url) {
        if !playlist.has_parts() || playlist.is_ended {
            return;
        }
        let mut findings = self.member.findings.lock();
        let mut reported = BTreeSet::new();
        for report in &playlist.reports {
            let Some(url) = report.uri.as_ref().and_then(|it| base.join(it).ok()) else {
                findings.add(
                    &rules::REPORT_WRONG,
                    report.line,
                    "EXT-X-RENDITION-REPORT has no URI",
                );
                continue;
            };
            if report.uri.as_ref().is_some_and(|it| it.contains("://")) {
                findings.add(
                    &rules::REPORT_WRONG,
                    report.line,
                    "the URI of EXT-X-RENDITION-REPORT is not relative",
                );
            }
            reported.insert(url.path().to_owned());
            let (Some(seen), Some(sequence)) = (self.all.seen(&url), report.last_sequence) else {
                continue;
            };
            let said = Position::new(sequence, report.last_part.unwrap_or(0));
            // What was seen of the other rendition may be newer by the way of one request.
            let is_stale = said.sequence + 1 < seen.sequence
                || (said.sequence == seen.sequence && said.part + 2 < seen.part)
                || (said.sequence + 1 == seen.sequence && seen.part >= 2);
            if is_stale {
                let what = format!(
                    "the report of '{}' says part {} of segment {}, and part {} of segment {} was there before",
                    report.uri.as_deref().unwrap_or_default(),
                    said.part,
                    said.sequence,
                    seen.part,
                    seen.sequence
                );
                findings.add(&rules::REPORT_STALE, report.line, what);
            }
        }
        for other in self
            .all
            .members()
            .iter()
            .filter(|it| it.url.path() != self.member.url.path())
        {
            if !reported.contains(other.url.path()) && !other.first.has_i_frames_only {
                let what = format!(
                    "the playlist has no EXT-X-RENDITION-REPORT of {}",
                    other.name
                );
                findings.add(&rules::REPORT_MISSING, 0, what);
            }
        }
    }

    /// The hinted part, if it was not asked for and not enough were.
    fn next_hint(&mut self) -> Option<(Url, PreloadHint)> {
        let hint = self
            .known
            .hints
            .iter()
            .find(|it| it.kind == HintKind::Part)?;
        let is_new = self.hinted.len() < HINTS_MAX && self.hinted.insert(hint.uri.clone());
        let url = self.member.url.join(&hint.uri).ok()?;
        is_new.then(|| (url, hint.clone()))
    }

    fn failed(&mut self) {
        self.failures += 1;
        std::thread::sleep(PAUSE);
    }
}

fn new_parts(old: &MediaPlaylist, new: &MediaPlaylist) -> u64 {
    let (from, to) = (old.next_position(), new.next_position());
    if to.sequence == from.sequence {
        return to.part.saturating_sub(from.part);
    }
    let of_closed = (from.sequence..to.sequence)
        .take(64)
        .map(|it| new.parts(it).len() as u64);
    (of_closed.sum::<u64>() + to.part).saturating_sub(from.part)
}

/// Asks for a part before it is there: the server must hold the request.
fn ask_for_hint(
    member: &MediaMember,
    fetcher: &Fetcher,
    hint: &(Url, PreloadHint),
    until: Instant,
) {
    let (url, hint) = hint;
    let target = member
        .first
        .target_duration
        .unwrap_or(Duration::from_secs(6));
    let left = until.saturating_duration_since(Instant::now());
    let patience = (2 * target + Duration::from_secs(2)).min(left);
    let range = (hint.start > 0 || hint.length.is_some()).then_some((hint.start, hint.length));
    let ask = Ask {
        range,
        ..Ask::within(patience)
    };
    let problem = match fetcher.get(url, ask) {
        Ok(fetched) if fetched.status < 300 && !fetched.body.is_empty() => return,
        Ok(fetched) => format!(
            "the hinted part '{}' is answered with {}",
            hint.uri, fetched.status
        ),
        Err(_) if Instant::now() >= until => return,
        Err(error) => error.to_string(),
    };
    member
        .findings
        .lock()
        .add(&rules::HINT_NOT_SERVED, hint.line, problem);
}
