//! Microphone and loudspeaker of a call: sound devices, or WAV files.

use std::process::ExitCode;

use glassline_client::call::{
    DeviceError, Devices, Loudspeaker, Microphone, VirtualLoudspeaker, VirtualMicrophone, devices,
};

use super::options::Options;
use crate::exit::Failure;
use crate::output;

/// Opens the devices that the flags name, without starting them.
pub(super) fn open(options: &Options) -> Result<Devices, Failure> {
    let microphone: Box<dyn Microphone> = match &options.audio.wav_in {
        Some(wav) => Box::new(usage(VirtualMicrophone::wav(wav, options.timing()))?),
        None => microphone(options)?,
    };
    let loudspeaker: Box<dyn Loudspeaker> = match &options.audio.wav_out {
        Some(wav) => {
            let (format, timing) = (options.format(), options.timing());
            Box::new(usage(VirtualLoudspeaker::wav(wav, format, timing))?)
        }
        None => loudspeaker(options)?,
    };
    Ok(Devices {
        microphone,
        loudspeaker,
    })
}

fn usage<T>(opened: Result<T, DeviceError>) -> Result<T, Failure> {
    opened.map_err(Failure::usage)
}

#[cfg(feature = "devices")]
fn microphone(options: &Options) -> Result<Box<dyn Microphone>, Failure> {
    use glassline_client::call::SystemMicrophone;
    let microphone = SystemMicrophone::open(options.audio.microphone.as_deref());
    Ok(Box::new(microphone.map_err(Failure::runtime)?))
}

#[cfg(feature = "devices")]
fn loudspeaker(options: &Options) -> Result<Box<dyn Loudspeaker>, Failure> {
    use glassline_client::call::SystemLoudspeaker;
    let loudspeaker = SystemLoudspeaker::open(options.audio.loudspeaker.as_deref());
    Ok(Box::new(loudspeaker.map_err(Failure::runtime)?))
}

/// Error text of a program without support for sound devices.
#[cfg(not(feature = "devices"))]
const WITHOUT: &str = "this program was built without sound devices: use --wav-in and \
     --wav-out, or build it with --features devices";

#[cfg(not(feature = "devices"))]
fn microphone(options: &Options) -> Result<Box<dyn Microphone>, Failure> {
    if options.audio.microphone.is_some() {
        return Err(Failure::usage(WITHOUT));
    }
    let silent = VirtualMicrophone::silent(options.format(), options.timing());
    Ok(Box::new(usage(silent)?))
}

#[cfg(not(feature = "devices"))]
fn loudspeaker(options: &Options) -> Result<Box<dyn Loudspeaker>, Failure> {
    if options.audio.loudspeaker.is_some() {
        return Err(Failure::usage(WITHOUT));
    }
    let silent = VirtualLoudspeaker::silent(options.format(), options.timing());
    Ok(Box::new(usage(silent)?))
}

/// `--devices`: prints the names of microphones and loudspeakers.
pub(super) fn list() -> Result<ExitCode, Failure> {
    let Some(found) = devices() else {
        let text = "this program was built without sound devices: build it with --features devices";
        return Err(Failure::runtime(text));
    };
    let [microphones, loudspeakers] = found.map_err(Failure::runtime)?;
    let mut text = String::new();
    for (title, names) in [("microphones", microphones), ("loudspeakers", loudspeakers)] {
        text += title;
        text += ":\n";
        for name in &names {
            text += &format!("  {name}\n");
        }
        if names.is_empty() {
            text += "  none\n";
        }
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
