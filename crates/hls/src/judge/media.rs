//! Rules over one media playlist.

use std::time::Duration;

use super::finding::Findings;
use super::{ROUNDING, rules, version};
use crate::reader::{DateTime, HintKind, MediaPlaylist, Part, Segment, Tag};

/// Greatest discontinuity sequence number that is no finding.
const DISCONTINUITY_SEQUENCE_MAX: u64 = 10_000_000;

/// Drift between dates and durations of two segments that is no finding: a few frames.
const DRIFT_MAX_S: f64 = 0.1;

/// Judges a media playlist by itself.
pub fn judge_media(playlist: &MediaPlaylist, findings: &mut Findings) {
    version::judge_media(playlist, findings);
    let Some(target) = playlist.target_duration else {
        findings.add(
            &rules::NO_TARGET_DURATION,
            0,
            "the playlist has no EXT-X-TARGETDURATION",
        );
        return;
    };
    segments(playlist, target, findings);
    server_control(playlist, target, findings);
    if playlist.has_parts() {
        parts(playlist, target, findings);
    }
    hints(playlist, findings);
    dates(playlist, findings);
    date_ranges(playlist, findings);
    start(playlist, target, findings);
}

fn segments(playlist: &MediaPlaylist, target: Duration, findings: &mut Findings) {
    // Before version 6, the target is a bound; from 6 on, rounded durations are bounded (§8).
    let is_rounded = playlist.version.unwrap_or(1) >= 6;
    let most = if is_rounded {
        target + Duration::from_millis(500)
    } else {
        target + ROUNDING
    };
    for segment in playlist.segments.iter().filter(|it| !it.is_gap) {
        let is_too_long = match is_rounded {
            true => segment.duration >= most,
            false => segment.duration > most,
        };
        if is_too_long {
            let what = format!(
                "the segment has {:?}, and the target duration is {target:?}",
                segment.duration
            );
            findings.add(&rules::SEGMENT_TOO_LONG, segment.line, what);
        }
        if segment.map.is_none() && playlist.skip.is_none() && is_fragment(&segment.uri) {
            let what = format!("the segment '{}' has no EXT-X-MAP", segment.uri);
            findings.add(&rules::NO_MAP, segment.line, what);
        }
    }
    if playlist.discontinuity_sequence > DISCONTINUITY_SEQUENCE_MAX {
        let line = playlist.text.line(Tag::DiscontinuitySequence).unwrap_or(0);
        let number = playlist.discontinuity_sequence;
        let what = format!("EXT-X-DISCONTINUITY-SEQUENCE is {number}");
        findings.add(&rules::DISCONTINUITY_SEQUENCE_LARGE, line, what);
    }
    if playlist.kind.is_some() && playlist.media_sequence > 0 {
        let line = playlist.text.line(Tag::PlaylistType).unwrap_or(0);
        let what = format!(
            "segments were removed (the first one is {}), and the playlist has a type",
            playlist.media_sequence
        );
        findings.add(&rules::LIVE_WITH_TYPE, line, what);
    }
    if playlist.text.has_fractions && playlist.version.unwrap_or(1) < 3 {
        let line = playlist.text.line(Tag::ExtInf).unwrap_or(0);
        findings.add(
            &rules::FRACTION_IN_OLD_VERSION,
            line,
            "durations have fractions before version 3",
        );
    }
}

/// Whether a URI is of a fragment of MP4, by its name.
fn is_fragment(uri: &str) -> bool {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let extension = path.rsplit_once('.').map_or("", |(_, it)| it);
    ["mp4", "m4s", "m4v", "m4a", "cmfv", "cmfa"]
        .iter()
        .any(|it| extension.eq_ignore_ascii_case(it))
}

fn server_control(playlist: &MediaPlaylist, target: Duration, findings: &mut Findings) {
    let text = &playlist.text;
    let line = text.line(Tag::ServerControl).unwrap_or(0);
    let control = playlist.server_control.clone().unwrap_or_default();
    if let Some(until) = control.can_skip_until
        && until + ROUNDING < 6 * target
    {
        let what = format!(
            "CAN-SKIP-UNTIL is {until:?}, and six target durations are {:?}",
            6 * target
        );
        findings.add(&rules::SKIP_BOUNDARY_TOO_SHORT, line, what);
    }
    if control.can_skip_date_ranges && control.can_skip_until.is_none() {
        findings.add(
            &rules::SKIP_DATERANGES_ALONE,
            line,
            "CAN-SKIP-DATERANGES stands without CAN-SKIP-UNTIL",
        );
    }
    if let Some(hold_back) = control.hold_back
        && hold_back + ROUNDING < 3 * target
    {
        let what = format!(
            "HOLD-BACK is {hold_back:?}, and three target durations are {:?}",
            3 * target
        );
        findings.add(&rules::HOLD_BACK_TOO_SHORT, line, what);
    }
    let Some(part_target) = playlist.part_target else {
        return;
    };
    match control.part_hold_back {
        None => {
            let line = text.line(Tag::PartInf).unwrap_or(0);
            findings.add(
                &rules::NO_PART_HOLD_BACK,
                line,
                "EXT-X-PART-INF stands without PART-HOLD-BACK",
            );
        }
        Some(hold_back) if hold_back + ROUNDING < 2 * part_target => {
            let what = format!(
                "PART-HOLD-BACK is {hold_back:?}, less than twice the part target of {part_target:?}"
            );
            findings.add(&rules::PART_HOLD_BACK_TOO_SHORT, line, what);
        }
        Some(hold_back) if hold_back + ROUNDING < 3 * part_target => {
            let what = format!(
                "PART-HOLD-BACK is {hold_back:?}, less than three times the part target of {part_target:?}"
            );
            findings.add(&rules::PART_HOLD_BACK_SHORT, line, what);
        }
        Some(_) => {}
    }
}

fn parts(playlist: &MediaPlaylist, target: Duration, findings: &mut Findings) {
    if playlist.has_i_frames_only {
        let line = playlist.text.line(Tag::Part).unwrap_or(0);
        findings.add(
            &rules::PARTS_OF_I_FRAMES,
            line,
            "an I-frame playlist has parts",
        );
    }
    let Some(part_target) = playlist.part_target else {
        let line = playlist.text.line(Tag::Part).unwrap_or(0);
        findings.add(
            &rules::NO_PART_INF,
            line,
            "EXT-X-PART stands without EXT-X-PART-INF",
        );
        return;
    };
    for segment in &playlist.segments {
        part_durations(&segment.parts, part_target, findings);
        segment_of_parts(segment, findings);
    }
    part_durations(&playlist.open.parts, part_target, findings);
    // From the end back, parts belong to the segments within three target durations.
    let mut from_end: Duration = playlist.open.parts.iter().map(|it| it.duration).sum();
    for segment in playlist.segments.iter().rev() {
        if let Some(part) = segment.parts.first()
            && from_end > 3 * target + ROUNDING
        {
            let what = format!(
                "the part is {from_end:?} and more from the end, and three target durations are {:?}",
                3 * target
            );
            findings.add(&rules::PARTS_TOO_OLD, part.line, what);
        }
        from_end += segment.duration;
    }
}

/// Judges the durations of a segment's parts. The last part, also that of an open segment, may be short.
fn part_durations(parts: &[Part], target: Duration, findings: &mut Findings) {
    let least = target.mul_f64(0.85);
    for (index, part) in parts.iter().enumerate() {
        if part.duration > target + ROUNDING {
            let what = format!(
                "the part has {:?}, and the part target is {target:?}",
                part.duration
            );
            findings.add(&rules::PART_TOO_LONG, part.line, what);
        }
        let next = parts.get(index + 1);
        let is_excepted = part.is_independent
            || part.is_gap
            || next.is_none()
            || next.is_some_and(|it| it.is_gap);
        if !is_excepted && part.duration + ROUNDING < least {
            let what = format!(
                "the part has {:?}, less than 85 % of the part target of {target:?}",
                part.duration
            );
            findings.add(&rules::PART_TOO_SHORT, part.line, what);
        }
    }
}

/// Compares a segment with its parts, if all of them may be there.
fn segment_of_parts(segment: &Segment, findings: &mut Findings) {
    if segment.parts.is_empty() || segment.is_gap {
        return;
    }
    let sum: Duration = segment.parts.iter().map(|it| it.duration).sum();
    // Each part may be rounded.
    let tolerance = ROUNDING * u32::try_from(segment.parts.len() + 1).unwrap_or(u32::MAX);
    if sum.abs_diff(segment.duration) > tolerance {
        let count = segment.parts.len();
        let what = format!(
            "the segment has {:?}, and its {count} parts have {sum:?}",
            segment.duration
        );
        findings.add(&rules::PARTS_DIFFER_FROM_SEGMENT, segment.line, what);
    }
}

fn hints(playlist: &MediaPlaylist, findings: &mut Findings) {
    let first = |kind| playlist.hints.iter().find(|it| it.kind == kind);
    if let (true, Some(hint)) = (playlist.is_ended, playlist.hints.first()) {
        findings.add(
            &rules::HINT_WITH_END,
            hint.line,
            "the playlist has ended, and has EXT-X-PRELOAD-HINT",
        );
    }
    if playlist.has_parts() && !playlist.is_ended && first(HintKind::Part).is_none() {
        findings.add(
            &rules::NO_HINT,
            0,
            "the playlist has parts and no EXT-X-PRELOAD-HINT for the next one",
        );
    }
    for kind in [HintKind::Part, HintKind::Map] {
        if let Some(second) = playlist.hints.iter().filter(|it| it.kind == kind).nth(1) {
            let what = format!("EXT-X-PRELOAD-HINT of type {kind:?} stands twice");
            findings.add(&rules::HINT_TWICE, second.line, what);
        }
    }
}

fn dates(playlist: &MediaPlaylist, findings: &mut Findings) {
    let has_dates = playlist.text.line(Tag::ProgramDateTime).is_some();
    if playlist.part_target.is_some() && !has_dates && playlist.skip.is_none() {
        findings.add(
            &rules::NO_DATES,
            0,
            "the playlist has parts and no EXT-X-PROGRAM-DATE-TIME",
        );
    }
    if !has_dates {
        return;
    }
    let mut before: Option<(DateTime, Duration)> = None;
    for segment in &playlist.segments {
        if segment.is_discontinuity && segment.date_time.is_none() {
            findings.add(
                &rules::NO_DATE_AT_DISCONTINUITY,
                segment.line,
                "the segment behind EXT-X-DISCONTINUITY has no date",
            );
        }
        if let (Some(date), Some((start, span))) = (segment.date_time, before) {
            let drift = date.seconds_since(start) - span.as_secs_f64();
            if drift <= -1.0 {
                let what = format!(
                    "the segment begins at {date}, {:.3} s before the end of the one before",
                    -drift
                );
                findings.add(&rules::DATES_OVERLAP, segment.line, what);
            } else if drift.abs() > DRIFT_MAX_S && !segment.is_discontinuity {
                let what = format!(
                    "the date of the segment is {drift:+.3} s beside what the durations before it say"
                );
                findings.add(&rules::DATES_DRIFT, segment.line, what);
            }
        }
        before = match (segment.date_time, before) {
            (Some(date), _) => Some((date, segment.duration)),
            (None, Some((start, span))) => Some((start, span + segment.duration)),
            (None, None) => None,
        };
    }
}

fn date_ranges(playlist: &MediaPlaylist, findings: &mut Findings) {
    let Some(first) = playlist.date_ranges.first() else {
        return;
    };
    if playlist.text.line(Tag::ProgramDateTime).is_none() && playlist.skip.is_none() {
        findings.add(
            &rules::DATE_RANGE_WITHOUT_DATES,
            first.line,
            "EXT-X-DATERANGE stands without EXT-X-PROGRAM-DATE-TIME",
        );
    }
    let mut known = std::collections::BTreeMap::new();
    for range in &playlist.date_ranges {
        let mut wrong = |what: String| findings.add(&rules::DATE_RANGE_WRONG, range.line, what);
        if let (Some(start), Some(end)) = (range.start, range.end) {
            let span = end.seconds_since(start);
            if span < 0.0 {
                wrong(format!(
                    "the date range '{}' ends before it begins",
                    range.id
                ));
            }
            if let Some(duration) = range.duration
                && (span - duration.as_secs_f64()).abs() > 0.001
            {
                wrong(format!(
                    "END-DATE of '{}' is not START-DATE plus DURATION",
                    range.id
                ));
            }
        }
        if range.is_ended_by_next {
            if range.class.is_none() {
                wrong(format!(
                    "END-ON-NEXT of '{}' stands without CLASS",
                    range.id
                ));
            }
            if range.duration.is_some() || range.end.is_some() {
                wrong(format!(
                    "END-ON-NEXT of '{}' stands beside DURATION or END-DATE",
                    range.id
                ));
            }
        }
        for (name, value) in &range.attributes {
            let before = known.entry((&range.id, name)).or_insert(value);
            if *before != value {
                wrong(format!(
                    "{name} of the date range '{}' has two values",
                    range.id
                ));
            }
        }
    }
}

fn start(playlist: &MediaPlaylist, target: Duration, findings: &mut Findings) {
    let Some(start) = playlist.start.filter(|_| !playlist.is_ended) else {
        return;
    };
    let duration = playlist.duration();
    let from_end = match start.is_from_end {
        true => start.offset,
        false => duration.saturating_sub(start.offset),
    };
    if from_end < 3 * target {
        let line = playlist.text.line(Tag::Start).unwrap_or(0);
        let what = format!(
            "TIME-OFFSET leads {from_end:?} before the end, and three target durations are {:?}",
            3 * target
        );
        findings.add(&rules::START_NEAR_END, line, what);
    }
}
