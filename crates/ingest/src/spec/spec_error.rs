//! The reasons why a text is not a source.

use glassline_hub::LadderError;

use super::way_out;
use crate::stream_names::StreamNameError;

/// The reason why a text is not a source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The text has no stream name.
    #[error(
        "source '{input}' has no stream name: write NAME={input}, like cam={input} (or just 'demo')"
    )]
    NoName {
        /// The text with its password hidden.
        input: String,
    },
    /// The stream's name is invalid.
    #[error(transparent)]
    Name(StreamNameError),
    /// The URL's scheme is not supported.
    #[error("'{scheme}://' is not supported: {}", way_out(scheme))]
    Scheme {
        /// Scheme of the URL.
        scheme: String,
    },
    /// The command line of a program cannot be understood.
    #[error("{kind} needs a command line, and in this one {why}: write {kind}PROGRAM ARGUMENTS")]
    CommandLine {
        /// Beginning of the source.
        kind: &'static str,
        /// The fault that was found.
        why: String,
    },
    /// The scheme of a URL without two slashes behind it.
    #[error(
        "'{scheme}:' begins a URL, which has two slashes: write {scheme}://HOST/PATH (a file of this \
         name is written ./{scheme}:…)"
    )]
    Slashes {
        /// Scheme of the URL.
        scheme: String,
    },
    /// The text has a user and a password, but is no URL.
    #[error(
        "'{shown}' has a user and a password, but no scheme: write rtsp://… (a file of this name is \
         written ./…)"
    )]
    Login {
        /// The text with its password hidden.
        shown: String,
    },
    /// The text is not a valid URL, or can be read in two ways.
    #[error(transparent)]
    Url(#[from] glassline_url::UrlError),
    /// A source has both a text and layers.
    #[error("`source` and `layers`: name the camera by one of them; `layers` has {0} URLs")]
    SourceAndLayers(usize),
    /// A source has neither a text nor layers.
    #[error("`source` is missing: write `source: rtsp://…`, or `layers` with the URLs of a camera")]
    NeitherSourceNorLayers,
    /// A ladder of a camera whose streams are its layers.
    #[error("`ladder` and `layers`: the camera has lower layers of its own; leave `ladder` out")]
    LadderAndLayers,
    /// The ladder cannot be understood.
    #[error("ladder: {0}")]
    Ladder(#[from] LadderError),
    /// A path in the list of files is empty.
    #[error("a file name is empty in '{list}': write FILE or FILE,FILE")]
    EmptyPath {
        /// The list of files.
        list: String,
    },
    /// The option is unknown for this kind of source.
    #[error("unknown option '{option}': {hint}")]
    Option {
        /// Name of the unknown option.
        option: String,
        /// A similar option, or the list of options.
        hint: String,
    },
    /// The value of an option is out of range.
    #[error("'{value}' is not a value of '{option}': it takes {wanted}")]
    Value {
        /// Name of the option.
        option: &'static str,
        /// Value that the option was given.
        value: String,
        /// The values that the option takes.
        wanted: &'static str,
    },
}
