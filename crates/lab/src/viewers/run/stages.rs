//! Stage delays of the server itself, if it is a Glassline.

use std::time::Duration;

use glassline_client::viewers::Endpoint;
use serde_json::Value;
use url::Url;

/// Longest wait for the answer: the server is busy, and the step waits.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Largest answer, in bytes; a table with thousands of reporting viewers is smaller.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Client for `GET {origin}/api/v1/streams/{name}/latency`, which answered at least once.
#[derive(Debug)]
pub(super) struct Stages {
    agent: ureq::Agent,
    url: Url,
    token: Option<String>,
}

impl Stages {
    /// Asks the server for its stages. `None` if it has no such table: another server, or a
    /// protocol whose URL does not name stream and API.
    pub(super) fn of(endpoint: &Endpoint, token: Option<&str>) -> Option<Self> {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .build();
        let stages = Self {
            agent: config.into(),
            url: latency_url(endpoint)?,
            token: token.map(str::to_owned),
        };
        stages.now().is_some().then_some(stages)
    }

    /// The array of stages, over the server's last ten seconds.
    pub(super) fn now(&self) -> Option<Value> {
        let mut request = self.agent.get(self.url.as_str());
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let mut response = request.call().ok()?;
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let mut table: Value = serde_json::from_str(&body.read_to_string().ok()?).ok()?;
        let stages = table.get_mut("stages")?.take();
        stages.is_array().then_some(stages)
    }
}

fn latency_url(endpoint: &Endpoint) -> Option<Url> {
    let Endpoint::Whep { url, .. } = endpoint else {
        return None;
    };
    // There is no TLS provider here; the table is meant for servers on the same machine.
    if url.scheme() != "http" {
        return None;
    }
    let path: Vec<&str> = url.path_segments()?.collect();
    let [stream, "whep"] = path[..] else {
        return None;
    };
    let mut latency = url.clone();
    latency.set_path(&format!("/api/v1/streams/{stream}/latency"));
    latency.set_query(None);
    Some(latency)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_like_ours_are_asked() {
        let url = |text: &str| {
            let endpoint = Endpoint::parse(text).expect(text);
            latency_url(&endpoint).map(String::from)
        };
        assert_eq!(
            url("http://h:8889/my%20cam/whep?x=1").as_deref(),
            Some("http://h:8889/api/v1/streams/my%20cam/latency")
        );
        for other in [
            "https://h/cam/whep",
            "http://h/cam/whep/1",
            "http://h/whep",
            "http://h/doSignaling",
            "rtsp://h/cam",
        ] {
            assert_eq!(url(other), None, "{other}");
        }
    }
}
