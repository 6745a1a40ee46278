//! The bytes of a part: `GET /-/playback/get`.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use glassline_cmaf::SpanCut;
use glassline_playback::time_text::rfc3339;
use glassline_playback::{Clip, ClipForm, NoFootage, Subject, Wanted};

use super::super::extract::Query;
use super::super::problem::Problem;
use super::super::server::Waiter;
use super::range::Part;
use super::servers::told;
use super::{PartQuery, not_recorded, playback};
use crate::app::App;

/// The times of the first frame and of the end, with a slash between them.
pub(super) const SPAN: HeaderName = HeaderName::from_static("glassline-span");

#[derive(Debug, serde::Deserialize)]
pub(super) struct GetQuery {
    #[serde(flatten)]
    part: PartQuery,
    format: Option<String>,
}

/// Answers with a part as MP4.
pub(super) async fn part(
    State(app): State<App>,
    waiter: Waiter,
    Query(query): Query<GetQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let form = match query.format.as_deref() {
        None | Some("fmp4") => ClipForm::Fragments,
        Some("mp4") => ClipForm::Whole(SpanCut::Keyframe),
        Some(other) => {
            return Err(Problem::bad_request(format!(
                "format={other}: `fmp4` plays from its first bytes on, `mp4` is one file with an index"
            )));
        }
    };
    let (of, wanted) = (query.part.subject(&app)?, query.part.wanted()?);
    let clip = clip(&app, &waiter, of, wanted, form).await?;
    answer(&app, &waiter, clip, &headers)
}

/// Finds a clip.
pub(super) async fn clip(
    app: &App,
    waiter: &Waiter,
    of: Subject,
    wanted: Wanted,
    form: ClipForm,
) -> Result<Clip, Problem> {
    let stream = of.stream.clone();
    let finding = playback(app)?.clip(of, wanted.clone(), form);
    let found = waiter.during(finding).await?;
    found.map_err(|error| match error {
        NoFootage::Nothing => not_recorded(stream.as_str(), &wanted),
        other => other.into(),
    })
}

/// Answers with a clip, or with the part of it that the request wants.
pub(super) fn answer(
    app: &App,
    waiter: &Waiter,
    clip: Clip,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let missing = told(&clip.missing);
    let (length, entity_tag) = (clip.assembly.length(), clip.assembly.identity());
    let shown = [
        (header::ETAG, entity_tag.clone()),
        (header::ACCEPT_RANGES, "bytes".to_owned()),
        // Whoever may not watch must not get it from a shared cache; what grows is asked for again.
        (header::CACHE_CONTROL, "private, no-cache".to_owned()),
        (header::CONTENT_TYPE, clip.media_type),
        (SPAN, format!("{}/{}", rfc3339(clip.from), rfc3339(clip.to))),
    ];
    let (status, range) = match Part::wanted(headers, &entity_tag, length)? {
        Part::Unchanged => return Ok((StatusCode::NOT_MODIFIED, missing, shown).into_response()),
        Part::Whole => (StatusCode::OK, 0..length),
        Part::Bytes(range) => (StatusCode::PARTIAL_CONTENT, range),
    };
    let mut fields = missing;
    fields.insert(header::CONTENT_LENGTH, (range.end - range.start).into());
    if status == StatusCode::PARTIAL_CONTENT {
        let value = format!("bytes {}-{}/{length}", range.start, range.end - 1);
        fields.insert(header::CONTENT_RANGE, value.parse().expect("digits"));
    }
    let body = playback(app)?.read(clip.assembly, range, waiter.source())?;
    let body = Body::from_stream(body.into_chunks());
    Ok((status, shown, fields, body).into_response())
}
