//! Stretches of a stream that play as one: continuous, of one layer, and of the same parameters.

use std::time::{Duration, SystemTime};

use glassline_recording::{Beginning, RecordedFile, TimeRange};

use super::holdings::PlacedFile;

/// Largest difference between the end of a file and the beginning of the next one that is no gap: the times
/// of files come from the arrival of frames, which jitters.
pub(super) const JITTER: Duration = Duration::from_millis(500);

/// A stretch of a stream.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// Instant at which it begins.
    pub from: SystemTime,
    /// End of the last frame.
    pub to: SystemTime,
    /// The reason why frames are missing before the stretch, if that is known.
    pub loss: Option<String>,
    /// Its files, the oldest first.
    pub(crate) files: Vec<PlacedFile>,
}

impl Stretch {
    fn of(placed: PlacedFile) -> Self {
        let file = &placed.file;
        let loss = file.beginning.loss().map(|(reason, _)| reason.to_owned());
        Self {
            from: file.start,
            to: file.end(),
            loss,
            files: vec![placed],
        }
    }

    fn goes_on_with(&self, placed: &PlacedFile) -> bool {
        let Some(before) = self.files.last() else {
            return false;
        };
        let (last, next) = (&before.file, &placed.file);
        let is_of_one = before.server() == placed.server();
        let follows = is_of_one && (next.run, next.number) == (last.run, last.number + 1);
        let is_near = next.start <= self.to + JITTER;
        let is_seamless = follows && next.beginning == Beginning::Length;
        let is_alike = next.tracks == last.tracks && next.beginning != Beginning::Parameters;
        is_alike && (is_near || is_seamless)
    }
}

/// Returns the stretches of `files`, which are sorted by their beginnings, within `range`; those of `layer`,
/// or else of the layer that shows most.
pub(super) fn of_files(
    files: Vec<PlacedFile>,
    layer: Option<&str>,
    range: TimeRange,
) -> Vec<Stretch> {
    let layer = match layer {
        Some(layer) => layer.to_owned(),
        None => best_layer(files.iter().map(|it| &it.file)),
    };
    let mut stretches = Vec::<Stretch>::new();
    for placed in files.into_iter().filter(|it| it.file.layer == layer) {
        match stretches.last_mut().filter(|it| it.goes_on_with(&placed)) {
            // A clock that was set back makes files overlap, and so does a takeover.
            Some(stretch) => {
                stretch.to = stretch.to.max(placed.file.end());
                stretch.files.push(placed);
            }
            None => stretches.push(Stretch::of(placed)),
        }
    }
    for stretch in &mut stretches {
        stretch.from = stretch.from.max(range.from);
        stretch.to = stretch.to.min(range.to);
    }
    stretches.retain(|it| it.from < it.to);
    stretches
}

/// Returns the layer that was recorded as the best one of each time, or else the one of the largest thumbnails.
pub(super) fn best_layer<'a>(files: impl IntoIterator<Item = &'a RecordedFile>) -> String {
    let pixels = |file: &RecordedFile| {
        let tracks = file.tracks.iter();
        tracks
            .map(|it| u64::from(it.width) * u64::from(it.height))
            .max()
    };
    let best = files
        .into_iter()
        .max_by_key(|it| (it.layer.is_empty(), pixels(it)));
    best.map(|it| it.layer.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use glassline_hub::StreamName;
    use glassline_recording::{CopyState, RecordedTrack};

    use super::super::always;
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_796_000_000 + seconds)
    }

    fn file(number: u32, start: u64, seconds: u64, beginning: Beginning) -> PlacedFile {
        let file = RecordedFile {
            path: format!("/r/{number}.mp4").into(),
            stream: StreamName::parse("cam").expect("a name"),
            layer: String::new(),
            run: 7,
            number,
            start: at(start),
            duration: Duration::from_secs(seconds),
            bytes: 1000,
            tracks: vec![RecordedTrack {
                codec: "H264".to_owned(),
                is_video: true,
                width: 1280,
                height: 720,
                channels: 1,
            }],
            beginning,
            is_closed: true,
            copy: CopyState::None,
        };
        PlacedFile { file, server: None }
    }

    fn shown(stretches: &[Stretch]) -> Vec<(u64, u64)> {
        let seconds = |it: SystemTime| it.duration_since(at(0)).expect("later").as_secs();
        let shown = stretches
            .iter()
            .map(|it| (seconds(it.from), seconds(it.to)));
        shown.collect()
    }

    #[test]
    fn files_of_a_run_are_one_stretch_and_gaps_and_other_parameters_divide() {
        let files = vec![
            file(0, 0, 60, Beginning::Start),
            file(1, 60, 60, Beginning::Length),
            file(
                2,
                130,
                60,
                Beginning::Loss {
                    reason: "the disk is full".to_owned(),
                    lost_ms: 10_000,
                },
            ),
            file(3, 190, 60, Beginning::Parameters),
            file(4, 252, 60, Beginning::Length),
        ];
        let stretches = of_files(files.clone(), None, always());
        assert_eq!(shown(&stretches), [(0, 120), (130, 190), (190, 312)]);
        assert_eq!(stretches[1].loss.as_deref(), Some("the disk is full"));
        let range = TimeRange {
            from: at(30),
            to: at(140),
        };
        assert_eq!(
            shown(&of_files(files, None, range)),
            [(30, 120), (130, 140)]
        );
    }

    #[test]
    fn one_layer_is_chosen() {
        let with = |layer: &str, width| {
            let mut placed = file(0, 0, 60, Beginning::Start);
            placed.file.layer = layer.to_owned();
            placed.file.tracks[0].width = width;
            placed
        };
        let layers = vec![with("l", 320), with("h", 1280)];
        let chosen = of_files(layers.clone(), None, always());
        assert_eq!(chosen[0].files[0].file.layer, "h");
        let chosen = of_files(layers.clone(), Some("l"), always());
        assert_eq!(chosen[0].files[0].file.layer, "l");
        assert!(of_files(layers, Some("none"), always()).is_empty());
        let best = of_files(vec![with("", 640), with("h", 1280)], None, always());
        assert_eq!(best[0].files[0].file.layer, "");
    }
}
