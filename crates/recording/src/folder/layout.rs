//! Names of files: `site/cam1/2026-11-30/14-03-05.123Z.mp4`, or `….h.mp4` for the layer `h`.
//!
//! The stream is everything before the last two components, so a stream that is called like a day or a
//! file is no other stream's.

use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use glassline_hub::StreamName;

use crate::utc::{self, Day, TimeOfDay};

/// File of a day's marks.
pub(crate) const MARKS_FILE: &str = "marks.jsonl";

/// File of a day's delays by stage.
pub(crate) const STAGES_FILE: &str = "stages.jsonl";

/// The facts that the name of a file states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilePlace {
    pub(crate) stream: StreamName,
    /// Layer of the video; empty for the best one of each time.
    pub(crate) layer: String,
    /// Time of the first frame, to the millisecond.
    pub(crate) start: SystemTime,
}

impl FilePlace {
    /// Returns the file's path below its folder.
    pub(crate) fn path(&self) -> PathBuf {
        let (_, time) = utc::parts(self.start);
        let layer = match self.layer.as_str() {
            "" => String::new(),
            layer => format!(".{}", plain(layer)),
        };
        day_folder(&self.stream, self.start).join(format!("{time}Z{layer}.mp4"))
    }

    /// Returns the place a millisecond later, for a name that is taken.
    pub(crate) fn next(self) -> Self {
        Self {
            start: self.start + Duration::from_millis(1),
            ..self
        }
    }

    /// Reads the path of a file below its folder; `None` if it is none of ours.
    pub(crate) fn parse(path: &Path) -> Option<Self> {
        let mut components = Vec::new();
        for component in path.components() {
            let Component::Normal(name) = component else {
                return None;
            };
            components.push(name.to_str()?);
        }
        let (file, rest) = components.split_last()?;
        let (day, stream) = rest.split_last()?;
        let name = file.strip_suffix(".mp4")?;
        let (time, layer) = name.split_once('Z')?;
        let layer = match layer {
            "" => "",
            layer => layer.strip_prefix('.')?,
        };
        Some(Self {
            stream: StreamName::parse(&stream.join("/")).ok()?,
            layer: layer.to_owned(),
            start: Day::parse(day)?.at(TimeOfDay::parse(time)?)?,
        })
    }
}

/// Returns the folder of a stream below the folder of recordings.
fn stream_folder(stream: &StreamName) -> PathBuf {
    stream.as_str().split('/').collect()
}

/// Returns the folder of a stream's day.
pub(crate) fn day_folder(stream: &StreamName, at: SystemTime) -> PathBuf {
    let (day, _) = utc::parts(at);
    stream_folder(stream).join(day.to_string())
}

/// Returns a layer's name as a part of a file name. Publishers choose it.
fn plain(layer: &str) -> String {
    let allowed = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '_';
    let shown = |it| if allowed(it) { it } else { '_' };
    layer.chars().take(32).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::UNIX_EPOCH;

    #[test]
    fn a_stream_that_is_called_like_a_day_or_a_file_is_another_stream() {
        let at = UNIX_EPOCH + Duration::from_millis(1_796_047_385_123);
        for (stream, layer) in [
            ("cam", ""),
            ("cam/2026-11-30", "h"),
            ("cam/2026-11-30/14-03-05.123Z.mp4", ""),
        ] {
            let place = FilePlace {
                stream: StreamName::parse(stream).expect("a name"),
                layer: layer.to_owned(),
                start: at,
            };
            assert_eq!(FilePlace::parse(&place.path()), Some(place));
        }
        for strange in [
            "cam/a.mp4",
            "2026-11-30/14-03-05.123Z.mp4",
            "../2026-11-30/14-03-05.123Z.mp4",
        ] {
            assert_eq!(FilePlace::parse(Path::new(strange)), None, "{strange}");
        }
    }

    proptest! {
        #[test]
        fn no_name_of_a_stream_or_layer_leads_out_of_the_folder(
            stream in "[a-zA-Z0-9._~/-]{1,40}",
            layer in ".{0,40}",
            ms in 0..253_402_300_799_999u64,
        ) {
            let Ok(stream) = StreamName::parse(&stream) else {
                return Ok(());
            };
            let start = UNIX_EPOCH + Duration::from_millis(ms);
            let path = FilePlace { stream, layer, start }.path();
            let is_plain = |it| matches!(it, Component::Normal(name) if name != super::super::OWN);
            prop_assert!(path.components().all(is_plain), "{:?}", path);
            let read = FilePlace::parse(&path).expect("our own form");
            prop_assert_eq!(read.start, start);
            prop_assert_eq!(read.path(), path);
        }
    }
}
