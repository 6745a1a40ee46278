//! Names that people may give to streams: those of the hub without the paths of the HTTP server,
//! where each stream has its page at `/NAME`.

use glassline_hub::{NameError, StreamName};

/// First segments of paths of the HTTP server, which no stream may have as its name. A test beside
/// the routes compares the list with them.
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

/// Returns `text` as the name of a stream to be made.
///
/// # Errors
/// Returns [`StreamNameError`] with the rule that `text` breaks.
pub fn parse(text: &str) -> Result<StreamName, StreamNameError> {
    if RESERVED.contains(&text) {
        let name = text.to_owned();
        return Err(StreamNameError::Reserved { name });
    }
    Ok(StreamName::parse(text)?)
}

/// Error for a text that cannot be the name of a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamNameError {
    /// The text breaks a rule of all names.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The name is a path of the HTTP server.
    #[error("'{name}' is a path of the HTTP server: choose another stream name")]
    Reserved {
        /// The whole name that was checked.
        name: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_the_http_server_is_no_stream_name() {
        for path in RESERVED {
            let refused = parse(path);
            assert!(
                matches!(refused, Err(StreamNameError::Reserved { .. })),
                "{path}"
            );
        }
        assert!(matches!(parse("a/b"), Err(StreamNameError::Name(_))));
        assert_eq!(
            parse("trust").map(|it| it.to_string()),
            Ok("trust".to_owned())
        );
    }
}
