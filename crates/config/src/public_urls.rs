//! The addresses under which viewers reach this server of a cluster.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// Longest address in bytes; the record that other servers read has room for twice as much.
const BYTES_MAX: usize = 256;

/// The addresses under which viewers reach this server, to which other servers redirect them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PublicUrls {
    /// Address of the pages and of WHEP, like `https://node-1.example:8443`, with a path or not.
    /// Null lets no HTTP viewer be redirected here.
    #[serde(deserialize_with = "over_http")]
    pub http: Option<String>,
    /// Address of RTSP, `rtsp://HOST:PORT` or `rtsps://HOST:PORT`. Null lets no RTSP viewer be
    /// redirected here.
    #[serde(deserialize_with = "over_rtsp")]
    pub rtsp: Option<String>,
}

/// A text is no address for viewers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is no address for viewers: give {wanted}, without user, query and fragment")]
pub struct PublicUrlError {
    /// Beginning of the text.
    pub text: String,
    /// The forms that are accepted.
    pub wanted: &'static str,
}

fn over_http<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    let read = |text: String| {
        base(
            &text,
            &["http", "https"],
            "http://HOST:PORT or https://HOST:PORT",
        )
    };
    text.map(read).transpose().map_err(D::Error::custom)
}

fn over_rtsp<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    let read = |text: String| {
        base(
            &text,
            &["rtsp", "rtsps"],
            "rtsp://HOST:PORT or rtsps://HOST:PORT",
        )
    };
    text.map(read).transpose().map_err(D::Error::custom)
}

/// Returns an address of one of `schemes` without a slash at its end.
fn base(text: &str, schemes: &[&str], wanted: &'static str) -> Result<String, PublicUrlError> {
    let refused = || PublicUrlError {
        text: glassline_url::hidden(text).chars().take(80).collect(),
        wanted,
    };
    let url = glassline_url::parse(text).map_err(|_| refused())?;
    let is_bare = url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    let has_host = url.host_str().is_some_and(|host| !host.is_empty());
    let base = url.as_str().trim_end_matches('/');
    match schemes.contains(&url.scheme()) && has_host && is_bare && base.len() <= BYTES_MAX {
        true => Ok(base.to_owned()),
        false => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(yaml: &str) -> Result<PublicUrls, String> {
        crate::text::parse(yaml, "test.yml").map_err(|error| error.to_string())
    }

    #[test]
    fn an_address_for_viewers_has_a_scheme_and_a_host_and_perhaps_a_path() {
        let read_http = |text: &str| read(&format!("http: '{text}'")).map(|it| it.http);
        for (text, kept) in [
            ("https://node-1.example:8443", "https://node-1.example:8443"),
            ("http://192.0.2.1:8889/", "http://192.0.2.1:8889"),
            (
                "https://[2001:db8::1]/media/",
                "https://[2001:db8::1]/media",
            ),
        ] {
            assert_eq!(read_http(text).expect(text).as_deref(), Some(kept));
        }
        for bad in [
            "node-1:8443",
            "rtsp://node-1",
            "https://ann:secret@node-1",
            "https://ann:1/secret@node-1",
            "https://node-1/?a=b",
            "https://node-1/#top",
            "https://",
        ] {
            let told = read_http(bad).expect_err(bad);
            assert!(told.contains("no address for viewers"), "{told}");
            assert!(!told.contains("secret"), "{told}");
        }
        let rtsp = read("rtsp: 'rtsps://node-1:8322/'").expect("good");
        assert_eq!(rtsp.rtsp.as_deref(), Some("rtsps://node-1:8322"));
        assert!(read("rtsp: 'https://node-1'").is_err());
        assert_eq!(read("{}").expect("good"), PublicUrls::default());
    }
}
