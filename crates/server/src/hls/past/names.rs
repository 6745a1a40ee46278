//! Names of the files of the past: they say where the bytes stand.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use glassline_playback::SegmentPlace;

use super::since_1970;

/// Folder of the files, beside the playlist.
const FOLDER: &str = "past";

/// A file that a playlist of the past names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PastFile {
    /// The initialization of the file that begins then.
    Initialization(SystemTime),
    Segment(SegmentPlace),
}

/// Returns the URI of a segment, relative to the playlist.
pub(super) fn segment(place: &SegmentPlace) -> String {
    let SegmentPlace { offset, bytes, .. } = place;
    format!("{FOLDER}/s{}-{offset}-{bytes}.m4s", micros(place.file))
}

/// Returns the URI of the initialization of the file that begins at `start`, relative to the playlist.
pub(super) fn initialization(start: SystemTime) -> String {
    format!("{FOLDER}/i{}.mp4", micros(start))
}

impl PastFile {
    /// Reads `i1796047385123456.mp4` or `s1796047385123456-952-81734.m4s`.
    pub(super) fn parse(name: &str) -> Option<Self> {
        if let Some(start) = name.strip_prefix('i') {
            return Some(Self::Initialization(start_of(start.strip_suffix(".mp4")?)?));
        }
        let mut fields = name.strip_prefix('s')?.strip_suffix(".m4s")?.split('-');
        let place = SegmentPlace {
            file: start_of(fields.next()?)?,
            offset: number(fields.next()?)?,
            bytes: number(fields.next()?)?,
        };
        fields.next().is_none().then_some(Self::Segment(place))
    }
}

fn micros(at: SystemTime) -> u128 {
    since_1970(at).as_micros()
}

fn start_of(text: &str) -> Option<SystemTime> {
    // Sixteen digits reach the year 2286, and no time that cannot be added to.
    let micros = number(text).filter(|_| text.len() <= 16)?;
    Some(UNIX_EPOCH + Duration::from_micros(micros))
}

fn number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|it| it.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_other_files_are_none() {
        for name in [
            "",
            "s",
            "i.mp4",
            "i1.m4s",
            "s1-2.m4s",
            "s1-2-3-4.m4s",
            "s+1-2-3.m4s",
            "s1-2-99999999999999999999.m4s",
            "i99999999999999999.mp4",
            "ä1.mp4",
        ] {
            assert_eq!(PastFile::parse(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_name_is_read_as_it_was_written(
            micros in 0..9_999_999_999_999_999_u64,
            offset: u64,
            bytes: u64,
        ) {
            let file = UNIX_EPOCH + Duration::from_micros(micros);
            let place = SegmentPlace { file, offset, bytes };
            let read = |uri: String| PastFile::parse(uri.strip_prefix("past/").expect("a folder"));
            prop_assert_eq!(read(segment(&place)), Some(PastFile::Segment(place)));
            prop_assert_eq!(read(initialization(file)), Some(PastFile::Initialization(file)));
        }
    }
}
