//! The log says of each stream once that browsers cannot show its video, and the way out, before the
//! first viewer meets it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use glassline_hub::{Hub, StreamChange, StreamEvent, StreamName, Transcode};
use glassline_media::{Codec, Kind, TrackIndex};
use glassline_runtime::HubEvents;
use tokio::sync::watch;
use tokio::time::Instant;

use super::hindrance::Hindrance;
use super::transcoders::Transcoders;

/// Time from the beginning of a stream until its video is looked at. B-frames turn out with the first
/// frames.
const LOOK_AFTER: Duration = Duration::from_secs(3);

/// The way out of a viewer, and that of whoever runs the server.
const AUTO: &str = "viewers can have the server encode it again by Play it anyway, and `transcode: always` at \
    the source does so for all";

/// Looks at each stream that begins, until the server stops.
pub async fn hint(
    hub: Arc<Hub>,
    transcoders: Arc<Transcoders>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut events = HubEvents::new(&hub);
    let mut due: BTreeMap<StreamName, Instant> = BTreeMap::new();
    let mut told: BTreeMap<StreamName, Option<Hindrance>> = BTreeMap::new();
    loop {
        let next = due.values().min().copied();
        let look = async {
            match next {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            happened = events.next() => {
                for event in happened {
                    note(event, &mut due, &mut told);
                }
            }
            () = look => {
                let now = Instant::now();
                let ready: Vec<_> = due.extract_if(.., |_, at| *at <= now).collect();
                for (name, _) in ready {
                    let Some(stream) = hub.stream(name.as_str()) else { continue };
                    let found = transcoders.hint(&stream);
                    let before = told.insert(name.clone(), found.as_ref().map(|it| it.hindrance));
                    if let Some(hint) = found
                        && before != Some(Some(hint.hindrance))
                    {
                        tracing::warn!(stream = %name, remedy = hint.hindrance.remedy(), "{}", hint.text());
                    }
                }
            }
            _ = stopped.wait_for(|stop| *stop) => return,
        }
    }
}

/// Plans a look at each stream that begins, and forgets those that are gone.
fn note(
    event: StreamEvent,
    due: &mut BTreeMap<StreamName, Instant>,
    told: &mut BTreeMap<StreamName, Option<Hindrance>>,
) {
    let at = Instant::now() + LOOK_AFTER;
    match event {
        StreamEvent::Present(streams) => {
            let published = streams.iter().filter(|it| it.is_published);
            due.extend(published.map(|it| (it.name.clone(), at)));
        }
        StreamEvent::Changed { change, stream } => match change {
            StreamChange::Ready(_) | StreamChange::Layout(_) => {
                due.insert(stream.name.clone(), at);
            }
            StreamChange::Removed => {
                due.remove(&stream.name);
                told.remove(&stream.name);
            }
            _ => {}
        },
    }
}

/// The warning in the log about a stream whose video browsers cannot show.
struct Hint {
    codec: Codec,
    hindrance: Hindrance,
    /// The way of the server to help, or the reason why there is none.
    way_out: String,
}

impl Hint {
    /// Returns the text without the settings of sources, which are a field of their own: the log cuts long
    /// fields.
    fn text(&self) -> String {
        let (codec, effect) = (self.codec, self.hindrance.effect());
        let way_out = &self.way_out;
        format!("browsers cannot show its video: {codec} {effect}; {way_out}")
    }
}

impl Transcoders {
    /// Returns why browsers cannot show the video of `stream`, and the way out; `None` if they can.
    fn hint(&self, stream: &glassline_hub::Stream) -> Option<Hint> {
        let tracks = stream.tracks();
        let videos = TrackIndex::enumerate(tracks.iter());
        // What a transport stream lacks is said when the file is opened.
        let mut videos =
            videos.filter(|(_, track)| track.kind() == Kind::Video && track.codec != Codec::MpegTs);
        let (index, track) = videos.next()?;
        let hindrance = Hindrance::of(stream, index, track)?;
        let way_out = match (self.video_source(track), self.choice(stream)) {
            (Err(reason), _) => reason,
            (Ok(_), Transcode::Always | Transcode::Never) => return None,
            (Ok(_), Transcode::Auto) => AUTO.to_owned(),
        };
        Some(Hint {
            codec: track.codec,
            hindrance,
            way_out,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Characters of one field of the log, as `src/logging/fields.rs` has them.
    const FIELD_CHARS: usize = 300;

    #[test]
    fn the_log_has_room_for_the_way_out_and_the_remedy() {
        for hindrance in [Hindrance::Codec, Hindrance::BFrames, Hindrance::NoIdrFrames] {
            let hint = Hint {
                codec: Codec::Mpeg4Visual,
                hindrance,
                way_out: AUTO.to_owned(),
            };
            for text in [&hint.text(), hindrance.remedy()] {
                assert!(text.chars().count() <= FIELD_CHARS, "{text}");
            }
        }
    }
}
