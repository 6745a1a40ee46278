//! Rules over the answers to delivery directives (§6.2.5).

use std::time::Duration;

use super::finding::Findings;
use super::{ROUNDING, rules};
use crate::reader::{MediaPlaylist, Position};

/// A delivery directive of a blocking reload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Directive {
    /// `_HLS_msn`.
    pub sequence: Option<u64>,
    /// `_HLS_part`.
    pub part: Option<u64>,
}

impl Directive {
    /// The directive that asks for a part.
    pub const fn part(position: Position) -> Self {
        Self {
            sequence: Some(position.sequence),
            part: Some(position.part),
        }
    }

    /// The directive that asks for a whole segment.
    pub const fn segment(sequence: u64) -> Self {
        Self {
            sequence: Some(sequence),
            part: None,
        }
    }

    /// Parameters of the query, in the order that the text wants (§6.3.2).
    pub fn parameters(self) -> Vec<(&'static str, u64)> {
        let both = [("_HLS_msn", self.sequence), ("_HLS_part", self.part)];
        both.into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }
}

/// The answer to a blocking reload.
#[derive(Clone, Copy, Debug)]
pub struct ReloadAnswer<'a> {
    /// The directive of the request.
    pub directive: Directive,
    /// Status of the HTTP response.
    pub status: u16,
    /// Time from the request to the response.
    pub waited: Duration,
    /// The playlist of the response.
    pub playlist: Option<&'a MediaPlaylist>,
    /// The playlist that was known when the request was sent.
    pub before: &'a MediaPlaylist,
}

/// Longest time for an answer that must come at once: a few round trips of a distant server.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Distance beyond the last segment from which on requests must be refused.
const AHEAD_MAX: u64 = 2;

/// Judges the answer to a blocking reload.
pub fn judge_reload(answer: ReloadAnswer<'_>, findings: &mut Findings) {
    let ReloadAnswer {
        directive,
        status,
        waited,
        before,
        ..
    } = answer;
    let asked = shown(directive);
    let Some(sequence) = directive.sequence else {
        if !(400..500).contains(&status) {
            let what = format!("{asked} is answered with {status}");
            findings.add(&rules::PART_WITHOUT_MSN, 0, what);
        }
        return;
    };
    let target = before.target_duration.unwrap_or_default();
    if sequence > before.next_sequence().saturating_add(AHEAD_MAX) {
        if !(400..500).contains(&status) || waited > AT_ONCE {
            let last = before.next_sequence().saturating_sub(1);
            let what = format!(
                "{asked} is answered with {status} after {:.1} s, and the last segment was {last}",
                waited.as_secs_f64()
            );
            findings.add(&rules::TOO_FAR_AHEAD, 0, what);
        }
        return;
    }
    let position = Position::new(sequence, directive.part.unwrap_or(0));
    let is_past = match directive.part {
        Some(_) => before.has(position),
        None => sequence < before.next_sequence(),
    };
    let (true, Some(playlist)) = (status == 200, answer.playlist) else {
        let what = format!(
            "{asked} is answered with {status} after {:.1} s",
            waited.as_secs_f64()
        );
        let rule = if is_past {
            &rules::PAST_NOT_ANSWERED
        } else {
            &rules::RELOAD_FAILED
        };
        return findings.add(rule, 0, what);
    };
    if is_past {
        if waited > AT_ONCE {
            let what = format!(
                "{asked}, which is there, is answered after {:.1} s",
                waited.as_secs_f64()
            );
            findings.add(&rules::PAST_NOT_ANSWERED, 0, what);
        }
        return;
    }
    arrived(directive, position, playlist, &asked, findings);
    if waited > 3 * target + AT_ONCE {
        let what = format!(
            "{asked} is answered after {:.1} s, and the target duration is {target:?}",
            waited.as_secs_f64()
        );
        findings.add(&rules::BLOCKED_TOO_LONG, 0, what);
    }
}

/// Judges whether the answer has the requested segment or part.
fn arrived(
    directive: Directive,
    position: Position,
    playlist: &MediaPlaylist,
    asked: &str,
    findings: &mut Findings,
) {
    if playlist.is_ended {
        return;
    }
    let Position { sequence, .. } = position;
    if !playlist.has(position) {
        let next = playlist.next_position();
        let what = format!(
            "{asked} is answered with a playlist that lacks it: its next part is {} of segment {}",
            next.part, next.sequence
        );
        findings.add(&rules::NOT_BLOCKED, 0, what);
    } else if directive.part.is_none() && sequence >= playlist.next_sequence() {
        let what = format!("{asked} is answered once the segment's first parts are there");
        findings.add(&rules::SEGMENT_NOT_AWAITED, 0, what);
    }
}

fn shown(directive: Directive) -> String {
    let parameters = directive.parameters();
    let each: Vec<_> = parameters
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    each.join("&")
}

/// Judges a delta update. `known`: the playlist that the client had; `full`: the playlist that was loaded
/// without the directive at the same time.
pub fn judge_delta(
    delta: &MediaPlaylist,
    known: &MediaPlaylist,
    full: &MediaPlaylist,
    findings: &mut Findings,
) {
    let Some(boundary) = full
        .server_control
        .as_ref()
        .and_then(|it| it.can_skip_until)
    else {
        return;
    };
    let Some(skip) = &delta.skip else {
        // A segment that ends beyond the boundary had to be skipped, unless the client lacks it.
        let mut rest: Duration = full.segments.iter().map(|it| it.duration).sum();
        let far = full.segments.iter().take_while(|it| {
            rest -= it.duration;
            rest > boundary + ROUNDING
        });
        let listed = full.media_sequence + far.count() as u64;
        let can_skip = listed > full.media_sequence && listed < known.next_sequence();
        if can_skip && !full.is_ended {
            let what = format!(
                "_HLS_skip=YES is answered with a playlist of {} segments and no EXT-X-SKIP",
                delta.segments.len()
            );
            findings.add(&rules::NO_DELTA, 0, what);
        }
        return;
    };
    let listed: Duration = delta.segments.iter().map(|it| it.duration).sum();
    let last_skipped = delta
        .first_listed()
        .checked_sub(1)
        .and_then(|it| known.segment(it).or(full.segment(it)));
    if let Some(skipped) = last_skipped.filter(|_| skip.segments > 0)
        && listed + skipped.duration + ROUNDING < boundary
    {
        let what = format!(
            "a segment is skipped that begins {:?} before the end, and the boundary is {boundary:?}",
            listed + skipped.duration
        );
        findings.add(&rules::SKIPPED_TOO_MUCH, 0, what);
    }
    let Some(whole) = delta.completed_from(known) else {
        // Too much has passed between the two loads, which is the client's fault.
        return;
    };
    let first = whole.first_listed().max(full.first_listed());
    for sequence in first..whole.next_sequence().min(full.next_sequence()) {
        let (Some(one), Some(other)) = (whole.segment(sequence), full.segment(sequence)) else {
            continue;
        };
        let is_equal = one.uri == other.uri
            && one.duration == other.duration
            && one.byte_range == other.byte_range
            && one.date_time == other.date_time
            && one.is_discontinuity == other.is_discontinuity;
        if !is_equal {
            let what = format!(
                "segment {sequence} is '{}' by delta updates and '{}' without",
                one.uri, other.uri
            );
            findings.add(&rules::DELTA_DIFFERS, one.line, what);
        }
    }
    let is_near = whole.media_sequence.abs_diff(full.media_sequence) <= 1
        && whole.next_sequence().abs_diff(full.next_sequence()) <= 1;
    if !is_near || whole.target_duration != full.target_duration {
        let what = format!(
            "the delta update is of segments {} to {}, and the playlist of {} to {}",
            whole.media_sequence,
            whole.next_sequence(),
            full.media_sequence,
            full.next_sequence()
        );
        findings.add(&rules::DELTA_DIFFERS, 0, what);
    }
}
