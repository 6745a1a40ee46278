//! `/api/v1/camera-searches` and `/api/v1/camera-profiles`: cameras that can become sources.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use glassline_onvif::{Credentials, Device, Error, StreamProfile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::extract::JsonBody;
use super::super::openapi::{Operation, Routes};
use super::super::problem::Problem;
use super::sources::panicked;
use crate::app::App;
use crate::onvif::{InquiryError, SECONDS_MAX, ToldCamera};

/// Returns the routes of cameras that can become sources, for those who may make sources.
pub(super) fn routes() -> Routes {
    let not_permitted = "The address must not be named over the API";
    Routes::default()
        .on(
            Method::POST,
            "/api/v1/camera-searches",
            Operation::new(
                "findCameras",
                "Searches the networks of the server for cameras with ONVIF",
            )
            .problem(403, not_permitted)
            .problem(422, "An address cannot be understood")
            .problem(503, "Another search is under way, or there is no network"),
            search,
        )
        .on(
            Method::POST,
            "/api/v1/camera-profiles",
            Operation::new("getCameraProfiles", "Asks a camera for its streams")
                .problem(403, not_permitted)
                .problem(422, "The camera wants another user or password")
                .problem(502, "The camera does not answer as it should")
                .problem(503, "Several cameras are being asked now"),
            profiles,
        )
}

/// A search for cameras.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Search {
    /// Addresses of cameras in other networks, like `10.0.7.20`; without any, the networks of the server.
    #[serde(default)]
    #[schemars(length(max = 16))]
    addresses: Vec<String>,
    /// Time for answers, in seconds.
    #[serde(default = "three")]
    #[schemars(range(min = 1, max = 10))]
    seconds: u64,
}

const fn three() -> u64 {
    3
}

/// The cameras that answered a search.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "FoundCameras")]
struct Cameras {
    cameras: Vec<CameraView>,
}

/// A camera that answered a search.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "FoundCamera")]
struct CameraView {
    /// Identifier that stays the same.
    id: String,
    /// IP address of the camera.
    address: String,
    name: Option<String>,
    model: Option<String>,
    location: Option<String>,
    /// URL of the device service, which `camera-profiles` takes.
    service: String,
}

impl From<Device> for CameraView {
    fn from(device: Device) -> Self {
        Self {
            id: device.id,
            address: device.address.ip().to_string(),
            name: device.name,
            model: device.hardware,
            location: device.location,
            service: device.service.into(),
        }
    }
}

async fn search(
    State(app): State<App>,
    JsonBody(Search { addresses, seconds }): JsonBody<Search>,
) -> Result<Json<Cameras>, Problem> {
    if !(1..=SECONDS_MAX).contains(&seconds) {
        return Err(InquiryError::Span(seconds).into());
    }
    let patience = Duration::from_secs(seconds);
    let reach = app.stored.sources.reach();
    let found = app.onvif.inquiries.find(&addresses, patience, reach).await;
    let cameras = found?.into_iter().map(CameraView::from).collect();
    Ok(Json(Cameras { cameras }))
}

/// A question to a camera.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Question {
    /// URL of the device service, as the search found it.
    service: String,
    /// User name at the camera.
    #[serde(default)]
    user: Option<String>,
    /// Password at the camera, which is sent as a digest only.
    #[serde(default)]
    password: Option<String>,
}

/// The description of a camera by itself.
#[derive(Debug, Serialize, JsonSchema)]
struct CameraProfiles {
    manufacturer: Option<String>,
    model: Option<String>,
    firmware: Option<String>,
    profiles: Vec<ProfileView>,
}

/// A way in which a camera encodes its media.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CameraProfile")]
struct ProfileView {
    name: String,
    /// `main` for the largest video, `sub` for the others; null without video.
    stream: Option<&'static str>,
    /// RTSP URL, without user and password.
    url: String,
    codec: Option<String>,
    width: Option<u32>,
    height: Option<u32>,
    frame_rate: Option<f64>,
    /// Most bits in a second.
    bitrate_bps: Option<u64>,
    /// Whether the video has B-frames; null if the camera does not tell.
    b_frames: Option<bool>,
    audio: Option<String>,
    /// Whether the camera can be moved.
    ptz: bool,
    /// Whether the camera plays a voice that it is sent.
    back_channel: bool,
}

impl From<ToldCamera> for CameraProfiles {
    fn from(told: ToldCamera) -> Self {
        let pixels = |it: &StreamProfile| {
            let video = it.profile.video.as_ref()?;
            let (width, height) = video.size.unwrap_or_default();
            Some(u64::from(width) * u64::from(height))
        };
        let largest = told.profiles.iter().filter_map(pixels).max();
        let mut has_main = false;
        let profiles = told.profiles.into_iter().map(|it| {
            let pixels = pixels(&it);
            let is_main = pixels.is_some() && pixels == largest && !has_main;
            has_main |= is_main;
            let stream = pixels.map(|_| if is_main { "main" } else { "sub" });
            ProfileView::of(it, stream)
        });
        Self {
            profiles: profiles.collect(),
            manufacturer: told.information.manufacturer,
            model: told.information.model,
            firmware: told.information.firmware,
        }
    }
}

impl ProfileView {
    fn of(StreamProfile { profile, url }: StreamProfile, stream: Option<&'static str>) -> Self {
        let video = profile.video.as_ref();
        let (width, height) = video.and_then(|it| it.size).unzip();
        let h264_profile = video.and_then(|it| it.h264_profile.as_deref());
        Self {
            stream,
            url: url.into(),
            codec: video.map(|it| it.encoding.clone()),
            width,
            height,
            frame_rate: video.and_then(|it| it.frame_rate),
            bitrate_bps: video.and_then(|it| it.bitrate_bps),
            // ITU-T H.264 A.2.1; a camera does not tell of the others.
            b_frames: (h264_profile == Some("Baseline")).then_some(false),
            ptz: profile.axes.is_some(),
            back_channel: profile.has_back_channel,
            audio: profile.audio,
            name: profile.name,
        }
    }
}

async fn profiles(
    State(app): State<App>,
    JsonBody(question): JsonBody<Question>,
) -> Result<Json<CameraProfiles>, Problem> {
    let credentials = question.user.filter(|it| !it.is_empty());
    let credentials = credentials.map(|user| Credentials {
        user,
        password: question.password.unwrap_or_default(),
    });
    let reach = app.stored.sources.reach();
    // The place of a question is free once it has ended, also if the client goes away.
    let asking = tokio::spawn(async move {
        let inquiries = &app.onvif.inquiries;
        inquiries.ask(&question.service, credentials, reach).await
    });
    let told = asking.await.map_err(|_| panicked())??;
    Ok(Json(told.into()))
}

impl From<InquiryError> for Problem {
    fn from(error: InquiryError) -> Self {
        let text = error.to_string();
        match error {
            InquiryError::Searching => Self::try_later("A search is under way", text),
            InquiryError::Asking => Self::try_later("Too many questions", text),
            InquiryError::Network(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "No network", text)
            }
            InquiryError::NotPermitted(_) => Self::new(StatusCode::FORBIDDEN, "Not allowed", text),
            InquiryError::NoAddress(_)
            | InquiryError::NoUrl(_)
            | InquiryError::Span(_)
            | InquiryError::TooMany(_) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Not a camera", text)
            }
            InquiryError::Camera(Error::Unauthorized(_)) => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "The camera asks for a user",
                text,
            ),
            InquiryError::Camera(_) | InquiryError::Slow { .. } => {
                Self::new(StatusCode::BAD_GATEWAY, "The camera does not tell", text)
            }
        }
    }
}
