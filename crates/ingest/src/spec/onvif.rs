//! Where a camera's ONVIF is, by which it is moved.

use std::str::FromStr;

use url::Url;

/// The device service of a camera.
#[derive(Clone, Debug, Default, PartialEq, Eq, derive_more::Display)]
pub enum OnvifService {
    /// The usual ports of the camera's host are tried when somebody wants to move the camera.
    #[default]
    #[display("auto")]
    Auto,
    /// The camera is never asked.
    #[display("off")]
    Off,
    /// URL of the device service, without user and password: those of the source count.
    #[display("{}", glassline_url::shown(_0))]
    At(Url),
}

/// A text is not an [`OnvifService`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoOnvifService;

impl OnvifService {
    /// The form of the option, for people.
    pub const WANTED: &'static str = "auto, off, or a URL like http://192.168.1.20/onvif/device_service \
         without user and password";
}

impl FromStr for OnvifService {
    type Err = NoOnvifService;

    fn from_str(text: &str) -> Result<Self, NoOnvifService> {
        match text {
            "auto" => return Ok(Self::Auto),
            "off" => return Ok(Self::Off),
            _ => {}
        }
        let url = Url::parse(text).map_err(|_| NoOnvifService)?;
        let is_web = matches!(url.scheme(), "http" | "https") && url.host().is_some();
        let is_bare = url.username().is_empty() && url.password().is_none();
        match is_web && is_bare {
            true => Ok(Self::At(url)),
            false => Err(NoOnvifService),
        }
    }
}
