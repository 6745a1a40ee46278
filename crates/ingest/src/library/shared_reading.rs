use std::sync::Arc;
use std::time::Duration;

use glassline_hub::{Hub, Stream};

use super::context::LibraryContext;
use super::control::Control;
use super::driver::Handle;
use super::indexed_file::IndexedFile;
use super::play::Play;
use super::private_reading::unlisted_name;
use super::reading::{Audience, Reading};
use crate::stream_names;

/// The settings of the shared reading, which is looped.
const PLAY: Play = Play {
    from: Some(Duration::ZERO),
    until: None,
    scale: 1.0,
    speed: 1.0,
    keyframes: None,
    once: false,
};

/// A client's part in the shared reading of a file. Dropping it leaves the reading.
#[derive(Debug)]
pub struct SharedReading {
    running: Running,
}

/// The shared reading of a file.
#[derive(Clone, Debug)]
pub(super) struct Running {
    control: Arc<Control>,
    stream: Arc<Stream>,
    hub: Arc<Hub>,
    handle: Handle,
}

pub(super) fn join(
    context: &LibraryContext,
    file: &Arc<IndexedFile>,
    slot: &mut Option<Running>,
) -> SharedReading {
    if let Some(running) = slot.as_ref().filter(|running| running.control.join()) {
        let running = running.clone();
        return SharedReading { running };
    }
    let name = stream_names::parse(file.name());
    let stream = context
        .hub
        .unlisted(name.unwrap_or_else(|_| unlisted_name(file.name())));
    let control = Arc::new(Control::new());
    let audience = Audience::All {
        hub: Arc::clone(&context.hub),
        linger: context.limits.linger,
    };
    let reading = Reading::new(
        Arc::clone(file) as _,
        Arc::clone(&stream),
        Arc::clone(&control),
        audience,
    );
    let running = Running {
        control,
        stream,
        hub: Arc::clone(&context.hub),
        handle: context.readings.add(reading),
    };
    *slot = Some(running.clone());
    SharedReading { running }
}

impl SharedReading {
    /// Returns the stream of the reading. Its tracks are known before it plays.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.running.stream
    }

    /// Starts at the file's beginning, unless the reading plays already. A subscriber of the stream
    /// misses nothing. The hub lists the stream from now on, if its name is free.
    pub fn play(&self) {
        let Running {
            control,
            stream,
            hub,
            handle,
        } = &self.running;
        if !control.command_first(PLAY) {
            return;
        }
        // File names that are not valid stream names were changed to begin with `~`.
        if !stream.name().as_str().starts_with('~')
            && let Err(error) = hub.list(stream)
        {
            tracing::debug!(stream = %stream.name(), %error, "file is played without being listed as a stream");
        }
        handle.wake();
    }
}

impl Drop for SharedReading {
    fn drop(&mut self) {
        self.running.control.leave();
        self.running.handle.wake();
    }
}
