//! The PTZ service: a camera that pans, tilts and zooms.

use roxmltree::Node;

use crate::call::Call;
use crate::envelope::{self, LocalName as _, TOKEN_BYTES_MAX, element, text};

/// Most presets that are listed.
const PRESETS_MAX: usize = 100;

/// Namespace of the service.
pub(crate) const NAMESPACE: &str = "http://www.onvif.org/ver20/ptz/wsdl";
const SCHEMA: &str = "http://www.onvif.org/ver10/schema";

/// Time after which a camera stops by itself, if it obeys: a server that is lost sends no stop.
const TIMEOUT: &str = "PT3S";

/// Axes in which a camera can be moved continuously.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axes {
    /// Whether the camera pans and tilts.
    pub pan_tilt: bool,
    /// Whether the camera zooms.
    pub zoom: bool,
}

impl Axes {
    /// Returns the axes of a `PTZConfiguration`. A configuration that names no space has them all.
    pub(crate) fn of(configuration: Node<'_, '_>) -> Self {
        let has = |name| element(configuration, name).is_some();
        let axes = Self {
            pan_tilt: has("DefaultContinuousPanTiltVelocitySpace"),
            zoom: has("DefaultContinuousZoomVelocitySpace"),
        };
        match axes.pan_tilt || axes.zoom {
            true => axes,
            false => Self {
                pan_tilt: true,
                zoom: true,
            },
        }
    }
}

/// The profile by which a camera is moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovableProfile {
    /// Name of the profile for requests.
    pub(crate) token: String,
    /// Axes that the camera has.
    pub axes: Axes,
}

/// The speed of a movement, each axis from -1 to 1: right, up and in are positive.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Velocity {
    /// Speed of panning to the right.
    pub pan: f32,
    /// Speed of tilting upwards.
    pub tilt: f32,
    /// Speed of coming nearer.
    pub zoom: f32,
}

impl Velocity {
    /// Returns whether nothing moves.
    pub fn is_zero(self) -> bool {
        self.pan == 0.0 && self.tilt == 0.0 && self.zoom == 0.0
    }
}

/// A position that the camera keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Name of the preset for requests.
    pub token: String,
    /// Name of the preset, as people read it.
    pub name: String,
}

/// The command to move until another command.
pub(crate) struct ContinuousMove<'a> {
    pub(crate) profile: &'a MovableProfile,
    pub(crate) velocity: Velocity,
    /// Whether the camera is told to stop by itself after some seconds.
    pub(crate) has_timeout: bool,
}

impl Call for ContinuousMove<'_> {
    type Response = ();

    const NAME: &'static str = "ContinuousMove";

    fn body(&self) -> String {
        let (Velocity { pan, tilt, zoom }, axes) = (self.velocity, self.profile.axes);
        let mut velocity = String::new();
        if axes.pan_tilt {
            velocity += &format!("<PanTilt xmlns=\"{SCHEMA}\" x=\"{pan}\" y=\"{tilt}\"/>");
        }
        if axes.zoom {
            velocity += &format!("<Zoom xmlns=\"{SCHEMA}\" x=\"{zoom}\"/>");
        }
        let timeout = match self.has_timeout {
            true => format!("<Timeout>{TIMEOUT}</Timeout>"),
            false => String::new(),
        };
        let token = envelope::escaped(&self.profile.token);
        format!(
            "<ContinuousMove xmlns=\"{NAMESPACE}\"><ProfileToken>{token}</ProfileToken>\
             <Velocity>{velocity}</Velocity>{timeout}</ContinuousMove>"
        )
    }

    fn read(&self, _: Node<'_, '_>) -> Result<(), String> {
        Ok(())
    }
}

/// The command to stop every movement.
pub(crate) struct Stop<'a> {
    pub(crate) profile: &'a MovableProfile,
}

impl Call for Stop<'_> {
    type Response = ();

    const NAME: &'static str = "Stop";

    fn body(&self) -> String {
        let token = envelope::escaped(&self.profile.token);
        format!(
            "<Stop xmlns=\"{NAMESPACE}\"><ProfileToken>{token}</ProfileToken>\
             <PanTilt>true</PanTilt><Zoom>true</Zoom></Stop>"
        )
    }

    fn read(&self, _: Node<'_, '_>) -> Result<(), String> {
        Ok(())
    }
}

/// The question for the camera's presets.
pub(crate) struct GetPresets<'a> {
    pub(crate) profile: &'a str,
}

impl Call for GetPresets<'_> {
    type Response = Vec<Preset>;

    const NAME: &'static str = "GetPresets";

    fn body(&self) -> String {
        let token = envelope::escaped(self.profile);
        format!(
            "<GetPresets xmlns=\"{NAMESPACE}\"><ProfileToken>{token}</ProfileToken></GetPresets>"
        )
    }

    fn read(&self, root: Node<'_, '_>) -> Result<Vec<Preset>, String> {
        let presets = root.descendants().filter(|it| it.has_tag_name_of("Preset"));
        let presets = presets.filter_map(|preset| {
            let token = preset.attribute("token")?;
            let name = text(preset, "Name").and_then(envelope::shown);
            (token.len() <= TOKEN_BYTES_MAX).then(|| Preset {
                name: name.or_else(|| envelope::shown(token)).unwrap_or_default(),
                token: token.to_owned(),
            })
        });
        Ok(presets.take(PRESETS_MAX).collect())
    }
}

/// The command to go to a preset.
pub(crate) struct GotoPreset<'a> {
    pub(crate) profile: &'a str,
    pub(crate) preset: &'a str,
}

impl Call for GotoPreset<'_> {
    type Response = ();

    const NAME: &'static str = "GotoPreset";

    fn body(&self) -> String {
        let [profile, preset] = [self.profile, self.preset].map(envelope::escaped);
        format!(
            "<GotoPreset xmlns=\"{NAMESPACE}\"><ProfileToken>{profile}</ProfileToken>\
             <PresetToken>{preset}</PresetToken></GotoPreset>"
        )
    }

    fn read(&self, _: Node<'_, '_>) -> Result<(), String> {
        Ok(())
    }
}
