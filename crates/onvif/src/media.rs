//! The media service: how a camera encodes, and the URLs of its streams.

use roxmltree::Node;
use url::Url;

use crate::call::Call;
use crate::envelope::{self, LocalName as _, TOKEN_BYTES_MAX, element, text};
use crate::ptz::Axes;

/// Most profiles that are listed. Cameras have two to six.
const PROFILES_MAX: usize = 16;

const SCHEMA: &str = "http://www.onvif.org/ver10/schema";

/// A version of the media service. Cameras of Profile T alone have the second one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    First,
    Second,
}

/// Names of the parts of a profile.
struct Names {
    video: &'static str,
    audio: &'static str,
    ptz: &'static str,
    output: &'static str,
    decoder: &'static str,
}

impl Version {
    /// Returns the namespace of the service.
    pub(crate) const fn namespace(self) -> &'static str {
        match self {
            Self::First => "http://www.onvif.org/ver10/media/wsdl",
            Self::Second => "http://www.onvif.org/ver20/media/wsdl",
        }
    }

    const fn names(self) -> Names {
        match self {
            Self::First => Names {
                video: "VideoEncoderConfiguration",
                audio: "AudioEncoderConfiguration",
                ptz: "PTZConfiguration",
                output: "AudioOutputConfiguration",
                decoder: "AudioDecoderConfiguration",
            },
            Self::Second => Names {
                video: "VideoEncoder",
                audio: "AudioEncoder",
                ptz: "PTZ",
                output: "AudioOutput",
                decoder: "AudioDecoder",
            },
        }
    }
}

/// A way in which a camera encodes its media, and where it is played.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamProfile {
    /// The profile as the camera describes it.
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
pub(crate) struct GetProfiles(pub(crate) Version);

impl Call for GetProfiles {
    type Response = Vec<Profile>;

    const NAME: &'static str = "GetProfiles";

    fn body(&self) -> String {
        let namespace = self.0.namespace();
        match self.0 {
            Version::First => format!("<GetProfiles xmlns=\"{namespace}\"/>"),
            // Without a type, the profiles have no more than their names.
            Version::Second => {
                format!("<GetProfiles xmlns=\"{namespace}\"><Type>All</Type></GetProfiles>")
            }
        }
    }

    fn read(&self, root: Node<'_, '_>) -> Result<Vec<Profile>, String> {
        let profiles = root
            .descendants()
            .filter(|it| it.has_tag_name_of("Profiles"));
        let names = self.0.names();
        let profiles = profiles.filter_map(|it| profile(it, &names));
        Ok(profiles.take(PROFILES_MAX).collect())
    }
}

fn profile(node: Node<'_, '_>, names: &Names) -> Option<Profile> {
    let token = node.attribute("token")?;
    let audio = element(node, names.audio);
    let audio = audio.and_then(|it| text(it, "Encoding"));
    let has = |name| element(node, name).is_some();
    let name = text(node, "Name").unwrap_or(token);
    (token.len() <= TOKEN_BYTES_MAX).then(|| Profile {
        name: envelope::shown(name).unwrap_or_default(),
        token: token.to_owned(),
        video: element(node, names.video).and_then(video),
        audio: audio.and_then(envelope::shown),
        axes: element(node, names.ptz).map(Axes::of),
        has_back_channel: has(names.output) && has(names.decoder),
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
    let encoding = text(node, "Encoding").and_then(envelope::shown)?;
    // The second version has an attribute in place of an element.
    let profile = text(node, "H264Profile");
    let profile = profile.or_else(|| node.attribute("Profile").filter(|_| encoding == "H264"));
    Some(Video {
        size: size("Width").zip(size("Height")),
        frame_rate: limit("FrameRateLimit"),
        bitrate_bps: bitrate.map(|it| (it * 1e3) as u64),
        h264_profile: profile.and_then(envelope::shown),
        encoding,
    })
}

/// The question for the URL of a profile's stream.
pub(crate) struct GetStreamUri<'a> {
    pub(crate) version: Version,
    /// Token of the profile.
    pub(crate) profile: &'a str,
}

impl Call for GetStreamUri<'_> {
    type Response = Url;

    const NAME: &'static str = "GetStreamUri";

    fn body(&self) -> String {
        let way = match self.version {
            Version::First => format!(
                "<StreamSetup><Stream xmlns=\"{SCHEMA}\">RTP-Unicast</Stream>\
                 <Transport xmlns=\"{SCHEMA}\"><Protocol>RTSP</Protocol></Transport></StreamSetup>"
            ),
            Version::Second => "<Protocol>RtspUnicast</Protocol>".to_owned(),
        };
        format!(
            "<GetStreamUri xmlns=\"{}\">{way}<ProfileToken>{}</ProfileToken></GetStreamUri>",
            self.version.namespace(),
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
