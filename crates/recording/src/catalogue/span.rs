//! Continuous stretches of a stream, of the files that it has.

use std::time::{Duration, SystemTime};

use super::file::{RecordedFile, TimeRange};

/// Largest difference between the end of a file and the beginning of the next one that is no gap: times
/// of files come from the arrival of frames, which jitters.
const JITTER: Duration = Duration::from_millis(500);

/// A continuous stretch of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Instant at which it begins.
    pub from: SystemTime,
    /// End of the last frame.
    pub to: SystemTime,
    /// The reason why frames are missing before the span, if that is known; `None` if the recording, or
    /// the stream, began here.
    pub loss_before: Option<String>,
}

/// Returns the spans within `range` of files that are sorted by their beginnings.
pub(super) fn of_files(files: &[RecordedFile], range: TimeRange) -> Vec<Span> {
    let mut spans = Vec::<Span>::new();
    let mut newest: Option<(u64, u32)> = None;
    for file in files {
        let place = (file.run, file.number);
        let follows = newest.is_some_and(|(run, number)| place == (run, number + 1));
        newest = Some(place);
        let (from, to) = (file.start.max(range.from), file.end().min(range.to));
        let goes_on = |span: &&mut Span| {
            let reached = from <= span.to + JITTER;
            reached || follows && file.beginning.is_seamless()
        };
        match spans.last_mut().filter(goes_on) {
            // A clock that was set back makes files overlap.
            Some(span) => span.to = span.to.max(to),
            None => spans.push(Span {
                from,
                to,
                loss_before: file.beginning.loss().map(|(reason, _)| reason.to_owned()),
            }),
        }
    }
    spans
}
