//! Names that people may give to streams: those of the hub without what the paths of the HTTP server
//! need, where each stream has its page at `/NAME`.
//!
//! ```text
//! /site/cam1/whep/SESSION       the name ends before the first word of a route behind its first part
//!  └─ name ─┘ └ word
//! /api/v1/streams/site/cam1/latency
//! ```
//!
//! No name begins with a part of [`RESERVED`], and no later part is one of [`WORDS`]. So each path is
//! divided in one way only ([`below`]).

use glassline_hub::{NameError, StreamName};

/// First segments of paths of the HTTP server, which no stream may have as the first part of its name.
/// A test beside the routes compares the list with them.
pub const RESERVED: [&str; 8] = [
    "api",
    "call",
    "doSignaling",
    "readyz",
    "whip",
    // Paths of the operators' port. Whatever asks the viewers' port for them is to get an error, and
    // no page.
    "healthz",
    "metrics",
    // Browsers ask for it by themselves.
    "favicon.ico",
];

/// Words that follow a name in paths of the HTTP server, which no later part of a name may be. A test
/// beside the routes compares the list with them.
pub const WORDS: [&str; 19] = [
    "export",
    "frame-code",
    "hls",
    "keyframe",
    "latency",
    "pictures",
    "ptz",
    "publish",
    "publisher",
    "publishing",
    // The egress of docs/guides/add-an-egress.md.
    "raw.h264",
    "recording",
    "restart",
    "snapshot.jpg",
    "stages",
    "talk",
    "timeline",
    "whep",
    "whip",
];

/// Returns `text` as the name of a stream to be made.
///
/// # Errors
/// Returns [`StreamNameError`] with the rule that `text` breaks.
pub fn parse(text: &str) -> Result<StreamName, StreamNameError> {
    let parsed = StreamName::parse(text)?;
    let name = || text.to_owned();
    let mut parts = text.split('/');
    if parts.next().is_some_and(|first| RESERVED.contains(&first)) {
        return Err(StreamNameError::Reserved { name: name() });
    }
    match parts.find(|part| WORDS.contains(part)) {
        Some(word) => Err(StreamNameError::Word {
            name: name(),
            word: word.to_owned(),
        }),
        None => Ok(parsed),
    }
}

/// Returns how many of the segments of a path, which begin with a name, are the name's: all before the
/// first word that follows one.
pub fn below<'a>(segments: impl IntoIterator<Item = &'a str>) -> usize {
    let mut segments = segments.into_iter();
    let has_first = segments.next().is_some();
    let later = segments.take_while(|it| !WORDS.contains(it)).count();
    usize::from(has_first) + later
}

/// Returns whether `name`, which may be the path of a file, stands in paths of the HTTP server with its
/// slashes as they are.
pub fn stands_in_paths(name: &str) -> bool {
    let parts = || name.split('/');
    let begins_route = || parts().next().is_some_and(|it| RESERVED.contains(&it));
    let is_one = parts().count() == 1;
    is_one || below(parts()) == parts().count() && !begins_route()
}

/// Error for a text that cannot be the name of a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamNameError {
    /// The text breaks a rule of all names.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The first part of the name is a path of the HTTP server.
    #[error("'{name}' is a path of the HTTP server: choose another stream name")]
    Reserved {
        /// The whole name that was checked.
        name: String,
    },
    /// A later part of the name is a word that follows names in paths of the HTTP server.
    #[error(
        "'{word}' in stream name '{name}' is a word of the HTTP server's paths: choose another one"
    )]
    Word {
        /// The whole name that was checked.
        name: String,
        /// The part that is such a word.
        word: String,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_path_of_the_http_server_is_no_stream_name() {
        for path in RESERVED {
            for name in [path.to_owned(), format!("{path}/cam")] {
                let refused = parse(&name);
                assert!(
                    matches!(refused, Err(StreamNameError::Reserved { .. })),
                    "{name}"
                );
            }
        }
        for word in WORDS {
            for name in [format!("site/{word}"), format!("site/{word}/cam")] {
                let refused = parse(&name);
                assert!(
                    matches!(refused, Err(StreamNameError::Word { .. })),
                    "{name}"
                );
            }
        }
        assert!(matches!(parse("a//b"), Err(StreamNameError::Name(_))));
        for good in ["trust", "whep", "publish/cam", "site/api", "site/cam1"] {
            assert_eq!(
                parse(good).map(|it| it.to_string()).as_deref(),
                Ok(good),
                "{good}"
            );
        }
    }

    proptest! {
        /// A name, with or without a route below it, is found again in its path.
        #[test]
        fn a_path_is_divided_where_its_name_ends(
            parts in proptest::collection::vec("[a-c]|whep|publish|latency|x[.]y", 1..6),
            word in proptest::option::of(proptest::sample::select(&WORDS[..])),
            rest in proptest::collection::vec("[a-c]|whep|report", 0..3),
        ) {
            let name = parts.join("/");
            prop_assume!(parse(&name).is_ok());
            let rest = word.into_iter().chain(rest.iter().map(String::as_str).filter(|_| word.is_some()));
            let path: Vec<&str> = name.split('/').chain(rest).collect();
            prop_assert_eq!(below(path), parts.len());
        }
    }
}
