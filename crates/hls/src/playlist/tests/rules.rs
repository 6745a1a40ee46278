//! The rules of draft-pantos-hls-rfc8216bis that a playlist, and two of them in succession, must keep.
//!
//! The text is read anew here, so that a fault of the writer does not hide itself.

use std::collections::BTreeMap;

/// A playlist as a client reads it.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    head: BTreeMap<String, String>,
    skipped: u64,
    segments: Vec<ReadSegment>,
    /// Parts of the segment that is not complete.
    open: Vec<ReadPart>,
    open_head: Vec<String>,
    hint: Option<String>,
    ended: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct ReadSegment {
    number: u64,
    discontinuity: u64,
    uri: String,
    duration: f64,
    gap: bool,
    head: Vec<String>,
    parts: Vec<ReadPart>,
}

#[derive(Clone, Debug, PartialEq)]
struct ReadPart {
    uri: String,
    duration: f64,
    independent: bool,
}

fn seconds(text: &str) -> f64 {
    text.parse().expect("a number")
}

fn attribute<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, attributes) = line.split_once(':')?;
    let mut found = attributes
        .split(',')
        .filter_map(|it| it.split_once('='))
        .filter(|(key, _)| *key == name);
    let (_, value) = found.next()?;
    Some(value.trim_matches('"'))
}

impl Rules {
    /// Reads a playlist, and checks what one playlist alone must keep.
    pub(super) fn read(text: &str) -> Self {
        let mut read = Self::default();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("#EXTM3U"));
        let (mut parts, mut head) = (Vec::new(), Vec::new());
        let (mut duration, mut gap) = (None, false);
        let mut discontinuity = None;
        for line in lines {
            let (tag, value) = line.split_once(':').unwrap_or((line, ""));
            match tag {
                "#EXT-X-DISCONTINUITY" | "#EXT-X-MAP" | "#EXT-X-PROGRAM-DATE-TIME" => {
                    // They apply to the first part, too, and stand in front of it.
                    assert!(parts.is_empty(), "{line}\n{text}");
                    head.push(line.to_owned());
                }
                "#EXT-X-PART" => parts.push(ReadPart {
                    uri: attribute(line, "URI").expect("a URI").to_owned(),
                    duration: seconds(attribute(line, "DURATION").expect("a duration")),
                    independent: attribute(line, "INDEPENDENT") == Some("YES"),
                }),
                "#EXT-X-GAP" => gap = true,
                "#EXTINF" => duration = Some(seconds(value.trim_end_matches(','))),
                "#EXT-X-SKIP" => {
                    read.skipped = value
                        .trim_start_matches("SKIPPED-SEGMENTS=")
                        .parse()
                        .expect("a number");
                }
                "#EXT-X-PRELOAD-HINT" => {
                    assert_eq!(read.hint, None, "one hint of a type");
                    read.hint = attribute(line, "URI").map(str::to_owned);
                }
                "#EXT-X-ENDLIST" => read.ended = true,
                "#EXT-X-RENDITION-REPORT" => {}
                uri if !uri.starts_with('#') => {
                    let changes = head.iter().filter(|it| *it == "#EXT-X-DISCONTINUITY");
                    let first: u64 = read.number("#EXT-X-DISCONTINUITY-SEQUENCE");
                    let now = discontinuity.unwrap_or(first) + changes.count() as u64;
                    discontinuity = Some(now);
                    let number = read.number("#EXT-X-MEDIA-SEQUENCE")
                        + read.skipped
                        + read.segments.len() as u64;
                    read.segments.push(ReadSegment {
                        number,
                        discontinuity: now,
                        uri: line.to_owned(),
                        duration: duration.take().expect("EXTINF before each segment"),
                        gap: std::mem::take(&mut gap),
                        head: std::mem::take(&mut head),
                        parts: std::mem::take(&mut parts),
                    });
                }
                _ => {
                    assert!(
                        read.segments.is_empty() && parts.is_empty(),
                        "a tag of the whole playlist stands in front: {line}\n{text}"
                    );
                    let before = read.head.insert(tag.to_owned(), value.to_owned());
                    assert_eq!(before, None, "{tag} twice");
                }
            }
        }
        (read.open, read.open_head) = (parts, head);
        read.check(text);
        read
    }

    fn number(&self, tag: &str) -> u64 {
        let value = self.head.get(tag).unwrap_or_else(|| panic!("no {tag}"));
        value.parse().expect("a number")
    }

    fn target(&self) -> f64 {
        self.number("#EXT-X-TARGETDURATION") as f64
    }

    fn control(&self, name: &str) -> f64 {
        let line = format!("control:{}", self.head["#EXT-X-SERVER-CONTROL"]);
        seconds(attribute(&line, name).expect("an attribute"))
    }

    fn part_target(&self) -> f64 {
        let line = format!("part:{}", self.head["#EXT-X-PART-INF"]);
        seconds(attribute(&line, "PART-TARGET").expect("PART-TARGET"))
    }

    fn check(&self, text: &str) {
        let (target, part_target) = (self.target(), self.part_target());
        assert_eq!(self.number("#EXT-X-VERSION"), 9);
        assert!(self.head["#EXT-X-SERVER-CONTROL"].contains("CAN-BLOCK-RELOAD=YES"));
        assert!(self.control("PART-HOLD-BACK") >= 3.0 * part_target - 1e-6);
        assert!(self.control("CAN-SKIP-UNTIL") >= 6.0 * target);
        assert_eq!(self.hint.is_some(), !self.ended, "{text}");
        let mut behind: f64 = self.open.iter().map(|it| it.duration).sum();
        for segment in self.segments.iter().rev() {
            assert!(segment.duration.round() <= target, "{segment:?}");
            behind += segment.duration;
            if !segment.parts.is_empty() {
                // Parts further from the end than three Target Durations are listed no more.
                assert!(behind <= 3.0 * target + 1e-3, "{behind} {text}");
                let sum: f64 = segment.parts.iter().map(|it| it.duration).sum();
                assert!((sum - segment.duration).abs() < 1e-4, "{segment:?}");
            }
            assert!(!segment.gap || segment.parts.is_empty());
            let last = segment.parts.len().saturating_sub(1);
            for (index, part) in segment.parts.iter().enumerate() {
                part.check(part_target, index == last);
            }
        }
        // The last part that is listed may be the final one of its segment, which nobody can see yet.
        let last = self.open.len().saturating_sub(1);
        for (index, part) in self.open.iter().enumerate() {
            part.check(part_target, index == last);
        }
        if self.skipped == 0 {
            let first = self.segments.first().map(|it| &it.head);
            let head = first.unwrap_or(&self.open_head);
            assert!(head.iter().any(|it| it.starts_with("#EXT-X-MAP")), "{text}");
        }
    }

    /// Checks what a playlist must keep of the one that was served before it.
    pub(super) fn check_after(&self, before: &Self) {
        for tag in [
            "#EXT-X-TARGETDURATION",
            "#EXT-X-PART-INF",
            "#EXT-X-SERVER-CONTROL",
        ] {
            assert_eq!(self.head[tag], before.head[tag], "{tag} stays");
        }
        let first = self.number("#EXT-X-MEDIA-SEQUENCE");
        assert!(first >= before.number("#EXT-X-MEDIA-SEQUENCE"));
        let discontinuity = self.number("#EXT-X-DISCONTINUITY-SEQUENCE");
        assert!(discontinuity >= before.number("#EXT-X-DISCONTINUITY-SEQUENCE"));
        for old in before.segments.iter().filter(|it| it.number >= first) {
            let Some(new) = self.segments.iter().find(|it| it.number == old.number) else {
                assert!(self.skipped > 0 || old.number < first, "{old:?} is gone");
                continue;
            };
            let parts = match new.parts.is_empty() {
                true => Vec::new(),
                false => old.parts.clone(),
            };
            let head = match self.segments.first() {
                // The first segment that is listed says its initialization.
                Some(it) if it.number == new.number => new.head.clone(),
                _ => old.head.clone(),
            };
            let same = ReadSegment {
                parts,
                head,
                discontinuity: match self.skipped {
                    0 => old.discontinuity,
                    _ => new.discontinuity,
                },
                ..old.clone()
            };
            assert_eq!(*new, same, "a segment that was listed stays as it was");
        }
        // What was open is continued or completed, and the hint comes true.
        let newer = self.segments.iter().flat_map(|it| &it.parts);
        let parts: Vec<&ReadPart> = newer.chain(&self.open).collect();
        let old = before.open.iter().filter(|it| !parts.contains(it));
        assert!(parts.is_empty() || old.count() == 0 || self.segments.len() > 3);
        if self.removes_nothing_since(before)
            && let Some(hint) = &before.hint
        {
            let position = before.parts().count();
            let all: Vec<&ReadPart> = self.parts().collect();
            if let Some(next) = all.get(position) {
                assert_eq!(&next.uri, hint);
            }
        }
        if first > before.number("#EXT-X-MEDIA-SEQUENCE") && !self.ended {
            let all: f64 = self.segments.iter().map(|it| it.duration).sum();
            assert!(all >= 3.0 * self.target() || self.skipped > 0);
        }
    }

    fn parts(&self) -> impl Iterator<Item = &ReadPart> {
        let complete = self.segments.iter().flat_map(|it| &it.parts);
        complete.chain(&self.open)
    }

    fn removes_nothing_since(&self, before: &Self) -> bool {
        let first = |it: &Self| it.parts().next().map(|it| it.uri.clone());
        self.skipped == 0 && before.skipped == 0 && first(self) == first(before)
    }

    /// Returns numbers and Discontinuity Sequence Numbers of the segments with the date of each.
    pub(super) fn discontinuities(&self) -> Vec<(u64, u64)> {
        let segments = self.segments.iter();
        segments.map(|it| (it.number, it.discontinuity)).collect()
    }

    pub(super) fn last_segment(&self) -> Option<u64> {
        self.segments.last().map(|it| it.number)
    }

    pub(super) fn open_parts(&self) -> usize {
        self.open.len()
    }
}

impl ReadPart {
    fn check(&self, target: f64, is_last: bool) {
        assert!(self.duration <= target + 1e-6, "{self:?}");
        assert!(
            is_last || self.independent || self.duration >= 0.85 * target - 1e-6,
            "{self:?}"
        );
    }
}
