//! `/api/v1/exclusions`: who is kept away from streams for some time.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use glassline_access::auth::{EXCLUSION_MAX, Excluded, Exclusion, Role, TooManyExclusions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::created::{Created, NoContent};
use super::super::extract::{JsonBody, Path};
use super::super::openapi::{Operation, Routes};
use super::super::paging::{Extent, Page};
use super::super::problem::Problem;
use crate::app::App;

/// Time of an exclusion that names none.
const MINUTES: u64 = 60;

/// Longest name of a user or stream, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// Returns the routes of exclusions, for operators.
pub(super) fn routes() -> Routes {
    Routes::default()
        .get(
            "/api/v1/exclusions",
            Operation::new("listExclusions", "Lists who is kept away from streams"),
            list,
        )
        .on(
            Method::POST,
            "/api/v1/exclusions",
            Operation::new(
                "addExclusion",
                "Keeps a user or an address away from a stream, or from all",
            )
            .needs(Role::Operator)
            .problem(413, "Too many are kept away already")
            .problem(422, "The body names nobody, or the time is too long"),
            add,
        )
        .on(
            Method::DELETE,
            "/api/v1/exclusions/{number}",
            Operation::new("liftExclusion", "Lets somebody come back")
                .needs(Role::Operator)
                .problem(404, "There is no such exclusion"),
            lift,
        )
}

/// Somebody who is kept away.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Exclusion")]
pub(in crate::http) struct ExclusionView {
    number: u64,
    /// The user that is kept away; null for an address.
    user: Option<String>,
    /// The address that is kept away, with its /64 network if it is of IPv6; null for a user.
    address: Option<String>,
    /// The stream that it is for; null for all streams.
    stream: Option<String>,
    /// Seconds until the exclusion ends.
    ends_in_s: u64,
}

impl ExclusionView {
    fn of(exclusion: Exclusion, now: Instant) -> Self {
        let (user, address) = match exclusion.whom {
            Excluded::User(name) => (Some(name), None),
            Excluded::Address(address) => (None, Some(address.to_string())),
        };
        Self {
            number: exclusion.number,
            user,
            address,
            stream: exclusion.stream,
            ends_in_s: exclusion.until.saturating_duration_since(now).as_secs(),
        }
    }
}

/// The exclusion that is to be made.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ExclusionBody {
    /// The user to keep away; either this or `address`.
    #[serde(default)]
    #[schemars(length(max = 256))]
    user: Option<String>,
    /// The address to keep away.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    address: Option<IpAddr>,
    /// The stream that it is for; all streams without it.
    #[serde(default)]
    #[schemars(length(max = 256))]
    stream: Option<String>,
    /// Minutes until the exclusion ends: 60 without this member, 10,080 at most.
    #[serde(default)]
    #[schemars(range(min = 1, max = 10_080))]
    minutes: Option<u64>,
}

impl ExclusionBody {
    /// Returns whom to keep away, and for how long.
    fn read(&self) -> Result<(Excluded, Duration), Problem> {
        let wrong = |detail| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "Nobody named", detail);
        let names = [&self.user, &self.stream];
        if names
            .into_iter()
            .flatten()
            .any(|it| it.is_empty() || it.len() > NAME_BYTES_MAX)
        {
            return Err(wrong("a name has 1 to 256 bytes"));
        }
        let whom = match (&self.user, self.address) {
            (Some(user), None) => Excluded::User(user.clone()),
            (None, Some(address)) => Excluded::Address(address),
            _ => return Err(wrong("name either a `user` or an `address`")),
        };
        let minutes = self.minutes.unwrap_or(MINUTES);
        let time = Duration::from_secs(minutes.saturating_mul(60));
        if time.is_zero() || time > EXCLUSION_MAX {
            let detail =
                "`minutes` is 1 to 10,080: to keep somebody out for longer, take the right away";
            return Err(Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "Too long",
                detail,
            ));
        }
        Ok((whom, time))
    }
}

/// A page of the list of exclusions, the newest first.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Exclusions")]
struct ExclusionList {
    exclusions: Vec<ExclusionView>,
    #[serde(flatten)]
    extent: Extent,
}

/// The exclusion that a path names.
#[derive(Debug, Deserialize, JsonSchema)]
struct ExclusionPath {
    /// Number of the exclusion.
    number: u64,
}

async fn list(State(app): State<App>, page: Page) -> Json<ExclusionList> {
    let now = Instant::now();
    let present = app.users.exclusions().listed(now).into_iter();
    let views = present.map(|it| ExclusionView::of(it, now)).collect();
    let (exclusions, extent) = page.of(views);
    Json(ExclusionList { exclusions, extent })
}

async fn add(
    State(app): State<App>,
    JsonBody(body): JsonBody<ExclusionBody>,
) -> Result<Created<ExclusionView>, Problem> {
    let (whom, time) = body.read()?;
    exclude(&app, whom, body.stream, time)
}

/// Keeps a viewer away from `stream` for an hour.
pub(in crate::http) fn exclude_viewer(
    app: &App,
    whom: Excluded,
    stream: Option<String>,
) -> Result<Created<ExclusionView>, Problem> {
    let stream = stream.filter(|it| !it.is_empty());
    exclude(app, whom, stream, Duration::from_secs(MINUTES * 60))
}

fn exclude(
    app: &App,
    whom: Excluded,
    stream: Option<String>,
    time: Duration,
) -> Result<Created<ExclusionView>, Problem> {
    let now = Instant::now();
    let made = app.users.exclusions().add(whom, stream, now + time, now)?;
    Ok(Created {
        path: format!("/api/v1/exclusions/{}", made.number),
        view: ExclusionView::of(made, now),
    })
}

async fn lift(
    State(app): State<App>,
    Path(ExclusionPath { number }): Path<ExclusionPath>,
) -> Result<NoContent, Problem> {
    match app.users.exclusions().lift(number) {
        true => Ok(NoContent),
        false => {
            let detail = format!("there is no exclusion {number}; it may be over");
            Err(Problem::new(
                StatusCode::NOT_FOUND,
                "No such exclusion",
                detail,
            ))
        }
    }
}

impl From<TooManyExclusions> for Problem {
    fn from(error: TooManyExclusions) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "Too many", error.to_string())
    }
}
