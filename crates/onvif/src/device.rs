//! The device service: the camera's clock, its other services, its model.

use roxmltree::Node;
use url::Url;

use crate::calendar::DateTime;
use crate::call::Call;
use crate::envelope::{self, LocalName as _, element, text};
use crate::media::Version;
use crate::ptz;

const DEVICE: &str = "http://www.onvif.org/ver10/device/wsdl";

/// The question for the camera's clock: seconds since 1970.
pub(crate) struct GetSystemDateAndTime;

impl Call for GetSystemDateAndTime {
    type Response = i64;

    const NAME: &'static str = "GetSystemDateAndTime";
    const IS_OPEN: bool = true;

    fn body(&self) -> String {
        format!("<GetSystemDateAndTime xmlns=\"{DEVICE}\"/>")
    }

    fn read(&self, root: Node<'_, '_>) -> Result<i64, String> {
        let utc = element(root, "UTCDateTime").ok_or("no UTCDateTime")?;
        let number = |name: &str| -> Result<i64, String> {
            let found = text(utc, name).and_then(|it| it.parse().ok());
            found.ok_or_else(|| format!("the date has no {name}"))
        };
        let told = DateTime {
            year: number("Year")?,
            month: number("Month")?,
            day: number("Day")?,
            hour: number("Hour")?,
            minute: number("Minute")?,
            second: number("Second")?,
        };
        Ok(told.unix_seconds())
    }
}

/// The question for the camera's services, as cameras of the first version tell them.
pub(crate) struct GetCapabilities;

/// The services of a camera, as it writes their URLs.
#[derive(Debug, Default)]
pub(crate) struct Services {
    pub(crate) media: Option<Media>,
    pub(crate) ptz: Option<Url>,
}

/// The media service of a camera.
#[derive(Clone, Debug)]
pub(crate) struct Media {
    pub(crate) version: Version,
    pub(crate) url: Url,
}

impl Call for GetCapabilities {
    type Response = Services;

    const NAME: &'static str = "GetCapabilities";

    fn body(&self) -> String {
        format!("<GetCapabilities xmlns=\"{DEVICE}\"><Category>All</Category></GetCapabilities>")
    }

    fn read(&self, root: Node<'_, '_>) -> Result<Services, String> {
        let address = |service| {
            let address = text(element(root, service)?, "XAddr")?;
            Url::parse(address).ok()
        };
        Ok(Services {
            media: address("Media").map(|url| Media {
                version: Version::First,
                url,
            }),
            ptz: address("PTZ"),
        })
    }
}

/// The question for the camera's services of every version.
pub(crate) struct GetServices;

impl Call for GetServices {
    type Response = Services;

    const NAME: &'static str = "GetServices";

    fn body(&self) -> String {
        format!(
            "<GetServices xmlns=\"{DEVICE}\"><IncludeCapability>false</IncludeCapability></GetServices>"
        )
    }

    fn read(&self, root: Node<'_, '_>) -> Result<Services, String> {
        let address = |namespace: &str| {
            let mut services = root
                .descendants()
                .filter(|it| it.has_tag_name_of("Service"));
            let service = services.find(|it| text(*it, "Namespace") == Some(namespace))?;
            Url::parse(text(service, "XAddr")?).ok()
        };
        let media = |version: Version| {
            let url = address(version.namespace())?;
            Some(Media { version, url })
        };
        Ok(Services {
            media: media(Version::First).or_else(|| media(Version::Second)),
            ptz: address(ptz::NAMESPACE),
        })
    }
}

/// The question for the camera's model.
pub(crate) struct GetDeviceInformation;

/// The model of a camera, as far as it tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Information {
    /// Name of the maker.
    pub manufacturer: Option<String>,
    /// Name of the model.
    pub model: Option<String>,
    /// Version of the camera's software.
    pub firmware: Option<String>,
}

impl Call for GetDeviceInformation {
    type Response = Information;

    const NAME: &'static str = "GetDeviceInformation";

    fn body(&self) -> String {
        format!("<GetDeviceInformation xmlns=\"{DEVICE}\"/>")
    }

    fn read(&self, root: Node<'_, '_>) -> Result<Information, String> {
        let told = |name| text(root, name).and_then(envelope::shown);
        Ok(Information {
            manufacturer: told("Manufacturer"),
            model: told("Model"),
            firmware: told("FirmwareVersion"),
        })
    }
}
