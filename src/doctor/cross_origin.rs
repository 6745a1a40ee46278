//! Whether a page of another site may play: what a browser asks before and after an offer (Fetch
//! standard §3.2, CORS protocol; WHEP, RFC 9725 §4.2 for the methods and headers).

use std::time::Duration;

use glassline_client::probe::http::{Ask, Exchange, exchange};
use glassline_client::probe::whep::negotiate_as;
use glassline_client::trust::Trust;
use glassline_client::whep::Error;
use url::Url;

use super::finding::{Finding, Severity};

const CHECK: &str = "cors";

/// Time that each request may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Site that is asked for where the operator names none; nobody has it (RFC 6761 §6.4).
const STRANGER: &str = "https://doctor.invalid";

/// Headers that players send with an offer, in the order in which a browser lists them.
const SENT: &str = "authorization,content-type";

/// The headers that a player must be able to read of the answer to an offer.
const READ: [&str; 2] = ["location", "link"];

/// A permission that a page of a site needs, and does not have.
#[derive(Debug, Default, PartialEq, Eq)]
struct Missing {
    /// Whether answers lack the site in `Access-Control-Allow-Origin`.
    site: bool,
    /// Methods that are not allowed.
    methods: Vec<&'static str>,
    /// Request headers that are not allowed.
    sent: Vec<String>,
    /// Headers of answers that the page cannot read.
    read: Vec<&'static str>,
}

/// Plays at a WHEP endpoint as a page of `site` does; `None` tries a site that nobody has.
pub(super) fn check(url: &Url, token: Option<&str>, trust: Trust, site: Option<&str>) -> Finding {
    let origin = site.unwrap_or(STRANGER);
    let subject = format!("pages of {}", site.unwrap_or("other sites"));
    match ask(url, token, trust, origin) {
        Ok(missing) => judge(subject, &missing, site),
        Err(error) => Finding::warning(CHECK, subject, format!("could not be tried: {error}"))
            .why("a player on another site sends an offer in the same way")
            .change("see the findings about `whep`"),
    }
}

fn ask(url: &Url, token: Option<&str>, trust: Trust, origin: &str) -> Result<Missing, Error> {
    let headers = [("origin", origin)];
    let preflight = |url: &Url, method: &'static str| {
        let headers = [
            ("origin", origin),
            ("access-control-request-method", method),
            ("access-control-request-headers", SENT),
        ];
        let ask = Ask {
            method: "OPTIONS",
            body: None,
            token: None,
            headers: &headers,
            trust,
            patience: PATIENCE,
        };
        exchange(url, &ask)
    };
    let mut missing = Missing::default();
    missing.preflight(&preflight(url, "POST")?, origin, "POST");
    let session = match negotiate_as(url, token, trust, PATIENCE, &headers) {
        Ok(session) => session,
        // The server refuses the site, and thus answers without a session.
        Err(Error::Refused {
            status: 403 | 421, ..
        }) => {
            missing.site = true;
            return Ok(missing);
        }
        Err(error) => return Err(error),
    };
    missing.answer(&session.exchange, origin);
    if let Some(location) = &session.location {
        for method in ["PATCH", "DELETE"] {
            missing.preflight(&preflight(location, method)?, origin, method);
        }
        let ask = Ask {
            method: "DELETE",
            body: None,
            token,
            headers: &headers,
            trust,
            patience: PATIENCE,
        };
        missing.site |= !allows(&exchange(location, &ask)?, origin);
    }
    Ok(missing)
}

impl Missing {
    /// Takes the answer to a question for the right to a method.
    fn preflight(&mut self, answer: &Exchange, origin: &str, method: &'static str) {
        self.site |= !allows(answer, origin);
        let is_in = |header: &str, word: &str| {
            let words = answer.all(header).flat_map(|value| value.split(','));
            let mut words = words.map(str::trim);
            words.any(|it| it.eq_ignore_ascii_case(word) || it == "*")
        };
        // POST needs no permission by itself; it is among the methods that are always allowed.
        if method != "POST" && !is_in("access-control-allow-methods", method) {
            self.methods.push(method);
        }
        for header in SENT.split(',') {
            // `*` does not stand for Authorization.
            let values = answer.all("access-control-allow-headers");
            let mut words = values.flat_map(|value| value.split(',')).map(str::trim);
            let is_allowed = words.any(|it| {
                it.eq_ignore_ascii_case(header) || it == "*" && header != "authorization"
            });
            if !is_allowed && !self.sent.iter().any(|it| it == header) {
                self.sent.push(header.to_owned());
            }
        }
    }

    /// Takes the answer to an offer.
    fn answer(&mut self, answer: &Exchange, origin: &str) {
        self.site |= !allows(answer, origin);
        let values = answer.all("access-control-expose-headers");
        let words: Vec<&str> = values
            .flat_map(|value| value.split(','))
            .map(str::trim)
            .collect();
        let is_read = |name: &str| {
            words
                .iter()
                .any(|it| it.eq_ignore_ascii_case(name) || *it == "*")
        };
        self.read = READ.into_iter().filter(|name| !is_read(name)).collect();
    }
}

/// Returns whether the answer is for pages of `origin`.
fn allows(answer: &Exchange, origin: &str) -> bool {
    let value = answer.header("access-control-allow-origin");
    value.is_some_and(|it| it == "*" || it.eq_ignore_ascii_case(origin))
}

fn judge(subject: String, missing: &Missing, site: Option<&str>) -> Finding {
    let why = "a browser hides from a page what the server does not allow its site to see";
    if missing.site {
        // Most servers have pages of their own alone, so that this is a fault only if it was asked for.
        let severity = match site {
            Some(_) => Severity::Failure,
            None => Severity::Notice,
        };
        let named = site.unwrap_or("https://SITE");
        let try_it = site.map_or("; then try `--origin https://SITE`", |_| "");
        return Finding {
            severity,
            ..Finding::notice(
                CHECK,
                subject,
                "may not play: an answer has no Access-Control-Allow-Origin for the site",
            )
        }
        .why(why)
        .change(format!(
            "`cors: {{origins: [\"{named}\"]}}`, and a proxy must pass `Origin` on and OPTIONS through{try_it}"
        ));
    }
    let mut lacks = Vec::new();
    if !missing.methods.is_empty() {
        let methods = missing.methods.join(", ");
        lacks.push(format!("Access-Control-Allow-Methods lacks {methods}"));
    }
    if !missing.sent.is_empty() {
        let sent = missing.sent.join(", ");
        lacks.push(format!("Access-Control-Allow-Headers lacks {sent}"));
    }
    if !missing.read.is_empty() {
        let read = missing.read.join(", ");
        lacks.push(format!("Access-Control-Expose-Headers lacks {read}"));
    }
    if lacks.is_empty() {
        let what = "may play: POST, PATCH and DELETE are allowed, Location and Link are read";
        return Finding::ok(CHECK, subject, what);
    }
    Finding::failure(CHECK, subject, lacks.join("; "))
        .why("a player of another site cannot trickle candidates, end its session or find its TURN servers")
        .change("let the server answer OPTIONS itself, and remove Access-Control lines from the proxy in front of it (nginx: `add_header`, `proxy_hide_header`)")
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    const SITE: &str = "https://site.test";

    fn answer(headers: &[(&str, &str)]) -> Exchange {
        let now = SystemTime::UNIX_EPOCH;
        let headers = headers.iter();
        Exchange {
            status: 204,
            headers: headers
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            body: String::new(),
            asked: now,
            answered: now,
        }
    }

    const ALLOWED: (&str, &str) = ("access-control-allow-origin", SITE);

    #[test]
    fn a_site_that_may_do_everything_is_in_order() {
        let mut missing = Missing::default();
        let full = answer(&[
            ALLOWED,
            ("access-control-allow-methods", "POST, patch, DELETE"),
            (
                "access-control-allow-headers",
                "Authorization, Content-Type",
            ),
        ]);
        for method in ["POST", "PATCH", "DELETE"] {
            missing.preflight(&full, SITE, method);
        }
        let exposed = ("access-control-expose-headers", "Location, ETag, Link");
        missing.answer(&answer(&[ALLOWED, exposed]), SITE);
        assert_eq!(missing, Missing::default());
        let finding = judge(String::new(), &missing, Some(SITE));
        assert_eq!(finding.severity, Severity::Ok);
    }

    #[test]
    fn what_a_proxy_leaves_out_is_named() {
        let mut missing = Missing::default();
        let any = answer(&[
            ("access-control-allow-origin", "*"),
            ("access-control-allow-methods", "GET, POST"),
            ("access-control-allow-headers", "*"),
        ]);
        missing.preflight(&any, SITE, "POST");
        missing.preflight(&any, SITE, "DELETE");
        missing.answer(&answer(&[ALLOWED]), SITE);
        let finding = judge(String::new(), &missing, None);
        assert_eq!(finding.severity, Severity::Failure);
        for words in [
            "Allow-Methods lacks DELETE",
            "Allow-Headers lacks authorization",
            "Expose-Headers lacks location, link",
        ] {
            assert!(finding.what.contains(words), "{}", finding.what);
        }
    }

    #[test]
    fn a_site_that_nobody_named_may_be_refused() {
        let mut missing = Missing::default();
        let other = ("access-control-allow-origin", "https://other.test");
        missing.preflight(&answer(&[other]), SITE, "POST");
        let notice = judge(String::new(), &missing, None);
        assert_eq!(notice.severity, Severity::Notice);
        let failure = judge(String::new(), &missing, Some(SITE));
        assert_eq!(failure.severity, Severity::Failure);
        assert!(failure.change.contains("origins: [\"https://site.test\"]"));
    }
}
