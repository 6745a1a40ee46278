//! The cookie of a browser that signed in (RFC 6265).
//!
//! Cookies do not know ports: two servers on one host would overwrite each other's cookie if its
//! name did not have the port.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, header};

/// Longest secret that is looked up, in bytes.
const SECRET_BYTES_MAX: usize = 128;

/// Returns the name of the cookie for the listener at `port`.
fn name(port: u16) -> String {
    format!("glassline-admin-{port}")
}

/// Returns the secret that the request's cookie has.
pub(super) fn secret(headers: &HeaderMap, port: u16) -> Option<String> {
    let name = name(port);
    let values = headers.get_all(header::COOKIE).into_iter();
    let texts = values.filter_map(|it| it.to_str().ok());
    let mut pairs = texts.flat_map(|it| it.split(';'));
    let found = pairs.find_map(|pair| pair.trim().strip_prefix(&name)?.strip_prefix('='));
    found
        .filter(|it| !it.is_empty() && it.len() <= SECRET_BYTES_MAX)
        .map(str::to_owned)
}

/// Returns the header that gives a browser its secret for `lasts`; an empty secret for no time takes
/// it back. No script can read it, and no page of another site makes the browser send it.
pub(super) fn set(port: u16, secret: &str, lasts: Duration, is_secure: bool) -> HeaderValue {
    let (name, seconds) = (name(port), lasts.as_secs());
    let secure = if is_secure { "; Secure" } else { "" };
    let text =
        format!("{name}={secret}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::try_from(text).expect("a secret is hexadecimal")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(cookies: &[&'static str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for cookie in cookies {
            headers.append(header::COOKIE, HeaderValue::from_static(cookie));
        }
        secret(&headers, 9997)
    }

    #[test]
    fn the_cookie_of_this_port_is_found_among_others() {
        let own = Some("ab12".to_owned());
        assert_eq!(found(&["glassline-admin-9997=ab12"]), own);
        let many = ["a=1; glassline-admin-9=no", "b=2;glassline-admin-9997=ab12"];
        assert_eq!(found(&many), own);
        assert_eq!(found(&["glassline-admin-99970=ab12"]), None);
        assert_eq!(found(&["glassline-admin-9997="]), None);
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn no_script_and_no_other_site_uses_the_cookie() {
        let hour = Duration::from_secs(3600);
        let plain = set(9997, "ab12", hour, false);
        let text = "glassline-admin-9997=ab12; Path=/; Max-Age=3600; HttpOnly; SameSite=Strict";
        assert_eq!(plain, text);
        assert_eq!(set(9997, "ab12", hour, true), format!("{text}; Secure"));
    }
}
