//! Who may read: one static token, compared in constant time.

use axum::http::{HeaderMap, StatusCode, Uri, header};

use super::problem::Problem;
use crate::config::Secret;

/// Checks that a request may read streams: it carries `token` as
/// `Authorization: Bearer` or, for players that cannot set headers, as the
/// query's `token`. Without a configured token everybody may.
pub(super) fn may_read(
    token: Option<&Secret>,
    headers: &HeaderMap,
    uri: &Uri,
) -> Result<(), Problem> {
    let Some(token) = token else { return Ok(()) };
    let given = bearer(headers).or_else(|| query_token(uri));
    if given.is_some_and(|given| token.matches(&given)) {
        return Ok(());
    }
    let detail =
        "this server asks for its read token: send `Authorization: Bearer TOKEN` or `?token=TOKEN`";
    Err(
        Problem::new(StatusCode::UNAUTHORIZED, "Not authorised", detail)
            .header(header::WWW_AUTHENTICATE, "Bearer realm=\"glassline\""),
    )
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim().to_owned())
}

fn query_token(uri: &Uri) -> Option<String> {
    let mut pairs = url::form_urlencoded::parse(uri.query()?.as_bytes());
    pairs.find_map(|(name, value)| (name == "token").then(|| value.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn the_token_is_taken_from_header_or_query_and_nothing_else_passes() {
        let secret: Secret = Secret::new("correct-horse+battery").expect("a token");
        let uri = |text: &str| text.parse::<Uri>().expect("a URI");
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(
                header::AUTHORIZATION,
                HeaderValue::from_str(value).expect("ASCII"),
            );
            headers
        };
        let plain = HeaderMap::new();
        assert!(may_read(None, &plain, &uri("/demo")).is_ok(), "open server");
        assert!(
            may_read(
                Some(&secret),
                &with("bearer correct-horse+battery"),
                &uri("/demo")
            )
            .is_ok()
        );
        assert!(
            may_read(
                Some(&secret),
                &plain,
                &uri("/demo?token=correct-horse%2Bbattery")
            )
            .is_ok()
        );
        for wrong in [
            "Bearer correct-horse",
            "Bearer correct-horse+battery2",
            "Basic correct-horse+battery",
        ] {
            assert!(
                may_read(Some(&secret), &with(wrong), &uri("/demo")).is_err(),
                "{wrong}"
            );
        }
        assert!(may_read(Some(&secret), &plain, &uri("/demo?token=")).is_err());
    }
}
