//! Loading of HLS playlists and media from any server.
//!
//! Relative URIs are resolved by the address that answered, after redirections. The query of a playlist's
//! address stays when delivery directives are added, with all parameters in the order that the text wants.

use std::time::{Duration, Instant};

use glassline_trust::Trust;
use ureq::http::{Response, header};
use ureq::{Agent, Body, ResponseExt as _};
use url::Url;

use crate::whep::Error;

/// Longest resource that is read, in bytes: a segment of 10 s at 25 Mbit/s.
const BODY_BYTES_MAX: u64 = 32 << 20;

/// Most redirections of one request.
const REDIRECTS_MAX: u32 = 5;

/// Loads resources, one request at a time on each thread, over connections that are kept.
#[derive(Clone, Debug)]
pub struct Fetcher {
    agent: Agent,
    token: Option<String>,
}

/// A request of a resource.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// First byte and number of bytes; without a number up to the end.
    pub range: Option<(u64, Option<u64>)>,
    /// Whether the answer may be compressed; its body is not unpacked then.
    pub takes_gzip: bool,
    /// Longest time for the whole exchange.
    pub patience: Duration,
}

impl Ask {
    /// A request of the whole resource.
    pub const fn within(patience: Duration) -> Self {
        Self {
            range: None,
            takes_gzip: false,
            patience,
        }
    }
}

/// An answer of any status.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Status of the HTTP response.
    pub status: u16,
    /// Address that answered.
    pub url: Url,
    /// Content type, without parameters, in lower case.
    pub kind: String,
    /// Whether the body is compressed.
    pub is_compressed: bool,
    /// The body, as it came.
    pub body: Vec<u8>,
    /// When the whole answer had come.
    pub at: Instant,
    /// Time from the request to the end of the answer.
    pub took: Duration,
}

impl Fetcher {
    /// A fetcher that sends `token` as `Authorization: Bearer`, to the first server only.
    pub fn new(trust: Trust, token: Option<String>) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(REDIRECTS_MAX)
            .user_agent(crate::agent::user_agent())
            .build();
        Self {
            agent: crate::agent::agent(config, trust),
            token,
        }
    }

    /// Loads a resource.
    ///
    /// # Errors
    /// [`Error::Unreachable`] with the address, if no answer came in time.
    pub fn get(&self, url: &Url, ask: Ask) -> Result<Fetched, Error> {
        let unreachable = |error: ureq::Error| Error::Unreachable {
            url: url.clone(),
            source: Box::new(error),
        };
        let began = Instant::now();
        let mut request = self.agent.get(url.as_str());
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if ask.takes_gzip {
            request = request.header(header::ACCEPT_ENCODING, "gzip");
        }
        if let Some((first, length)) = ask.range {
            let last = length.map_or(9_007_199_254_740_991, |it| {
                first.saturating_add(it).saturating_sub(1)
            });
            request = request.header(header::RANGE, format!("bytes={first}-{last}"));
        }
        let request = request.config().timeout_global(Some(ask.patience)).build();
        let mut response = request.call().map_err(unreachable)?;
        let body = response.body_mut().with_config().limit(BODY_BYTES_MAX);
        let body = body.read_to_vec().map_err(unreachable)?;
        let text = |name| header_text(&response, name);
        Ok(Fetched {
            status: response.status().as_u16(),
            url: Url::parse(&response.get_uri().to_string()).unwrap_or_else(|_| url.clone()),
            kind: text(header::CONTENT_TYPE)
                .split(';')
                .next()
                .map(|it| it.trim().to_ascii_lowercase())
                .unwrap_or_default(),
            is_compressed: text(header::CONTENT_ENCODING) == "gzip",
            body,
            at: Instant::now(),
            took: began.elapsed(),
        })
    }
}

fn header_text(response: &Response<Body>, name: header::HeaderName) -> String {
    let value = response.headers().get(name);
    value
        .and_then(|it| it.to_str().ok())
        .unwrap_or_default()
        .to_owned()
}

/// Returns the address of a playlist with Delivery Directives in place of those that it has, all
/// parameters in order of their bytes (draft-pantos-hls-rfc8216bis §6.3.2).
pub fn with_parameters(url: &Url, directives: &[(&str, u64)]) -> Url {
    let mut url = url.clone();
    let has_directives = !directives.is_empty();
    let query = url.query().unwrap_or_default().split('&');
    let others = query.filter(|it| !it.is_empty() && !it.starts_with("_HLS_"));
    let directives = directives
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    let mut all: Vec<String> = others.map(str::to_owned).chain(directives).collect();
    if has_directives {
        all.sort_unstable();
    }
    let query = all.join("&");
    url.set_query(Some(&*query).filter(|it| !it.is_empty()));
    url
}

/// The address without its password.
pub fn shown(url: &Url) -> String {
    glassline_url::shown(url)
}

/// The parameters of an address, percent-decoded.
pub fn parameters_of(url: &Url) -> Vec<(String, String)> {
    url.query_pairs()
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_of_a_signed_address_stays_and_is_sorted() {
        let url = Url::parse("https://h/a.m3u8?token=x%2Fy&b=1").expect("a URL");
        let asked = with_parameters(&url, &[("_HLS_msn", 7), ("_HLS_part", 0)]);
        assert_eq!(
            asked.as_str(),
            "https://h/a.m3u8?_HLS_msn=7&_HLS_part=0&b=1&token=x%2Fy"
        );
        assert_eq!(with_parameters(&url, &[]), url);
        let replaced = with_parameters(&asked, &[]);
        assert_eq!(replaced.query(), Some("b=1&token=x%2Fy"));
        let plain = Url::parse("https://h/a.m3u8").expect("a URL");
        let asked = with_parameters(&plain, &[("_HLS_skip", 1)]);
        assert_eq!(asked.query(), Some("_HLS_skip=1"));
        let pair = ("token".to_owned(), "x/y".to_owned());
        assert!(parameters_of(&url).contains(&pair));
    }
}
