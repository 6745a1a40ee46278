//! Plain HTTP requests; every status is an answer, not an error.

use std::time::Duration;

use serde_json::Value;

/// Answer of the server.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// Sends one request; `headers` may contain `Content-Type`.
pub(crate) fn request(
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: impl Into<Vec<u8>>,
) -> Result<Answer, String> {
    exchange(method, url, headers, body.into(), 10)
}

/// Sends one request, and follows up to `redirects_max` redirects; the next one is the answer.
pub(crate) fn exchange(
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
    redirects_max: u32,
) -> Result<Answer, String> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(redirects_max)
        .max_redirects_will_error(false)
        .timeout_global(Some(Duration::from_secs(60)))
        .build()
        .into();
    let mut builder = ureq::http::Request::builder().method(method).uri(url);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    let request = builder
        .body(body)
        .map_err(|error| format!("{method} {url}: {error}"))?;
    let mut response = agent
        .run(request)
        .map_err(|error| format!("{method} {url}: {error}"))?;
    let body = response
        .body_mut()
        .with_config()
        .limit(64 << 20)
        .read_to_vec()
        .map_err(|error| format!("{method} {url}: {error}"))?;
    let headers = response.headers().iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (name.as_str().to_owned(), value)
    });
    Ok(Answer {
        status: response.status().as_u16(),
        headers: headers.collect(),
        // An image is not text, and no test reads it.
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}

pub(crate) fn get(url: &str) -> Result<Answer, String> {
    request("GET", url, &[], Vec::new())
}

/// Sends a GET that must be answered by 200 with JSON.
pub(crate) fn get_json(url: &str) -> Result<Value, String> {
    let answer = get(url)?;
    if answer.status != 200 {
        return Err(format!("GET {url}: {} {}", answer.status, answer.body));
    }
    answer.json()
}

impl Answer {
    /// The value of header `name`, in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find_map(|(found, value)| (found == name).then_some(value.as_str()))
    }

    pub(crate) fn json(&self) -> Result<Value, String> {
        serde_json::from_str(&self.body)
            .map_err(|error| format!("{} is no JSON: {error}", self.body))
    }
}
