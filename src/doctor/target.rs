//! The server, and the stream, that a URL names.

use std::time::Duration;

use glassline_client::probe::http::{Ask, exchange};
use glassline_client::trust::Trust;
use serde_json::Value;
use url::Url;

use super::listeners::NamedPorts;

/// Time that a request may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// A server to be examined.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// URL of the server, with a slash at its end.
    pub(super) base: Url,
    /// Name of the stream to play.
    pub(super) stream: Option<String>,
    pub(super) token: Option<String>,
    pub(super) publish_token: Option<String>,
    /// Ports that the operator names.
    pub(super) ports: NamedPorts,
    /// Site whose pages shall play, like `https://site.example`.
    pub(super) site: Option<String>,
}

impl Target {
    /// Reads the URL of a server, of a page of a stream, or of a WHEP endpoint.
    pub(super) fn parse(url: &Url, token: Option<&str>, publish_token: Option<&str>) -> Self {
        let path = url.path().trim_start_matches('/');
        let path = path.strip_suffix("/whep").unwrap_or(path);
        let path = path.strip_suffix("/whip").unwrap_or(path);
        let (folder, name) = match path.rsplit_once('/') {
            Some((folder, name)) => (format!("/{folder}/"), name),
            None => ("/".to_owned(), path),
        };
        let in_query = url.query_pairs().find(|(key, _)| key == "token");
        let in_query = in_query.map(|(_, value)| value.into_owned());
        let mut base = url.clone();
        base.set_path(&folder);
        base.set_query(None);
        base.set_fragment(None);
        Self {
            base,
            stream: (!name.is_empty()).then(|| name.to_owned()),
            token: token.map(str::to_owned).or(in_query),
            publish_token: publish_token.map(str::to_owned),
            ports: NamedPorts::default(),
            site: None,
        }
    }

    /// Divides the path where the API of a server answers: names of streams have folders, and so has a
    /// proxy. Without an answer, all but the last part is the proxy's.
    pub(super) fn divided(mut self, trust: Trust) -> Self {
        let path = format!(
            "{}{}",
            self.base.path(),
            self.stream.as_deref().unwrap_or_default()
        );
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        if parts.len() < 2 || self.stream.is_none() {
            return self;
        }
        let ask = Ask {
            method: "GET",
            body: None,
            token: None,
            headers: &[],
            trust,
            patience: PATIENCE,
        };
        let found = (0..parts.len()).find(|place| {
            let folder: String = parts[..*place].iter().map(|it| format!("{it}/")).collect();
            let url = self.url(&format!("/{folder}api/v1/server"));
            let answer = url.and_then(|url| exchange(&url, &ask).ok());
            answer.is_some_and(|it| {
                let is_there = matches!(it.status, 200 | 401 | 403);
                is_there && serde_json::from_str::<Value>(&it.body).is_ok_and(|it| it.is_object())
            })
        });
        if let Some(place) = found {
            let folder: String = parts[..place].iter().map(|it| format!("{it}/")).collect();
            self.base.set_path(&format!("/{folder}"));
            self.stream = Some(parts[place..].join("/"));
        }
        self
    }

    pub(super) fn host(&self) -> &str {
        self.base.host_str().unwrap_or_default()
    }

    pub(super) fn port(&self) -> u16 {
        self.base.port_or_known_default().unwrap_or(80)
    }

    pub(super) fn url(&self, path: &str) -> Option<Url> {
        self.base.join(path).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> (String, Option<String>) {
        let target = Target::parse(&Url::parse(url).expect("a URL"), None, None);
        (target.base.to_string(), target.stream)
    }

    #[test]
    fn a_url_names_a_server_a_page_or_an_endpoint() {
        let cam = Some("cam".to_owned());
        let base = "https://h.test/".to_owned();
        assert_eq!(target("https://h.test"), (base.clone(), None));
        assert_eq!(target("https://h.test/cam"), (base.clone(), cam.clone()));
        assert_eq!(
            target("https://h.test/cam/whep?token=x"),
            (base, cam.clone())
        );
        assert_eq!(
            target("http://h.test:90/media/cam"),
            ("http://h.test:90/media/".to_owned(), cam)
        );
        assert_eq!(
            target("http://h.test/media/"),
            ("http://h.test/media/".to_owned(), None)
        );
    }

    #[test]
    fn the_token_of_the_url_is_used_unless_one_is_given() {
        let url = Url::parse("https://h.test/cam?token=in-url").expect("a URL");
        let token = |given| Target::parse(&url, given, None).token;
        assert_eq!(token(None).as_deref(), Some("in-url"));
        assert_eq!(token(Some("given")).as_deref(), Some("given"));
    }
}
