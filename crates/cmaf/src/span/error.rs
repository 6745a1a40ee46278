use std::ops::Range;
use std::time::Duration;

use crate::reader::ReadError;

/// The reason why there is no file of a span.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpanError {
    /// No file has media within the span.
    #[error(
        "nothing was recorded from {} to {} seconds after 1970-01-01 UTC",
        range.start.as_secs_f64(),
        range.end.as_secs_f64()
    )]
    Empty {
        /// The span that was asked for.
        range: Range<Duration>,
    },
    /// The span has more samples than fit one file.
    #[error("the span has more than {samples} frames and packets: ask for a shorter one")]
    TooLong {
        /// Most samples of a span.
        samples: u64,
    },
    /// A file of the span cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}
