//! The driver of a pull: publishes the units of its present source, and changes sources.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{PublishError, State, Stream, Wake};
use glassline_media::{Kind, MediaUnit, TrackLayer};
use glassline_quic::moq::{KeyframeRequester, NodeName};
use glassline_runtime::TaskWaker;
use tokio::sync::{mpsc, watch};

use super::carried_layers::CarriedLayers;
use super::layered_publisher::LayeredPublisher;
use super::messenger::{MessageSource, Messenger};
use super::reception::{Arrival, Described, Reception};
use super::sessions::Sessions;
use super::{
    Command, Gate, PullEvent, PullFailure, PullFigures, PullSource, Pulls, SILENCE, STALLED_AFTER,
};
use crate::identity::{Mark, Provenances};

/// Shortest time between two requests for a keyframe of a track.
const KEYFRAME_INTERVAL: Duration = Duration::from_secs(1);

/// Publishes a stream that is pulled from others.
pub(super) struct Driver {
    stream: Arc<Stream>,
    /// Brings the messages beside the stream from the present source.
    messenger: Messenger,
    figures: Arc<PullFigures>,
    /// The servers that ask, this one last.
    asking: Vec<NodeName>,
    sessions: Arc<Sessions>,
    provenances: Arc<Provenances>,
    commands: mpsc::UnboundedReceiver<Command>,
    events: mpsc::Sender<PullEvent>,
    linger: Duration,
    /// Decides whether a source may feed the hub; `None` where nobody coordinates the servers.
    gate: Option<Box<dyn Gate>>,
    /// Woken when the stream is needed or no more, and when a keyframe is requested.
    changed: Arc<TaskWaker>,
    present: Option<Present>,
    next: Option<Next>,
    keyframe_asked: Option<Instant>,
    unneeded: Option<Instant>,
    carried: CarriedLayers,
    /// Tells sources which layers to carry.
    wanted: watch::Sender<Vec<TrackLayer>>,
}

/// The source that is published.
struct Present {
    reception: Reception,
    publisher: LayeredPublisher,
    described: Arc<Described>,
    mark: Mark,
    /// Tracks with other codecs, whose first keyframe has not come yet.
    coming: Option<Arc<Described>>,
    /// When the latest unit came.
    heard: Instant,
    /// Whether the decision maker was told that no unit comes.
    is_silent: bool,
    /// Whether the decision maker was told that units are late.
    is_stalled: bool,
}

/// A source that takes over from its first keyframe on.
struct Next {
    reception: Reception,
    described: Option<Arc<Described>>,
    /// When it has failed unless a keyframe came.
    due: Instant,
    keyframe_asked: Option<Instant>,
}

/// The next step.
enum Step {
    Present(Arrival),
    Next(Arrival),
    Command(Option<Command>),
    Look,
}

impl Driver {
    pub(super) fn new(
        pulls: &Pulls,
        stream: Arc<Stream>,
        asking: &[NodeName],
        commands: mpsc::UnboundedReceiver<Command>,
        events: mpsc::Sender<PullEvent>,
        gate: Option<Box<dyn Gate>>,
    ) -> Self {
        let mut asking = asking.to_vec();
        asking.push(pulls.node.clone());
        Self {
            messenger: Messenger::start(&pulls.messages, &stream, &pulls.supervisor),
            stream,
            figures: Arc::default(),
            asking,
            sessions: Arc::clone(&pulls.sessions),
            provenances: Arc::clone(&pulls.provenances),
            commands,
            events,
            linger: pulls.linger,
            gate,
            changed: Arc::default(),
            present: None,
            next: None,
            keyframe_asked: None,
            unneeded: None,
            carried: CarriedLayers::default(),
            wanted: watch::Sender::default(),
        }
    }

    /// Returns what the pull has brought, as it grows.
    pub(super) const fn figures(&self) -> &Arc<PullFigures> {
        &self.figures
    }

    /// Pulls the stream, from `source` at first, until it is ended or not needed any more.
    pub(super) async fn run(mut self, source: PullSource) {
        let watcher = Arc::clone(&self.changed) as Arc<dyn Wake>;
        self.stream.watch(&watcher);
        self.begin(source);
        loop {
            match self.step().await {
                Step::Present(arrival) => self.on_present(arrival),
                Step::Next(arrival) => self.on_next(arrival),
                Step::Command(Some(Command::Replace(source))) => self.begin(source),
                Step::Command(Some(Command::End) | None) => break,
                Step::Look => {}
            }
            if self.look(Instant::now()) {
                break;
            }
        }
        if let Some(present) = self.present.take() {
            self.provenances.end(self.stream.name(), present.mark);
            present.publisher.finish(State::Idle);
            self.provenances.set_code(self.stream.name(), None);
        }
        let _ = self.events.send(PullEvent::Ended).await;
    }

    async fn step(&mut self) -> Step {
        let deadline = self.deadline();
        let present = async {
            match &mut self.present {
                Some(present) => present.reception.next().await,
                None => std::future::pending().await,
            }
        };
        let next = async {
            match &mut self.next {
                Some(next) => next.reception.next().await,
                None => std::future::pending().await,
            }
        };
        let waiting = async {
            match deadline {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            arrival = present => Step::Present(arrival),
            arrival = next => Step::Next(arrival),
            command = self.commands.recv() => Step::Command(command),
            () = self.changed.woken() => Step::Look,
            () = waiting => Step::Look,
        }
    }

    /// When there is something to do though nothing happens.
    fn deadline(&self) -> Option<Instant> {
        let linger = self.unneeded.map(|since| since + self.linger);
        let due = self.next.as_ref().map(|next| next.due);
        let heard = self.present.as_ref().filter(|present| !present.is_silent);
        let silence = heard.map(|present| match present.is_stalled {
            true => present.heard + SILENCE,
            false => present.heard + STALLED_AFTER,
        });
        let keyframe = self.keyframe_asked.map(|asked| asked + KEYFRAME_INTERVAL);
        let keyframe = keyframe.filter(|at| *at > Instant::now());
        let layers = self.carried.deadline(Instant::now());
        let deadlines = [linger, due, silence, keyframe, layers];
        deadlines.into_iter().flatten().min()
    }

    /// Begins to read `source`, which takes over with its first keyframe.
    fn begin(&mut self, source: PullSource) {
        let present = self.present.as_ref().map(|it| &it.reception.source);
        if present == Some(&source) {
            // A second reading would bring the same units, the old ones of a silent source once more.
            self.next = None;
            return;
        }
        let name = self.stream.name().as_str().to_owned();
        let sessions = Arc::clone(&self.sessions);
        self.next = Some(Next {
            reception: Reception::start(
                source,
                name,
                self.asking.clone(),
                sessions,
                self.wanted.subscribe(),
            ),
            described: None,
            due: Instant::now() + SILENCE,
            keyframe_asked: None,
        });
    }

    fn tell(&self, event: PullEvent) {
        // Whoever decides is never that far behind, and what comes next tells the same.
        let _ = self.events.try_send(event);
    }

    fn on_next(&mut self, arrival: Arrival) {
        let Some(next) = &mut self.next else { return };
        match arrival {
            Arrival::Tracks(described) => {
                // The source's present group may have left its memory already.
                next.described = Some(described);
            }
            Arrival::Redescribed(described) => next.described = Some(described),
            Arrival::Over(why) => self.fail_next(why),
            Arrival::Unit(unit) => {
                if let Some(described) = next.described.clone()
                    && starts(&described, &unit)
                {
                    self.take_over(described, unit);
                }
            }
        }
    }

    fn fail_next(&mut self, why: PullFailure) {
        if let Some(next) = self.next.take() {
            let source = next.reception.source.clone();
            let stream = self.stream.name();
            tracing::debug!(%stream, host = source.address.host, %why, "not pulled from there");
            self.tell(PullEvent::Failed { source, why });
        }
    }

    /// Publishes the next source in place of the present one, if the gate lets it pass.
    fn take_over(&mut self, described: Arc<Described>, unit: MediaUnit) {
        let Some(next) = self.next.take() else { return };
        let source = next.reception.source.clone();
        let mut begun = None;
        let mut begin = || begun = Some(self.begin_publishing(&described));
        match &self.gate {
            Some(gate) => {
                gate.pass(&described.provenance, &mut begin);
            }
            None => begin(),
        }
        match begun {
            None => self.tell(PullEvent::Failed {
                source,
                why: PullFailure::Outdated,
            }),
            Some(Err(error)) => self.tell(PullEvent::Failed {
                source,
                why: error.into(),
            }),
            Some(Ok((publisher, mark))) => {
                let provenance = described.provenance.clone();
                // The source before ends here: nothing of it is published after this.
                self.present = Some(Present {
                    reception: next.reception,
                    publisher,
                    described,
                    mark,
                    coming: None,
                    heard: Instant::now(),
                    is_silent: false,
                    is_stalled: false,
                });
                self.set_message_source();
                self.tell(PullEvent::FirstData { source, provenance });
                self.push(unit);
            }
        }
    }

    /// Takes the messages beside the stream from the present source, if there is one.
    fn set_message_source(&self) {
        let source = self.present.as_ref().map(|present| MessageSource {
            host: present.reception.source.address.host.clone(),
            claim: present.described.claim(),
            opener: present.described.messages.clone(),
        });
        self.messenger.set_source(source);
    }

    fn begin_publishing(
        &self,
        described: &Described,
    ) -> Result<(LayeredPublisher, Mark), PublishError> {
        let publisher = LayeredPublisher::begin(&self.stream, &described.tracks)?;
        let provenance = described.provenance.clone();
        let mark = self.provenances.begin(self.stream.name(), provenance);
        Ok((publisher, mark))
    }

    fn on_present(&mut self, arrival: Arrival) {
        let Some(present) = &mut self.present else {
            return;
        };
        if let Arrival::Tracks(described) | Arrival::Redescribed(described) = &arrival
            && self.gate.is_some()
            && described.claim() != present.described.claim()
        {
            return self.fail_present(PullFailure::Outdated);
        }
        match arrival {
            Arrival::Tracks(described) => present.coming = Some(described),
            Arrival::Redescribed(described) => {
                present.publisher.describe(&described.tracks);
                let provenance = described.provenance.clone();
                self.provenances
                    .change(self.stream.name(), present.mark, provenance);
                present.described = described;
                self.set_message_source();
            }
            Arrival::Unit(unit) => {
                present.heard = Instant::now();
                let was_silent = std::mem::take(&mut present.is_silent);
                let was_stalled = std::mem::take(&mut present.is_stalled);
                match present.coming.clone() {
                    None => self.push(unit),
                    Some(coming) if starts(&coming, &unit) => self.change(&coming, unit),
                    // A unit of the old tracks, or one that nobody could begin with.
                    Some(_) => {}
                }
                if was_silent {
                    self.tell_resumed();
                } else if was_stalled {
                    self.tell(PullEvent::Resumed);
                }
            }
            Arrival::Over(why) => self.fail_present(why),
        }
    }

    fn tell_resumed(&self) {
        if let Some(present) = &self.present {
            let source = present.reception.source.clone();
            let provenance = present.described.provenance.clone();
            self.tell(PullEvent::FirstData { source, provenance });
        }
    }

    /// Tells that the present source is late, if that is so.
    fn look_for_stall(&mut self, now: Instant) {
        if let Some(present) = &mut self.present
            && !present.is_stalled
            && now.saturating_duration_since(present.heard) >= STALLED_AFTER
        {
            present.is_stalled = true;
            let heard = present.heard;
            self.tell(PullEvent::Stalled { heard });
        }
    }

    /// Tells that the present source brings nothing, if that is so. The source is still read: it may
    /// go on before another one is found.
    fn look_for_silence(&mut self, now: Instant) {
        if let Some(present) = &mut self.present
            && !present.is_silent
            && now.saturating_duration_since(present.heard) >= SILENCE
        {
            present.is_silent = true;
            let source = present.reception.source.clone();
            let (stream, why) = (self.stream.name(), PullFailure::Silent);
            tracing::info!(%stream, host = source.address.host, %why, "pulled stream is silent");
            self.tell(PullEvent::Failed { source, why });
        }
    }

    fn fail_present(&mut self, why: PullFailure) {
        if let Some(present) = self.present.take() {
            let source = present.reception.source.clone();
            let detail = why.to_string();
            let stream = self.stream.name();
            tracing::info!(%stream, host = source.address.host, %why, "stream is not pulled from there any more");
            self.provenances.end(stream, present.mark);
            present.publisher.finish(State::Down { detail });
            self.provenances.set_code(stream, None);
            self.set_message_source();
            self.tell(PullEvent::Failed { source, why });
        }
    }

    /// Goes on with other tracks of the same source.
    fn change(&mut self, described: &Arc<Described>, unit: MediaUnit) {
        match self.begin_publishing(described) {
            Err(error) => self.fail_present(error.into()),
            Ok((publisher, mark)) => {
                if let Some(present) = &mut self.present {
                    present.publisher = publisher;
                    present.mark = mark;
                    present.coming = None;
                    present.described = Arc::clone(described);
                    let source = present.reception.source.clone();
                    self.set_message_source();
                    self.tell(PullEvent::CodecChanged { source });
                }
                self.push(unit);
            }
        }
    }

    fn push(&mut self, unit: MediaUnit) {
        let Some(present) = &mut self.present else {
            return;
        };
        let is_keyframe = unit.keyframe && kind(&present.described, &unit) == Some(Kind::Video);
        if is_keyframe {
            let code = present.described.frame_code();
            self.provenances.set_code(self.stream.name(), code);
        }
        self.figures.count(&unit);
        if let Err(error) = present.publisher.push(unit, is_keyframe) {
            self.fail_present(error.into());
        }
    }

    /// Tells the sources which layers are read here.
    fn look_for_layers(&mut self, now: Instant) {
        let Some(present) = &mut self.present else {
            return;
        };
        let read = |track| self.stream.layers_read(track);
        let wanted = self.carried.look(&present.described.tracks, read, now);
        present.publisher.carry(&wanted);
        self.wanted.send_if_modified(|known| {
            let is_other = *known != wanted;
            *known = wanted;
            is_other
        });
    }

    /// Passes requests for keyframes on, and looks after deadlines. Returns whether the pull is over.
    fn look(&mut self, now: Instant) -> bool {
        let is_due = |asked: Option<Instant>| {
            asked.is_none_or(|at| now.saturating_duration_since(at) >= KEYFRAME_INTERVAL)
        };
        if let Some(present) = &self.present
            && is_due(self.keyframe_asked)
            && present.publisher.keyframe_wanted()
        {
            self.keyframe_asked = Some(now);
            let keyframes = &present.described.keyframes;
            keyframes.iter().for_each(KeyframeRequester::request);
        }
        if let Some(next) = &mut self.next
            && let Some(described) = &next.described
            && is_due(next.keyframe_asked)
        {
            // A source that has no keyframe at hand makes one; others ignore it.
            next.keyframe_asked = Some(now);
            described
                .keyframes
                .iter()
                .for_each(KeyframeRequester::request);
        }
        if self.next.as_ref().is_some_and(|next| now >= next.due) {
            self.fail_next(PullFailure::Silent);
        }
        self.look_for_layers(now);
        self.look_for_stall(now);
        self.look_for_silence(now);
        if self.stream.is_demanded() {
            self.unneeded = None;
            return false;
        }
        let since = *self.unneeded.get_or_insert(now);
        now.saturating_duration_since(since) >= self.linger
    }
}

/// Whether a receiver can begin with `unit`: a keyframe of video, or anything if there is no video.
fn starts(described: &Described, unit: &MediaUnit) -> bool {
    let has_video = described.tracks.iter().any(|it| it.kind() == Kind::Video);
    match kind(described, unit) {
        Some(Kind::Video) => unit.keyframe && unit.first,
        Some(_) => !has_video,
        None => false,
    }
}

fn kind(described: &Described, unit: &MediaUnit) -> Option<Kind> {
    Some(described.tracks.get(unit.track.get())?.kind())
}
