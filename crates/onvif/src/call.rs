//! A request of ONVIF: its body, and how the body of its response is read.

use roxmltree::Node;

/// A request of ONVIF.
pub(crate) trait Call {
    /// The part of the response that is used.
    type Response;

    /// Name of the operation.
    const NAME: &'static str;

    /// Whether cameras tell this to everybody, so that no credentials are needed.
    const IS_OPEN: bool = false;

    /// Returns the content of the envelope's body.
    fn body(&self) -> String;

    /// Reads the response.
    ///
    /// # Errors
    /// Returns what is missing or wrong.
    fn read(&self, root: Node<'_, '_>) -> Result<Self::Response, String>;
}

/// Reads `bytes` as every message that a camera sends, for the fuzz target `onvif`.
///
/// # Panics
/// A message is read as more than it may be.
#[cfg(any(test, fuzzing))]
pub fn fuzz_responses(bytes: &[u8]) {
    use crate::{device, discovery, envelope, media, ptz};

    const UUID: &str = "6f5b8c5e-1f1d-4f6a-9a1c-000000000001";
    let from = ([192, 0, 2, 20], 3702).into();
    let is_short = |text: &str| text.chars().count() <= 200 && !text.contains(char::is_control);
    for device in discovery::answers(bytes, from, UUID) {
        assert_eq!(device.address, from);
        let host = device.service.host_str();
        assert_eq!(host, Some("192.0.2.20"), "{}", device.service);
        assert!(device.service.username().is_empty() && device.service.password().is_none());
        let told = [device.name, device.hardware, device.location];
        assert!(told.iter().flatten().all(|it| is_short(it)) && is_short(&device.id));
    }
    let text = String::from_utf8_lossy(bytes);
    let Ok(document) = envelope::parse(&text) else {
        return;
    };
    let root = document.root();
    if let Some(fault) = envelope::fault(&document) {
        assert!(is_short(&fault.reason));
    }
    if let Ok(seconds) = device::GetSystemDateAndTime.read(root) {
        assert!((-62_200_000_000..=253_500_000_000).contains(&seconds));
    }
    let _ = device::GetCapabilities.read(root);
    let _ = device::GetServices.read(root);
    if let Ok(it) = device::GetDeviceInformation.read(root) {
        let told = [it.manufacturer, it.model, it.firmware];
        assert!(told.iter().flatten().all(|it| is_short(it)));
    }
    for version in [media::Version::First, media::Version::Second] {
        if let Ok(profiles) = media::GetProfiles(version).read(root) {
            assert!(profiles.len() <= 16);
            assert!(profiles.iter().all(|it| is_short(&it.name)));
        }
    }
    let call = media::GetStreamUri {
        version: media::Version::First,
        profile: "a",
    };
    if let Ok(url) = call.read(root) {
        assert!(matches!(url.scheme(), "rtsp" | "rtsps"));
        assert!(url.username().is_empty() && url.password().is_none());
    }
    if let Ok(presets) = (ptz::GetPresets { profile: "a" }).read(root) {
        assert!(presets.len() <= 100);
        assert!(presets.iter().all(|it| is_short(&it.name)));
    }
}
