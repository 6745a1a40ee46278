//! Searches for cameras, and questions to one of them, that operators cause.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use glassline_ingest::Reach;
use glassline_onvif::{
    self as onvif, Camera, Credentials, DISCOVERY_PORT, Device, Information, Scope, StreamProfile,
    Trust,
};
use tokio::sync::Semaphore;
use url::Url;

/// Most addresses that a search names.
pub(crate) const ADDRESSES_MAX: usize = 16;

/// Longest search, in seconds.
pub(crate) const SECONDS_MAX: u64 = 10;

/// Most cameras that are asked at the same time.
const ASKED_MAX: usize = 4;

/// Longest time in which a camera tells everything.
const PATIENCE: Duration = Duration::from_secs(20);

/// Bounds of what operators may ask the network.
#[derive(Debug)]
pub(crate) struct Inquiries {
    searches: Semaphore,
    asked: Semaphore,
}

impl Default for Inquiries {
    fn default() -> Self {
        Self {
            searches: Semaphore::new(1),
            asked: Semaphore::new(ASKED_MAX),
        }
    }
}

/// The description of a camera by itself.
#[derive(Debug)]
pub(crate) struct ToldCamera {
    pub(crate) information: Information,
    pub(crate) profiles: Vec<StreamProfile>,
}

/// The reason why cameras were not found, or did not tell.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InquiryError {
    /// Another search is under way.
    #[error("another search for cameras is under way: try again when it has ended")]
    Searching,
    /// Other cameras are being asked.
    #[error("{ASKED_MAX} cameras are being asked now: try again in some seconds")]
    Asking,
    /// A search has no time, or too much.
    #[error("a search takes {0} s, and may take 1 to {SECONDS_MAX}")]
    Span(u64),
    /// A search names too many addresses.
    #[error("a search names {0} addresses, and may name {ADDRESSES_MAX}")]
    TooMany(usize),
    /// A text is no address of a camera.
    #[error("'{0}' is no address of a camera, like 192.168.1.20 or 192.168.1.20:3702")]
    NoAddress(String),
    /// A text is no URL of a device service.
    #[error(
        "'{0}' is no URL of a camera's device service, like http://192.168.1.20/onvif/device_service"
    )]
    NoUrl(String),
    /// The address must not be named.
    #[error("{0}")]
    NotPermitted(String),
    /// The network cannot be asked, or the name of the camera has no address.
    #[error("cannot ask the network for cameras: {0}")]
    Network(#[source] io::Error),
    /// The camera did not answer as it should.
    #[error(transparent)]
    Camera(#[from] onvif::Error),
    /// The camera is too slow.
    #[error("the camera at {url} did not tell everything within {} s", PATIENCE.as_secs())]
    Slow {
        /// URL of its device service.
        url: Url,
    },
}

impl Inquiries {
    /// Searches the networks of this machine, or `addresses`, for `patience`, and returns the cameras
    /// that may be named as sources.
    ///
    /// # Errors
    /// Returns [`InquiryError`]; nothing was sent to an address that must not be named.
    pub(crate) async fn find(
        &self,
        addresses: &[String],
        patience: Duration,
        reach: Reach,
    ) -> Result<Vec<Device>, InquiryError> {
        let turn = self.searches.try_acquire();
        let _turn = turn.map_err(|_| InquiryError::Searching)?;
        if addresses.len() > ADDRESSES_MAX {
            return Err(InquiryError::TooMany(addresses.len()));
        }
        let mut scope = Scope::Networks;
        if !addresses.is_empty() {
            let mut named = Vec::new();
            for text in addresses {
                let address = address(text)?;
                named.push(resolved(reach, &address.ip().to_string(), address.port()).await?);
            }
            scope = Scope::Addresses(named);
        }
        let found = onvif::find(&scope, patience).await;
        let mut found = found.map_err(InquiryError::Network)?;
        found.retain(|device| reach.allows(device.address.ip()));
        Ok(found)
    }

    /// Asks the camera with this device service for its model and its streams.
    ///
    /// # Errors
    /// Returns [`InquiryError`]; no text has the password.
    pub(crate) async fn ask(
        &self,
        service: &str,
        credentials: Option<Credentials>,
        reach: Reach,
    ) -> Result<ToldCamera, InquiryError> {
        let place = self.asked.try_acquire();
        let _place = place.map_err(|_| InquiryError::Asking)?;
        let url = device_service(service)?;
        let at = resolved_host(reach, &url).await?;
        let asking = async {
            // Cameras sign their certificates themselves; the password goes as a digest.
            let camera = Camera::connect(&url, at.ip(), Trust::Anyone, credentials).await?;
            let profiles = camera.stream_profiles().await?;
            // Some cameras do not tell their model.
            let information = camera.information().await.unwrap_or_default();
            Ok(ToldCamera {
                information,
                profiles,
            })
        };
        match tokio::time::timeout(PATIENCE, asking).await {
            Ok(told) => told,
            Err(_) => Err(InquiryError::Slow { url: url.clone() }),
        }
    }
}

/// Returns the address to ask for `host`, if it may be named.
async fn resolved(reach: Reach, host: &str, port: u16) -> Result<SocketAddr, InquiryError> {
    let found = reach.resolve(host, port).await.map_err(|error| {
        match error.kind() == io::ErrorKind::PermissionDenied {
            true => InquiryError::NotPermitted(error.to_string()),
            false => InquiryError::Network(error),
        }
    })?;
    let first = found.into_iter().next();
    first.ok_or_else(|| InquiryError::Network(io::ErrorKind::NotFound.into()))
}

/// Returns the address to ask for the host of `url`, if it may be named.
pub(super) async fn resolved_host(reach: Reach, url: &Url) -> Result<SocketAddr, InquiryError> {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    resolved(reach, bare, url.port_or_known_default().unwrap_or(0)).await
}

fn address(text: &str) -> Result<SocketAddr, InquiryError> {
    let ip = |text: &str| text.parse::<IpAddr>().ok();
    let with_port = text.parse().ok();
    let found = with_port.or_else(|| Some(SocketAddr::new(ip(text)?, DISCOVERY_PORT)));
    found.ok_or_else(|| InquiryError::NoAddress(text.chars().take(80).collect()))
}

fn device_service(text: &str) -> Result<Url, InquiryError> {
    let found = Url::parse(text).ok().filter(|url| {
        let is_web = matches!(url.scheme(), "http" | "https");
        is_web && url.host().is_some()
    });
    let mut url = found.ok_or_else(|| InquiryError::NoUrl(glassline_url::hidden(text)))?;
    // User and password have fields of their own.
    let _ = (url.set_username(""), url.set_password(None));
    Ok(url)
}
