//! Microphones and loudspeakers of this machine, for calls.
//!
//! A build without the feature `system` has none, and every function returns `None`. Nothing but the
//! command line depends on this crate, so the feature compiles one small crate anew and no other.

#![cfg_attr(
    feature = "system",
    expect(clippy::disallowed_methods, reason = "devices run in real time")
)]

#[cfg(feature = "system")]
mod system;

use glassline_client::call::{DeviceError, Loudspeaker, Microphone};

/// Names of the devices of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// Names of the microphones, as the system orders them.
    pub microphones: Vec<String>,
    /// Names of the loudspeakers, as the system orders them.
    pub loudspeakers: Vec<String>,
}

/// Opens the microphone whose name contains `name`, or the system's default, without starting it.
///
/// # Errors
/// If there is no such microphone, or it has no format that a voice call can use.
pub fn microphone(name: Option<&str>) -> Option<Result<Box<dyn Microphone>, DeviceError>> {
    #[cfg(feature = "system")]
    return Some(system::SystemMicrophone::open(name).map(|it| Box::new(it) as _));
    #[cfg(not(feature = "system"))]
    {
        let _ = name;
        None
    }
}

/// Opens the loudspeaker whose name contains `name`, or the system's default, without starting it.
///
/// # Errors
/// If there is no such loudspeaker, or it has no format that a voice call can use.
pub fn loudspeaker(name: Option<&str>) -> Option<Result<Box<dyn Loudspeaker>, DeviceError>> {
    #[cfg(feature = "system")]
    return Some(system::SystemLoudspeaker::open(name).map(|it| Box::new(it) as _));
    #[cfg(not(feature = "system"))]
    {
        let _ = name;
        None
    }
}

/// Returns the names of the devices of this machine.
///
/// # Errors
/// If the operating system does not list them.
pub fn names() -> Option<Result<Names, DeviceError>> {
    #[cfg(feature = "system")]
    return Some(system::names());
    #[cfg(not(feature = "system"))]
    None
}
