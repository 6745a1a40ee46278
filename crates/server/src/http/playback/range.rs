//! A part of a body that a client asks for (RFC 9110 §14), and bodies that it has already (§13.1).

use std::ops::Range;

use axum::http::{HeaderMap, StatusCode, header};

use super::super::problem::Problem;
use super::super::snapshot::has_already;

/// The part of a body that a client is to get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The whole body.
    Whole,
    /// A range of its bytes.
    Bytes(Range<u64>),
    /// Nothing: the client has the body with this entity tag.
    Unchanged,
}

impl Part {
    /// Returns the part of a body of `length` bytes with `entity_tag` that the request wants. A request
    /// for several ranges gets the whole body, as one without a range.
    ///
    /// # Errors
    /// Returns status 416 for a range that begins behind the end.
    pub(super) fn wanted(
        headers: &HeaderMap,
        entity_tag: &str,
        length: u64,
    ) -> Result<Self, Problem> {
        if has_already(headers, entity_tag) {
            return Ok(Self::Unchanged);
        }
        let text = |name| headers.get(name).and_then(|it| it.to_str().ok());
        // A date is never that of a body here: bodies have none.
        let is_same = text(header::IF_RANGE).is_none_or(|it| it.trim() == entity_tag);
        let range = text(header::RANGE).filter(|_| is_same).and_then(spec);
        match range {
            None => Ok(Self::Whole),
            Some(spec) => spec.within(length).map(Self::Bytes).ok_or_else(|| {
                let detail =
                    format!("the body has {length} bytes, and the range begins behind them");
                Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "Range", detail)
                    .header(header::CONTENT_RANGE, &format!("bytes */{length}"))
            }),
        }
    }
}

/// One range as a header has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spec {
    /// From a byte to another one, or to the end.
    From(u64, Option<u64>),
    /// So many last bytes.
    Last(u64),
}

impl Spec {
    fn within(self, length: u64) -> Option<Range<u64>> {
        let range = match self {
            Self::From(first, last) => {
                first..last.map_or(length, |it| length.min(it.saturating_add(1)))
            }
            Self::Last(count) => length.saturating_sub(count)..length,
        };
        (!range.is_empty()).then_some(range)
    }
}

/// Returns the one range of a header; `None` for several, other units, and whatever is no range.
fn spec(text: &str) -> Option<Spec> {
    let range = text.trim().strip_prefix("bytes=")?.trim();
    let (first, last) = range.split_once('-')?;
    let number = |it: &str| {
        let is_number = !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit());
        // A number beyond what can be counted is behind every end.
        is_number.then(|| it.parse().unwrap_or(u64::MAX))
    };
    match (first.trim(), last.trim()) {
        ("", last) => number(last).map(Spec::Last),
        (first, "") => number(first).map(|it| Spec::From(it, None)),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(Spec::From(first, Some(last)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(range: &str, length: u64) -> Result<Part, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(header::RANGE, range.parse().expect("visible"));
        Part::wanted(&headers, "\"a\"", length).map_err(|it| it.status().as_u16())
    }

    #[test]
    fn a_range_is_cut_to_the_body() {
        for (range, expected) in [
            ("bytes=0-", Ok(Part::Bytes(0..10))),
            ("bytes=2-4", Ok(Part::Bytes(2..5))),
            ("bytes=9-9", Ok(Part::Bytes(9..10))),
            ("bytes=5-100", Ok(Part::Bytes(5..10))),
            ("bytes=-3", Ok(Part::Bytes(7..10))),
            ("bytes=-100", Ok(Part::Bytes(0..10))),
            ("bytes=1-99999999999999999999999", Ok(Part::Bytes(1..10))),
            ("bytes=10-", Err(416)),
            ("bytes=-0", Err(416)),
            ("bytes=99999999999999999999999-", Err(416)),
            ("bytes=4-2", Ok(Part::Whole)),
            ("bytes=0-1,3-4", Ok(Part::Whole)),
            ("bytes=a-b", Ok(Part::Whole)),
            ("bytes=-", Ok(Part::Whole)),
            ("items=0-1", Ok(Part::Whole)),
        ] {
            assert_eq!(wanted(range, 10), expected, "{range}");
        }
        assert_eq!(wanted("bytes=0-", 0), Err(416));
    }

    #[test]
    fn a_range_of_another_body_is_that_of_none() {
        let with = |name: header::HeaderName, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RANGE, "bytes=2-4".parse().expect("visible"));
            headers.insert(name, value.parse().expect("visible"));
            Part::wanted(&headers, "\"a\"", 10).expect("satisfiable")
        };
        assert_eq!(with(header::IF_RANGE, "\"a\""), Part::Bytes(2..5));
        assert_eq!(with(header::IF_RANGE, "\"b\""), Part::Whole);
        assert_eq!(
            with(header::IF_RANGE, "Mon, 30 Nov 2026 14:03:05 GMT"),
            Part::Whole
        );
        assert_eq!(with(header::IF_NONE_MATCH, "\"a\""), Part::Unchanged);
        assert_eq!(with(header::IF_NONE_MATCH, "\"b\""), Part::Bytes(2..5));
    }
}
