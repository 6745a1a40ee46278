//! The media service: how a camera encodes, and the URLs of its streams.

use roxmltree::Node;
use url::Url;

use crate::call::Call;
use crate::envelope::{self, LocalName as _, TOKEN_BYTES_MAX, element, text};
use crate::ptz::Axes;

/// Most profiles that are listed. Cameras have two to six.
const PROFILES_MAX: usize = 16;

const MEDIA: &str = "http://www.onvif.org/ver10/media/wsdl";
const SCHEMA: &str = "http://www.onvif.org/ver10/schema";

/// A way in which a camera encodes its media, and where it is played.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamProfile {
    /// What the camera says of the profile.
    pub profile: Profile,
    /// RTSP URL, without user and password.
    pub url: Url,
}

/// A way in which a camera encodes its media.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Name of the profile for requests.
    pub token: String,
    /// Name for people, as the camera has it.
    pub name: String,
    /// How the video is encoded; `None` for a profile without video.
    pub video: Option<Video>,
    /// Encoding of the audio, like `AAC` or `G711`.
    pub audio: Option<String>,
    /// Axes that the camera can be moved in; `None` if it cannot be moved by this profile.
    pub axes: Option<Axes>,
    /// Whether the camera plays audio that it is sent.
    pub has_back_channel: bool,
}

/// The encoding of a camera's video.
#[derive(Clone, Debug, PartialEq)]
pub struct Video {
    /// Name of the codec, like `H264`.
    pub encoding: String,
    /// Width and height in pixels, if the camera states them.
    pub size: Option<(u32, u32)>,
    /// Most frames in a second.
    pub frame_rate: Option<f64>,
    /// Most bits in a second.
    pub bitrate_bps: Option<u64>,
    /// Name of the H.264 profile, like `Baseline` or `Main`.
    pub h264_profile: Option<String>,
}

/// The question for all profiles.
pub(crate) struct GetProfiles;

impl Call for GetProfiles {
    type Response = Vec<Profile>;

    const NAME: &'static str = "GetProfiles";

    fn body(&self) -> String {
        format!("<GetProfiles xmlns=\"{MEDIA}\"/>")
    }

    fn read(&self, root: Node<'_, '_>) -> Result<Vec<Profile>, String> {
        let profiles = root
            .descendants()
            .filter(|it| it.has_tag_name_of("Profiles"));
        Ok(profiles.filter_map(profile).take(PROFILES_MAX).collect())
    }
}

fn profile(node: Node<'_, '_>) -> Option<Profile> {
    let token = node.attribute("token")?;
    let audio = element(node, "AudioEncoderConfiguration");
    let audio = audio.and_then(|it| text(it, "Encoding"));
    let has = |name| element(node, name).is_some();
    let name = text(node, "Name").unwrap_or(token);
    (token.len() <= TOKEN_BYTES_MAX).then(|| Profile {
        name: envelope::shown(name).unwrap_or_default(),
        token: token.to_owned(),
        video: element(node, "VideoEncoderConfiguration").and_then(video),
        audio: audio.and_then(envelope::shown),
        axes: element(node, "PTZConfiguration").map(Axes::of),
        has_back_channel: has("AudioOutputConfiguration") && has("AudioDecoderConfiguration"),
    })
}

fn video(node: Node<'_, '_>) -> Option<Video> {
    let size = |name| text(node, name)?.parse().ok();
    let limit = |name| -> Option<f64> {
        let limit: f64 = text(node, name)?.parse().ok()?;
        (limit.is_finite() && limit > 0.0).then_some(limit)
    };
    // Kilobits, with a bound beyond which no camera is.
    let bitrate = limit("BitrateLimit").filter(|it| *it <= 1e7);
    Some(Video {
        encoding: text(node, "Encoding").and_then(envelope::shown)?,
        size: size("Width").zip(size("Height")),
        frame_rate: limit("FrameRateLimit"),
        bitrate_bps: bitrate.map(|it| (it * 1e3) as u64),
        h264_profile: text(node, "H264Profile").and_then(envelope::shown),
    })
}

/// The question for the URL of a profile's stream.
pub(crate) struct GetStreamUri<'a> {
    /// Token of the profile.
    pub(crate) profile: &'a str,
}

impl Call for GetStreamUri<'_> {
    type Response = Url;

    const NAME: &'static str = "GetStreamUri";

    fn body(&self) -> String {
        format!(
            "<GetStreamUri xmlns=\"{MEDIA}\"><StreamSetup>\
             <Stream xmlns=\"{SCHEMA}\">RTP-Unicast</Stream>\
             <Transport xmlns=\"{SCHEMA}\"><Protocol>RTSP</Protocol></Transport></StreamSetup>\
             <ProfileToken>{}</ProfileToken></GetStreamUri>",
            envelope::escaped(self.profile)
        )
    }

    fn read(&self, root: Node<'_, '_>) -> Result<Url, String> {
        let text = text(root, "Uri").ok_or("no Uri")?;
        let Ok(mut url) = Url::parse(text) else {
            return Err("the URI of the stream is no URL".to_owned());
        };
        // Some cameras write credentials into it, which would be printed.
        let _ = (url.set_username(""), url.set_password(None));
        if !matches!(url.scheme(), "rtsp" | "rtsps") {
            return Err(format!("a stream of {}:// is not RTSP", url.scheme()));
        }
        Ok(url)
    }
}
