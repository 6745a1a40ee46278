//! Links of an answer: the other servers of a cluster, for the case that the one that answered is lost.

use ureq::http::{Response, header};
use url::Url;

/// Most servers that are noted.
const NOTED_MAX: usize = 8;

/// Returns the URLs that a response of `at` names as `rel="alternate"` (RFC 8288). What came within TLS
/// goes to no server without.
pub(super) fn alternates<B>(at: &Url, response: &Response<B>) -> Vec<Url> {
    let lines = response.headers().get_all(header::LINK).iter();
    let lines = lines.filter_map(|line| line.to_str().ok());
    let links = lines.flat_map(links);
    let named = links.filter(|link| link.relation == "alternate");
    let urls = named.filter_map(|link| at.join(link.target).ok());
    let is_safe = |url: &Url| match at.scheme() {
        "https" => url.scheme() == "https",
        _ => matches!(url.scheme(), "http" | "https"),
    };
    urls.filter(is_safe).take(NOTED_MAX).collect()
}

struct Link<'a> {
    target: &'a str,
    relation: &'a str,
}

/// Reads `<TARGET>; rel="RELATION"; …, <TARGET>; …`. What is malformed is left out.
fn links(line: &str) -> Vec<Link<'_>> {
    let mut links = Vec::new();
    let mut rest = line;
    while let Some((_, after)) = rest.split_once('<') {
        let Some((target, after)) = after.split_once('>') else {
            break;
        };
        let end = end_of_parameters(after);
        let parameters = after[..end].split(';');
        let relation = parameters
            .filter_map(|it| it.trim().strip_prefix("rel="))
            .next();
        let relation = relation.unwrap_or_default().trim_matches('"');
        links.push(Link { target, relation });
        rest = &after[end..];
    }
    links
}

/// Returns the length of the parameters of a link, up to a comma that is not quoted.
fn end_of_parameters(text: &str) -> usize {
    let mut is_quoted = false;
    let end = text.find(|c: char| {
        is_quoted ^= c == '"';
        c == ',' && !is_quoted
    });
    end.unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(at: &str, lines: &[&str]) -> Vec<String> {
        let mut response = Response::builder();
        for line in lines {
            response = response.header(header::LINK, *line);
        }
        let response = response.body(()).expect("headers");
        let at = at.parse().expect("a URL");
        alternates(&at, &response)
            .iter()
            .map(Url::to_string)
            .collect()
    }

    #[test]
    fn other_servers_are_told_from_ice_servers() {
        let lines = [
            "<stun:stun.example:3478>; rel=\"ice-server\"",
            "<turn:turn.example>; rel=\"ice-server\"; username=\"a, b\"; credential=\"<c>\"",
            "<http://b.example/cam/whep?ticket=1.2>; rel=\"alternate\", </cam/whep>; rel=alternate",
            "<ftp://c.example/>; rel=\"alternate\"",
            "<broken; rel=\"alternate\"",
        ];
        let found = named("http://a.example/cam/whep", &lines);
        let expected = [
            "http://b.example/cam/whep?ticket=1.2",
            "http://a.example/cam/whep",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_came_within_tls_goes_to_no_server_without() {
        let lines = [
            "<http://b.example/>; rel=\"alternate\"",
            "<https://c.example/>; rel=\"alternate\"",
        ];
        assert_eq!(named("https://a.example/", &lines), ["https://c.example/"]);
        let many: Vec<String> = (0..20)
            .map(|it| format!("<https://{it}.example/>; rel=\"alternate\""))
            .collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(named("https://a.example/", &many).len(), NOTED_MAX);
    }
}
