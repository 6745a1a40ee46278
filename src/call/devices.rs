//! Microphone and loudspeaker of a call: sound devices, or WAV files.

use std::process::ExitCode;

use glassline_client::call::{
    DeviceError, Devices, Loudspeaker, Microphone, VirtualLoudspeaker, VirtualMicrophone,
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

/// Error text of a program without support for sound devices.
const WITHOUT: &str = "this program was built without sound devices: use --wav-in and \
     --wav-out, or build it with --features devices";

/// Opens the system's microphone; a program without sound devices sends silence.
fn microphone(options: &Options) -> Result<Box<dyn Microphone>, Failure> {
    let name = options.audio.microphone.as_deref();
    let open = || glassline_devices::microphone(name);
    match ((!options.audio.silent).then(open).flatten(), name) {
        (Some(opened), _) => opened.map_err(Failure::runtime),
        (None, Some(_)) => Err(Failure::usage(WITHOUT)),
        (None, None) => {
            let silent = VirtualMicrophone::silent(options.format(), options.timing());
            Ok(Box::new(usage(silent)?))
        }
    }
}

/// Opens the system's loudspeaker; a program without sound devices plays to nobody.
fn loudspeaker(options: &Options) -> Result<Box<dyn Loudspeaker>, Failure> {
    let name = options.audio.loudspeaker.as_deref();
    let open = || glassline_devices::loudspeaker(name);
    match ((!options.audio.silent).then(open).flatten(), name) {
        (Some(opened), _) => opened.map_err(Failure::runtime),
        (None, Some(_)) => Err(Failure::usage(WITHOUT)),
        (None, None) => {
            let silent = VirtualLoudspeaker::silent(options.format(), options.timing());
            Ok(Box::new(usage(silent)?))
        }
    }
}

/// `--devices`: prints the names of microphones and loudspeakers.
pub(super) fn list() -> Result<ExitCode, Failure> {
    let Some(found) = glassline_devices::names() else {
        let text = "this program was built without sound devices: build it with --features devices";
        return Err(Failure::runtime(text));
    };
    let found = found.map_err(Failure::runtime)?;
    let sides = [
        ("microphones", found.microphones),
        ("loudspeakers", found.loudspeakers),
    ];
    let mut text = String::new();
    for (title, names) in sides {
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
