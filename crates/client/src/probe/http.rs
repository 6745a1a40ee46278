//! One HTTP request, with the headers of its answer.

use std::time::{Duration, SystemTime};

use glassline_trust::Trust;
use ureq::Agent;
use ureq::http::Request;
use url::Url;

use crate::whep::Error;

/// Longest body that is read, in bytes.
const BODY_BYTES_MAX: u64 = 1 << 20;

/// A request of a probe.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    /// Method, like `GET`.
    pub method: &'static str,
    /// Type and content of the body; `None` sends none.
    pub body: Option<(&'static str, &'a str)>,
    /// Token that the header `Authorization: Bearer` carries.
    pub token: Option<&'a str>,
    /// Further headers of the request, such as `Origin`.
    pub headers: &'a [(&'static str, &'a str)],
    /// Which certificates are accepted.
    pub trust: Trust,
    /// Bound of the whole exchange.
    pub patience: Duration,
}

/// The answer of a server.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// HTTP status of the answer.
    pub status: u16,
    /// Names in lower case, and values, in their order.
    pub headers: Vec<(String, String)>,
    /// The body as text.
    pub body: String,
    /// This machine's calendar time before the request.
    pub asked: SystemTime,
    /// This machine's calendar time when the head of the answer had arrived.
    pub answered: SystemTime,
}

impl Exchange {
    /// Returns the first value of a header, whose name is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Returns every value of a header, whose name is in lower case.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.headers
            .iter()
            .filter(move |(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

/// Sends a request and reads the whole answer, of any status. Redirects are not followed.
///
/// # Errors
/// [`Error::Unreachable`] with the reason.
pub fn exchange(url: &Url, ask: &Ask<'_>) -> Result<Exchange, Error> {
    let unreachable = |error: ureq::Error| Error::Unreachable {
        url: url.clone(),
        source: Box::new(error),
    };
    let mut request = Request::builder().method(ask.method).uri(url.as_str());
    if let Some(token) = ask.token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    if let Some((kind, _)) = ask.body {
        request = request.header("content-type", kind);
    }
    for (name, value) in ask.headers {
        request = request.header(*name, *value);
    }
    let body = ask.body.map_or("", |(_, body)| body).to_owned();
    let request = request.body(body);
    let request = request.map_err(|error| unreachable(error.into()))?;
    let agent = agent(ask.trust);
    let request = agent
        .configure_request(request)
        .timeout_global(Some(ask.patience))
        .build();
    let asked = SystemTime::now();
    let mut response = agent.run(request).map_err(unreachable)?;
    let answered = SystemTime::now();
    let headers = response.headers().iter();
    let headers = headers.map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (name.as_str().to_owned(), value)
    });
    let headers = headers.collect();
    let status = response.status().as_u16();
    let body = response.body_mut().with_config().limit(BODY_BYTES_MAX);
    let body = body
        .lossy_utf8(true)
        .read_to_string()
        .map_err(unreachable)?;
    Ok(Exchange {
        status,
        headers,
        body,
        asked,
        answered,
    })
}

/// Returns an HTTP client without connections that are kept: each probe is a connection of its own.
fn agent(trust: Trust) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_idle_connections(0)
        .allow_non_standard_methods(true)
        .user_agent(crate::agent::OF_DOCTOR)
        .build();
    crate::agent::agent(config, trust)
}
