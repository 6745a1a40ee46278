use std::sync::Arc;
use std::time::Duration;

use glassline_hub::{CreateError, Hub, Stream, StreamName};

use super::control::Control;
use super::driver::Handle;
use super::reading::{Audience, Reading};
use super::{Play, Title};

/// What all who watch together play.
const PLAY: Play = Play {
    from: Some(Duration::ZERO),
    until: None,
    scale: 1.0,
    speed: 1.0,
    once: false,
};

/// A place in the reading that all share. Dropping it leaves.
#[derive(Debug)]
pub struct Live {
    running: Running,
}

/// The shared reading of a title, as the title knows it.
#[derive(Clone, Debug)]
pub(super) struct Running {
    control: Arc<Control>,
    stream: Arc<Stream>,
    handle: Handle,
}

pub(super) fn join(title: &Arc<Title>, slot: &mut Option<Running>) -> Result<Live, LiveError> {
    if let Some(running) = slot.as_ref().filter(|running| running.control.join()) {
        let running = running.clone();
        return Ok(Live { running });
    }
    let office = title.office();
    let stream = stream(title, &office.hub)?;
    let control = Arc::new(Control::new());
    let audience = Audience::All {
        hub: Arc::clone(&office.hub),
        linger: office.limits.linger,
    };
    let reading = Reading::new(
        Arc::clone(title),
        Arc::clone(&stream),
        Arc::clone(&control),
        audience,
    );
    let running = Running {
        control,
        stream,
        handle: office.driver.add(reading),
    };
    *slot = Some(running.clone());
    Ok(Live { running })
}

/// Listed if the file's name can be a stream's and no stream has it.
fn stream(title: &Title, hub: &Hub) -> Result<Arc<Stream>, CreateError> {
    match StreamName::parse(title.name()) {
        Ok(name) if hub.stream(name.as_str()).is_none() => hub.create(name),
        _ => Ok(Stream::unlisted(
            title.unlisted_name(),
            glassline_hub::Limits::default(),
        )),
    }
}

impl Live {
    /// Where it is published. Its tracks are [`Title::tracks`], also before it plays.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.running.stream
    }

    /// Begins at the file's start, unless it plays already. Who subscribed to the
    /// stream before misses nothing.
    pub fn play(&self) {
        if self.running.control.order_first(PLAY) {
            self.running.handle.poke();
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.running.control.leave();
        self.running.handle.poke();
    }
}

/// Why a file cannot be watched together.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct LiveError(#[from] CreateError);
