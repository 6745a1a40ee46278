//! Lists are answered in pages: `?page=2&limit=100`.

use std::ops::Range;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::extract::Query;
use super::openapi::{Argument, Description};
use super::problem::Problem;

/// Most entries of one page, and the number without `limit`.
const LIMIT: u32 = 1_000;

/// The part of a list that a request asks for.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
pub(super) struct Page {
    /// Number of the page, from 1.
    #[serde(default = "first")]
    #[schemars(range(min = 1))]
    page: u32,
    /// Most entries of a page.
    #[serde(default = "limit")]
    #[schemars(range(min = 1, max = 1_000))]
    limit: u32,
}

/// Where the entries of an answer are in the whole list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Extent {
    /// Number of entries on all pages that the filters leave.
    total: usize,
    /// Number of this page, from 1.
    page: u32,
    /// Most entries of a page.
    limit: u32,
}

const fn first() -> u32 {
    1
}

const fn limit() -> u32 {
    LIMIT
}

impl Page {
    /// Returns this page with at most `limit` entries, for those that are long.
    pub(super) fn at_most(self, limit: u32) -> Self {
        Self {
            limit: self.limit.min(limit),
            ..self
        }
    }

    /// Returns the places of this page's entries in the whole list, which may be shorter.
    pub(super) fn places(self) -> Range<usize> {
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let before = usize::try_from(self.page - 1).unwrap_or(usize::MAX);
        let before = before.saturating_mul(limit);
        before..before.saturating_add(limit)
    }

    /// Returns the entries of this page, and where they are in the list.
    pub(super) fn of<T>(self, mut entries: Vec<T>) -> (Vec<T>, Extent) {
        let extent = Extent {
            total: entries.len(),
            page: self.page,
            limit: self.limit,
        };
        let places = self.places();
        entries.truncate(places.end);
        entries.drain(..places.start.min(entries.len()));
        (entries, extent)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Page {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Query(page) = Query::<Self>::from_request_parts(parts, state).await?;
        if page.page == 0 {
            return Err(Problem::bad_request("query: `page` counts from 1"));
        }
        if !(1..=LIMIT).contains(&page.limit) {
            let detail = format!("query: `limit` is 1 to {LIMIT} entries");
            return Err(Problem::bad_request(detail));
        }
        Ok(page)
    }
}

impl Argument for Page {
    fn describe(to: &mut Description) {
        to.parameters::<Self>("query");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(page: u32, limit: u32) -> (Vec<u32>, Extent) {
        Page { page, limit }.of((0..5).collect())
    }

    #[test]
    fn pages_follow_each_other_without_gap_or_overlap() {
        assert_eq!(page(1, 2).0, [0, 1]);
        assert_eq!(page(2, 2).0, [2, 3]);
        assert_eq!(page(3, 2).0, [4]);
        assert!(page(4, 2).0.is_empty());
        assert_eq!(page(1, 1_000).0.len(), 5);
        let extent = page(4, 2).1;
        assert_eq!((extent.total, extent.page, extent.limit), (5, 4, 2));
    }

    #[test]
    fn a_page_beyond_all_numbers_is_empty() {
        assert!(page(u32::MAX, 1_000).0.is_empty());
    }
}
