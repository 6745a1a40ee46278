//! Rules for a playlist that is loaded repeatedly: the changes that a server may make, and when.

use std::time::Duration;

use super::finding::Findings;
use super::{ROUNDING, rules};
use crate::reader::{HintKind, MediaPlaylist, Part, PlaylistType, Position, Segment, Tag};

/// Follows one media playlist from load to load.
#[derive(Debug, Default)]
pub struct Follower {
    last: Option<MediaPlaylist>,
    /// When a segment was new, and when a part was.
    segment_at: Duration,
    part_at: Duration,
}

/// A load of a playlist.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// Time of the answer, since any moment that stays.
    pub at: Duration,
    /// Time by which the playlist may have been there earlier: the pause between two polls.
    pub uncertainty: Duration,
    /// The full playlist; a delta update is completed before.
    pub playlist: &'a MediaPlaylist,
}

impl Follower {
    /// The playlist of the last load.
    pub const fn last(&self) -> Option<&MediaPlaylist> {
        self.last.as_ref()
    }

    /// Judges a load by the previous load.
    pub fn take(&mut self, load: Load<'_>, findings: &mut Findings) {
        let new = load.playlist;
        if let Some(old) = &self.last {
            heads(old, new, findings);
            segments(old, new, findings);
            removals(old, new, findings);
            hint(old, new, findings);
            self.lateness(old, load, findings);
        }
        let grew = |of: fn(&MediaPlaylist) -> Position| {
            self.last.as_ref().is_none_or(|old| of(new) > of(old))
        };
        let (has_segment, has_part) = (
            grew(|it| Position::new(it.next_sequence(), 0)),
            grew(MediaPlaylist::next_position),
        );
        if has_segment {
            self.segment_at = load.at;
        }
        if has_part {
            self.part_at = load.at;
        }
        self.last = Some(new.clone());
    }

    /// Judges when segments and parts come. A part that is late by less than its own duration may be late
    /// on the way only.
    fn lateness(&self, old: &MediaPlaylist, load: Load<'_>, findings: &mut Findings) {
        let new = load.playlist;
        let Some(target) = new
            .target_duration
            .filter(|_| !old.is_ended && !new.is_ended)
        else {
            return;
        };
        let since = |at: Duration| load.at.saturating_sub(at).saturating_sub(load.uncertainty);
        let without_segment = since(self.segment_at);
        if without_segment > target.mul_f64(1.5) + ROUNDING {
            let what = format!(
                "no new segment came for {:.1} s, and the target duration is {target:?}",
                without_segment.as_secs_f64()
            );
            findings.add(&rules::SEGMENTS_LATE, 0, what);
        }
        let without_part = since(self.part_at);
        if let Some(part_target) = new.part_target.filter(|_| old.has_parts())
            && without_part > 2 * part_target
        {
            let what = format!(
                "no new part came for {:.2} s, and the part target is {part_target:?}",
                without_part.as_secs_f64()
            );
            findings.add(&rules::PARTS_LATE, 0, what);
        }
    }
}

/// Compares the tags that describe the whole playlist.
fn heads(old: &MediaPlaylist, new: &MediaPlaylist, findings: &mut Findings) {
    let line = |tag| new.text.line(tag).unwrap_or(0);
    if old.target_duration != new.target_duration {
        let (before, now) = (
            old.target_duration.unwrap_or_default(),
            new.target_duration.unwrap_or_default(),
        );
        let what = format!("EXT-X-TARGETDURATION was {before:?} and is {now:?}");
        findings.add(&rules::TARGET_CHANGED, line(Tag::TargetDuration), what);
    }
    if old.part_target != new.part_target {
        let (before, now) = (
            old.part_target.unwrap_or_default(),
            new.part_target.unwrap_or_default(),
        );
        let what = format!("PART-TARGET was {before:?} and is {now:?}");
        findings.add(&rules::PART_TARGET_CHANGED, line(Tag::PartInf), what);
    }
    let mut changed = |tag: Tag, is_equal: bool| {
        if !is_equal {
            findings.add(
                &rules::HEAD_CHANGED,
                line(tag),
                format!("{} has changed", tag.name()),
            );
        }
    };
    changed(Tag::Version, old.version == new.version);
    let control = |it: &MediaPlaylist| {
        let mut control = it.server_control.clone();
        if let Some(control) = &mut control {
            // Follows the part target, which has a finding of its own.
            control.part_hold_back = None;
        }
        control
    };
    changed(Tag::ServerControl, control(old) == control(new));
    changed(Tag::PlaylistType, old.kind == new.kind);
    changed(
        Tag::IFramesOnly,
        old.has_i_frames_only == new.has_i_frames_only,
    );
    changed(
        Tag::IndependentSegments,
        old.has_independent_segments == new.has_independent_segments,
    );
    if old.is_ended && !new.is_ended {
        findings.add(
            &rules::END_TAKEN_BACK,
            0,
            "EXT-X-ENDLIST was there and is gone",
        );
    }
    if new.media_sequence < old.media_sequence {
        let what = format!(
            "EXT-X-MEDIA-SEQUENCE was {} and is {}",
            old.media_sequence, new.media_sequence
        );
        findings.add(&rules::SEQUENCE_FELL, line(Tag::MediaSequence), what);
    }
}

/// Compares segments and parts of equal numbers.
fn segments(old: &MediaPlaylist, new: &MediaPlaylist, findings: &mut Findings) {
    if new.media_sequence < old.media_sequence {
        return;
    }
    if new.next_sequence() < old.next_sequence() {
        let what = format!("the last segment was {} and is {}", last(old), last(new));
        findings.add(&rules::SEGMENTS_VANISHED, 0, what);
    }
    let first = new.first_listed().max(old.first_listed());
    let end = new.next_sequence().min(old.next_sequence());
    for sequence in first..end {
        if let (Some(before), Some(now)) = (old.segment(sequence), new.segment(sequence))
            && let Some(what) = difference(before, now)
        {
            findings.add(
                &rules::SEGMENT_CHANGED,
                now.line,
                format!("segment {sequence}: {what}"),
            );
        }
    }
    let first = new.first_listed().max(old.first_listed());
    for sequence in first..=old.next_sequence() {
        parts(sequence, old, new, findings);
    }
    let discontinuities = |it: &MediaPlaylist| {
        let mut number = it.discontinuity_sequence;
        let numbered = it.segments.iter().enumerate().map(|(index, segment)| {
            number += u64::from(segment.is_discontinuity);
            (it.first_listed() + index as u64, number)
        });
        numbered.collect::<std::collections::BTreeMap<_, _>>()
    };
    let (before, now) = (discontinuities(old), discontinuities(new));
    let wrong = now
        .iter()
        .find(|(sequence, number)| before.get(sequence).is_some_and(|it| it != *number));
    if let Some((sequence, number)) = wrong {
        let line = new.text.line(Tag::DiscontinuitySequence).unwrap_or(0);
        let was = before.get(sequence).copied().unwrap_or_default();
        let what = format!(
            "the discontinuity sequence number of segment {sequence} was {was} and is {number}"
        );
        findings.add(&rules::DISCONTINUITY_SEQUENCE_WRONG, line, what);
    }
}

fn last(playlist: &MediaPlaylist) -> u64 {
    playlist.next_sequence().saturating_sub(1)
}

/// The first difference between two states of one segment. Its parts are compared apart.
fn difference(before: &Segment, now: &Segment) -> Option<String> {
    let fields = [
        ("URI", before.uri == now.uri),
        ("duration", before.duration == now.duration),
        ("byte range", before.byte_range == now.byte_range),
        ("date", before.date_time == now.date_time),
        ("EXT-X-GAP", before.is_gap == now.is_gap),
        // A tag of the first segment may be gone with the segments before.
        (
            "EXT-X-MAP",
            before.map.as_deref().map(|it| &it.uri) == now.map.as_deref().map(|it| &it.uri),
        ),
    ];
    let changed = fields.iter().find(|(_, is_equal)| !is_equal)?;
    let shown = |it: &Segment| match changed.0 {
        "URI" => it.uri.clone(),
        "duration" => format!("{:?}", it.duration),
        "date" => it
            .date_time
            .map_or_else(|| "none".to_owned(), |it| it.to_string()),
        "EXT-X-MAP" => it
            .map
            .as_deref()
            .map_or_else(|| "none".to_owned(), |it| it.uri.clone()),
        _ => String::new(),
    };
    Some(match (shown(before), shown(now)) {
        (before, now) if before.is_empty() && now.is_empty() => {
            format!("its {} has changed", changed.0)
        }
        (before, now) => format!("its {} was {before} and is {now}", changed.0),
    })
}

fn parts(sequence: u64, old: &MediaPlaylist, new: &MediaPlaylist, findings: &mut Findings) {
    let (before, now) = (old.parts(sequence), new.parts(sequence));
    let is_other = |old: &Part, new: &Part| {
        old.uri != new.uri
            || old.duration != new.duration
            || old.byte_range != new.byte_range
            || old.is_independent != new.is_independent
    };
    let mut pairs = before.iter().zip(now);
    if let Some((_, part)) = pairs.find(|(old, new)| is_other(old, new)) {
        let what = format!(
            "the part '{}' of segment {sequence} is not as it was",
            part.uri
        );
        findings.add(&rules::PART_CHANGED, part.line, what);
    }
    // All parts of a segment that is old enough go at once.
    let is_cut = now.len() < before.len() && !now.is_empty();
    let is_open = sequence >= new.next_sequence();
    if is_cut
        || (now.is_empty()
            && !before.is_empty()
            && is_open
            && new.next_sequence() == old.next_sequence())
    {
        let what = format!(
            "segment {sequence} had {} parts and has {}",
            before.len(),
            now.len()
        );
        findings.add(&rules::PARTS_VANISHED, 0, what);
    }
}

/// Judges the removal of segments.
fn removals(old: &MediaPlaylist, new: &MediaPlaylist, findings: &mut Findings) {
    if new.media_sequence <= old.media_sequence {
        return;
    }
    if matches!(old.kind, Some(PlaylistType::Event | PlaylistType::Vod)) {
        let what = format!(
            "the first segment was {} and is {}",
            old.media_sequence, new.media_sequence
        );
        findings.add(&rules::REMOVED_FROM_EVENT, 0, what);
    }
    let Some(target) = new
        .target_duration
        .filter(|_| !new.is_ended && new.skip.is_none())
    else {
        return;
    };
    let left: Duration = new.segments.iter().map(|it| it.duration).sum();
    if left + ROUNDING < 3 * target {
        let what = format!(
            "segments were removed, and {left:?} are left of {:?} at least",
            3 * target
        );
        findings.add(&rules::REMOVED_TOO_EARLY, 0, what);
    }
}

/// Compares the part that was hinted at with the part that came.
fn hint(old: &MediaPlaylist, new: &MediaPlaylist, findings: &mut Findings) {
    let Some(hint) = old.hints.iter().find(|it| it.kind == HintKind::Part) else {
        return;
    };
    let next = old.next_position();
    let index = usize::try_from(next.part).unwrap_or(usize::MAX);
    let came = match new.parts(next.sequence).get(index) {
        Some(part) => Some(part),
        // The segment ended with the parts that it had.
        None if new.next_sequence() > next.sequence => new.parts(next.sequence + 1).first(),
        None => None,
    };
    let Some(part) = came else {
        return;
    };
    let offset = part.byte_range.map_or(0, |it| it.offset);
    if part.uri != hint.uri || offset != hint.start {
        let what = format!(
            "the hint was '{}', and the part that came is '{}'",
            hint.uri, part.uri
        );
        findings.add(&rules::HINT_NOT_KEPT, part.line, what);
    }
}
