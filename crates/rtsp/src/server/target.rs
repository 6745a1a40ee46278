use std::net::SocketAddr;

use glassline_media::TrackIndex;

/// The stream or track that a request URI names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Path of the stream: percent-decoded once, without slashes around it.
    pub(super) path: String,
    /// Query of the URI behind `?`, as received.
    pub(super) query: Option<String>,
    /// Index of the track, from `trackID=N` at the end.
    pub(super) track: Option<TrackIndex>,
    /// The stream's URL as the client writes it, without user, track and trailing slash.
    /// Control URLs are relative to it.
    pub(super) base: String,
}

/// Longest path, in bytes; longer ones name no stream.
const PATH_BYTES_MAX: usize = 1024;

impl Target {
    /// Parses an absolute URL or a path.
    ///
    /// Returns `None` for a path that could lead outside of the server's streams (`..`, NUL,
    /// backslash, control characters, empty parts), that is not UTF-8, or that has a malformed
    /// `%`.
    ///
    /// Players append controls in two ways where the URL has a query: `cam?a=b/trackID=0`
    /// (ffmpeg, live555) and `cam/trackID=0?a=b` (GStreamer). Both are read. Trailing slashes,
    /// which `Content-Base` causes, are ignored.
    pub(super) fn parse(uri: &str, local: SocketAddr) -> Option<Self> {
        let (scheme, rest) = match uri.split_once("://") {
            Some((scheme, rest)) if is_scheme(scheme) => (scheme, rest),
            _ if uri.starts_with('/') => ("rtsp", uri),
            _ => return None,
        };
        let path_at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(path_at);
        // Some players put a slash between a host and a path that begins with one.
        let slashes = rest.len() - rest.trim_start_matches('/').len();
        let rest = &rest[slashes.saturating_sub(1)..];
        let host = match authority.rsplit_once('@') {
            Some((_, host)) => host.to_owned(),
            None if authority.is_empty() => local.to_string(),
            None => authority.to_owned(),
        };
        let (rest, track_behind) = strip_track(trim_slashes(rest));
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(trim_slashes(query))),
            None => (rest, None),
        };
        let (path, track_within) = strip_track(trim_slashes(path));
        let decoded = decode(path.strip_prefix('/').unwrap_or(path))?;
        let question = query.map_or_else(String::new, |query| format!("?{query}"));
        is_harmless(&decoded).then(|| Self {
            path: decoded,
            query: query.map(str::to_owned),
            track: track_behind.or(track_within),
            base: format!("{scheme}://{host}{path}{question}"),
        })
    }
}

impl Target {
    /// Returns the instant of the stream's recordings that the URL names: `?at=`.
    pub(super) fn at(&self) -> Option<&str> {
        let pairs = self.query.as_deref()?.split('&');
        pairs.into_iter().find_map(|pair| pair.strip_prefix("at="))
    }
}

fn is_scheme(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn trim_slashes(text: &str) -> &str {
    text.trim_end_matches('/')
}

/// Splits `/trackID=N` off the end.
fn strip_track(text: &str) -> (&str, Option<TrackIndex>) {
    const KEY: &str = "trackID=";
    let track = text.rsplit_once('/').and_then(|(before, last)| {
        let key = last.get(..KEY.len())?;
        let number = &last[KEY.len()..];
        let digits = number.len() <= 3 && number.bytes().all(|byte| byte.is_ascii_digit());
        let number = number.parse().ok().filter(|_| digits)?;
        key.eq_ignore_ascii_case(KEY).then_some((before, number))
    });
    match track {
        Some((before, number)) => (trim_slashes(before), Some(TrackIndex(number))),
        None => (text, None),
    }
}

/// Percent-decodes once; `None` if the path is too long or malformed.
fn decode(text: &str) -> Option<String> {
    if text.len() > PATH_BYTES_MAX {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, tail) = rest.split_at_checked(2)?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let value = digit(digits[0])? * 16 + digit(digits[1])?;
        bytes.push(u8::try_from(value).ok()?);
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}

/// Returns whether a decoded path stays below the server's root.
fn is_harmless(path: &str) -> bool {
    let part_is_name = |part: &str| !matches!(part, "" | "." | "..");
    let empty = path.is_empty();
    !path.contains(|c: char| c == '\\' || c.is_control())
        && (empty || path.split('/').all(part_is_name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn local() -> SocketAddr {
        "192.0.2.1:8554".parse().expect("an address")
    }

    fn target(uri: &str) -> Target {
        Target::parse(uri, local()).unwrap_or_else(|| panic!("{uri}"))
    }

    #[test]
    fn urls_are_read_as_players_write_them() {
        let cases = [
            ("rtsp://h:8554/cam", "cam", None, None, "rtsp://h:8554/cam"),
            ("rtsp://h:8554/cam/", "cam", None, None, "rtsp://h:8554/cam"),
            (
                "rtsp://h/cam/trackID=1",
                "cam",
                None,
                Some(1),
                "rtsp://h/cam",
            ),
            (
                "rtsp://h/a/b.mkv/trackid=0/",
                "a/b.mkv",
                None,
                Some(0),
                "rtsp://h/a/b.mkv",
            ),
            // ffmpeg and live555, then GStreamer.
            (
                "rtsp://h/cam?x=1/trackID=2",
                "cam",
                Some("x=1"),
                Some(2),
                "rtsp://h/cam?x=1",
            ),
            (
                "rtsp://h/cam/trackID=2?x=1",
                "cam",
                Some("x=1"),
                Some(2),
                "rtsp://h/cam?x=1",
            ),
            (
                "rtsp://h/cam?x=1/",
                "cam",
                Some("x=1"),
                None,
                "rtsp://h/cam?x=1",
            ),
            ("rtsps://u:p%40@h/cam", "cam", None, None, "rtsps://h/cam"),
            ("/cam", "cam", None, None, "rtsp://192.0.2.1:8554/cam"),
            (
                "rtsp://h/my%20cam",
                "my cam",
                None,
                None,
                "rtsp://h/my%20cam",
            ),
            (
                "rtsp://h/K%C3%BCche",
                "Küche",
                None,
                None,
                "rtsp://h/K%C3%BCche",
            ),
            ("rtsp://h?///", "", Some(""), None, "rtsp://h?"),
            ("rtsp://h//cam", "cam", None, None, "rtsp://h/cam"),
            (
                "rtsp://h///cam/trackID=1",
                "cam",
                None,
                Some(1),
                "rtsp://h/cam",
            ),
            ("rtsp://h", "", None, None, "rtsp://h"),
            ("rtsp://h/", "", None, None, "rtsp://h"),
            (
                "rtsp://h/cam/trackID=9999",
                "cam/trackID=9999",
                None,
                None,
                "rtsp://h/cam/trackID=9999",
            ),
        ];
        for (uri, path, query, track, base) in cases {
            let expected = Target {
                path: path.to_owned(),
                query: query.map(str::to_owned),
                track: track.map(TrackIndex),
                base: base.to_owned(),
            };
            assert_eq!(target(uri), expected, "{uri}");
        }
    }

    #[test]
    fn no_path_leads_elsewhere() {
        for uri in [
            "rtsp://h/../etc/passwd",
            "rtsp://h/a/../../b",
            "rtsp://h/%2e%2e/b",
            "rtsp://h/a%2f..%2fb",
            "rtsp://h/a/./b",
            "rtsp://h/a//b",
            "rtsp://h/a%00.mkv",
            "rtsp://h/a\\b",
            "rtsp://h/a%5cb",
            "rtsp://h/%0d%0aEvil:%201",
            "rtsp://h/%ff",
            "rtsp://h/%4",
            "rtsp://h/%zz",
            "rtsp://h/%+1",
            "cam",
            "",
            "*",
            "://h/cam",
        ] {
            assert_eq!(Target::parse(uri, local()), None, "{uri}");
        }
        assert_eq!(target("rtsp://h/%252e%252e/b").path, "%2e%2e/b", "once");
        let long = format!("rtsp://h/{}", "a".repeat(PATH_BYTES_MAX + 1));
        assert_eq!(Target::parse(&long, local()), None);
    }

    proptest! {
        #[test]
        fn what_is_read_is_below_the_root(
            uri in "(rtsp://h)?(/|\\.\\.|\\.|%2e|%2f|%|a|\\\\|\\?|trackID=|1|\\PC){0,24}",
        ) {
            if let Some(target) = Target::parse(&uri, local()) {
                prop_assert!(!target.path.starts_with('/') && !target.path.ends_with('/'));
                prop_assert!(target.path.split('/').all(|part| part != ".." && part != "."));
                // Controls hang on the base: it must name the same stream.
                let again = Target::parse(&format!("{}/trackID=7", target.base), local());
                if target.track.is_none() {
                    let again = again.expect("a target");
                    prop_assert_eq!((&again.path, &again.query), (&target.path, &target.query));
                    prop_assert_eq!(again.track, Some(TrackIndex(7)));
                }
            }
        }
    }
}
