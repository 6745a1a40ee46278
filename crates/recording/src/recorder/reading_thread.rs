//! The thread that reads the recorded streams from the hub.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use glassline_hub::{Stream, Subscription, TrackLayout, Wake};
use glassline_media::{Codec, LayerIndex, MediaUnit, Track, TrackIndex, TrackLayer};
use glassline_runtime::{
    Clock, CommandSender, Counter, Part, PollingThread, Supervisor, Turn, Waker,
};

use super::stream_recorder::{Now, RecorderOptions, StreamRecorder};
use crate::writer::{JobQueue, LayerRecording};

/// Time between two looks at the streams. A frame wakes nobody: fragments of a second need no more, and a wake-up
/// costs more than the frame.
const LOOK: Duration = Duration::from_millis(50);

/// Longest wait of the thread while nothing is recorded.
const TURN: Duration = Duration::from_millis(500);

/// Longest wait for the thread to carry out commands.
const SETTLED_WITHIN: Duration = Duration::from_secs(1);

const WAKE: mio::Token = mio::Token(0);

/// A stream that is to be read for a recording.
#[derive(Debug)]
pub(crate) struct RecordedSource {
    pub(crate) stream: Arc<Stream>,
    pub(crate) layer_recording: Arc<LayerRecording>,
    pub(crate) queue: Arc<JobQueue>,
    pub(crate) options: RecorderOptions,
    /// Time of publication from which on units are recorded; `None` for the beginning of the source.
    pub(crate) from: Option<Instant>,
}

#[derive(Debug)]
enum Command {
    Start(Box<RecordedSource>),
    /// Ends the recording of the layer recording.
    Stop(Arc<LayerRecording>),
    /// Answers when everything before is done.
    Settle(SyncSender<()>),
    /// Ends all recordings, and the thread.
    End,
}

/// Whether a stream has something new since the last look.
#[derive(Debug)]
struct UnreadFlag(AtomicBool);

impl UnreadFlag {
    fn take(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}

impl Wake for UnreadFlag {
    fn wake(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The thread that reads the recorded streams. It never waits for a disk.
pub(crate) struct ReadingThread {
    commands: CommandSender<Command>,
    refused: Counter,
    troubles: Arc<Troubles>,
    thread: Option<JoinHandle<()>>,
}

/// The reason why streams are not recorded although they are published, by the addresses of their
/// layer recordings.
#[derive(Debug, Default)]
struct Troubles(Mutex<HashMap<usize, String>>);

impl Troubles {
    fn lock(&self) -> MutexGuard<'_, HashMap<usize, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadingThread {
    /// Starts the thread that reads all recorded streams.
    ///
    /// # Errors
    /// Returns the system's error if it has no thread or descriptor to give.
    pub(crate) fn start(clock: Clock, supervisor: &Arc<Supervisor>) -> io::Result<Self> {
        let poll = mio::Poll::new()?;
        let waker = Arc::new(Waker::new(&poll, WAKE)?);
        let (commands, inbox) = CommandSender::new(Arc::clone(&waker));
        let troubles = Arc::new(Troubles::default());
        let reading = Reading {
            poll,
            events: mio::Events::with_capacity(8),
            waker,
            inbox,
            clock,
            recordings: Vec::new(),
            left: LeftPlaces::default(),
            serving: None,
            units: Vec::new(),
            troubles: Arc::clone(&troubles),
        };
        let supervisor = Arc::clone(supervisor);
        let thread = std::thread::Builder::new().name("record".to_owned());
        let thread = thread.spawn(move || {
            let heartbeat = supervisor.register(Part::Recording, "record");
            supervisor.run(reading, &heartbeat);
        })?;
        Ok(Self {
            commands,
            refused: Counter::new(),
            troubles,
            thread: Some(thread),
        })
    }

    /// Begins to record a stream. Returns false if the thread takes no command now.
    pub(crate) fn begin(&self, source: RecordedSource) -> bool {
        let command = Command::Start(Box::new(source));
        self.commands.send(command, &self.refused).is_ok()
    }

    /// Ends the recording of a layer recording. Returns false if the thread takes no command now.
    pub(crate) fn end(&self, layer_recording: &Arc<LayerRecording>) -> bool {
        let command = Command::Stop(Arc::clone(layer_recording));
        self.commands.send(command, &self.refused).is_ok()
    }

    /// Waits until all earlier calls are carried out, for a second at most.
    pub(crate) fn settle(&self) {
        let (done, waiting) = sync_channel(1);
        if self
            .commands
            .send(Command::Settle(done), &self.refused)
            .is_ok()
        {
            let _ = waiting.recv_timeout(SETTLED_WITHIN);
        }
    }

    /// Returns why nothing of a layer recording is recorded; `None` if all is well.
    pub(crate) fn trouble(&self, layer_recording: &Arc<LayerRecording>) -> Option<String> {
        self.troubles.lock().get(&key_of(layer_recording)).cloned()
    }

    /// Ends all recordings: everything that was read is in the queues.
    pub(crate) fn stop(&mut self) {
        let told = self.commands.send(Command::End, &self.refused);
        if let Some(thread) = self.thread.take()
            && told.is_ok()
        {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for ReadingThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadingThread").finish_non_exhaustive()
    }
}

/// The state that the thread owns.
struct Reading {
    poll: mio::Poll,
    events: mio::Events,
    waker: Arc<Waker>,
    inbox: Receiver<Command>,
    clock: Clock,
    recordings: Vec<Recording>,
    left: LeftPlaces,
    /// Position of the recording that is served at the moment.
    serving: Option<usize>,
    /// Buffer of units, empty between calls.
    units: Vec<Arc<MediaUnit>>,
    troubles: Arc<Troubles>,
}

/// How far ended recordings have read streams that are still there: the next recording of a stream goes
/// back to an earlier keyframe, and records nothing twice.
#[derive(Debug, Default)]
struct LeftPlaces(Vec<LeftPlace>);

#[derive(Debug)]
struct LeftPlace {
    stream: Weak<Stream>,
    layer: String,
    /// When the hub published the newest unit that was read.
    published: Instant,
}

impl LeftPlaces {
    fn note(&mut self, source: &RecordedSource, published: Instant) {
        let (stream, layer) = (
            Arc::downgrade(&source.stream),
            &source.layer_recording.layer,
        );
        let is_other = |it: &LeftPlace| !it.stream.ptr_eq(&stream) || it.layer != *layer;
        self.0
            .retain(|it| is_other(it) && it.stream.strong_count() > 0);
        self.0.push(LeftPlace {
            stream,
            layer: layer.clone(),
            published,
        });
    }

    /// Returns when the newest unit was published that an earlier recording of `source` read.
    fn of(&self, source: &RecordedSource) -> Option<Instant> {
        let is_of = |it: &&LeftPlace| {
            std::ptr::eq(it.stream.as_ptr(), Arc::as_ptr(&source.stream))
                && it.layer == source.layer_recording.layer
        };
        self.0.iter().find(is_of).map(|it| it.published)
    }
}

struct Recording {
    source: RecordedSource,
    subscription: Subscription,
    unread: Arc<UnreadFlag>,
    recorder: StreamRecorder,
    /// Layout that the recorder's run is of; `None` before the first.
    layout: Option<TrackLayout>,
    /// Codecs of the run's tracks.
    codecs: Vec<Codec>,
    /// Whether something stood in for the source at the last look.
    is_interrupted: bool,
}

impl Recording {
    /// Begins with the first keyframe that was published after `read` and is still there.
    fn new(source: RecordedSource, read: Option<Instant>) -> Self {
        // The stream may have units already.
        let unread = Arc::new(UnreadFlag(AtomicBool::new(true)));
        let mut subscription = source.stream.subscribe(Arc::clone(&unread) as _);
        // At once, so that the next keyframe of the layer is not missed.
        read_layer(
            &mut subscription,
            &source.layer_recording.layer,
            &source.stream.tracks(),
        );
        // A source has published its first keyframe when the recording learns of it.
        subscription.rewind(read);
        let (layer_recording, queue) = (
            Arc::clone(&source.layer_recording),
            Arc::clone(&source.queue),
        );
        Self {
            recorder: StreamRecorder::new(layer_recording, queue, source.options),
            source,
            subscription,
            unread,
            layout: None,
            codecs: Vec::new(),
            is_interrupted: false,
        }
    }

    /// Reads published units, and records those of the source: a placeholder is no footage.
    fn read(&mut self, units: &mut Vec<Arc<MediaUnit>>, now: Now) {
        if self.is_interrupted {
            if self.source.stream.stands_in_since().is_some() {
                return;
            }
            self.resume(units);
        }
        if self.layout.is_none() || self.has_another_codec() {
            self.begin(now);
        }
        self.subscription.poll_dropped(units);
        if !units.is_empty() {
            self.record(units, now);
        }
        self.subscription.poll(units);
        if let Some(since) = self.source.stream.stands_in_since() {
            units.retain(|it| it.stamps.published < since);
            self.record(units, now);
            self.recorder.interrupt(now);
            self.is_interrupted = true;
            return;
        }
        if self.layout != Some(self.subscription.layout()) || self.has_another_codec() {
            self.begin(now);
        }
        self.record(units, now);
    }

    /// Goes to the keyframe with which the source goes on, after something stood in for it.
    fn resume(&mut self, units: &mut Vec<Arc<MediaUnit>>) {
        self.subscription.poll(units);
        units.clear();
        self.subscription.rewind(self.recorder.published());
        self.layout = None;
        self.is_interrupted = false;
    }

    fn record(&mut self, units: &mut Vec<Arc<MediaUnit>>, now: Now) {
        // Tracks are merged by their decode times: the hub returns one after the other.
        units.sort_by_key(|unit| unit.decode_time());
        let missed = self.subscription.missed();
        if self.recorder.take(units, missed, now) {
            self.source.stream.request_keyframe();
        }
        units.clear();
    }

    /// Begins a run with the tracks that the stream has now.
    fn begin(&mut self, now: Now) {
        let stream = &self.source.stream;
        let tracks = stream.tracks();
        read_layer(
            &mut self.subscription,
            &self.source.layer_recording.layer,
            &tracks,
        );
        self.layout = Some(self.subscription.layout());
        let tracks = tracks_of_layer(&self.source.layer_recording.layer, &tracks);
        self.recorder
            .begin(&tracks, self.subscription.missed(), now);
        self.codecs = tracks.iter().map(|it| it.codec).collect();
        stream.request_keyframe();
    }

    /// Returns whether the named layer turned out to have another codec than the run was begun with: a
    /// sub stream is described when its camera has answered.
    fn has_another_codec(&self) -> bool {
        let (stream, layer) = (&self.source.stream, &self.source.layer_recording.layer);
        if layer.is_empty() || self.layout != Some(stream.layout()) {
            return false;
        }
        let tracks = tracks_of_layer(layer, &stream.tracks());
        !tracks
            .iter()
            .map(|it| it.codec)
            .eq(self.codecs.iter().copied())
    }
}

/// Reads the layer with this name of every track that has it, and the base layer of others. An empty name
/// stands for the base layers.
fn read_layer(subscription: &mut Subscription, name: &str, tracks: &[Track]) {
    if name.is_empty() {
        return;
    }
    let of_layer = TrackIndex::first(tracks.len()).zip(tracks);
    let layers = of_layer.map(|(track, described)| TrackLayer {
        track,
        layer: layer_named(name, described),
    });
    subscription.read(&layers.collect::<Vec<_>>());
}

fn layer_named(name: &str, track: &Track) -> LayerIndex {
    let place = track.layers.iter().position(|it| it.rid == name);
    place.map_or(LayerIndex::BASE, LayerIndex::of_encoding)
}

/// Describes the tracks as the layer with this name has them: a layer may have another codec.
fn tracks_of_layer(name: &str, tracks: &[Track]) -> Vec<Track> {
    let described = |track: &Track| track.of_layer(layer_named(name, track)).cloned();
    tracks
        .iter()
        .map(|it| described(it).unwrap_or_else(|| it.clone()))
        .collect()
}

impl Reading {
    fn now(&self) -> Now {
        Now {
            at: Instant::now(),
            wall: self.clock.wall(),
        }
    }

    /// Carries out the commands that wait. Returns false if one of them ends the thread.
    fn take_commands(&mut self) -> bool {
        while let Ok(command) = self.inbox.try_recv() {
            match command {
                Command::Start(source) => {
                    let read = self.left.of(&source).max(source.from);
                    self.recordings.push(Recording::new(*source, read));
                }
                Command::Stop(layer_recording) => {
                    let mut recordings = self.recordings.iter();
                    let found = recordings
                        .position(|it| Arc::ptr_eq(&it.source.layer_recording, &layer_recording));
                    if let Some(position) = found {
                        let recording = self.recordings.swap_remove(position);
                        self.end(recording);
                    }
                }
                Command::Settle(done) => {
                    // Who asked may have left.
                    let _ = done.try_send(());
                }
                Command::End => {
                    for recording in std::mem::take(&mut self.recordings) {
                        self.end(recording);
                    }
                    return false;
                }
            }
        }
        true
    }

    fn end(&mut self, mut recording: Recording) {
        let now = self.now();
        recording.read(&mut self.units, now);
        recording.recorder.end(now);
        if let Some(published) = recording.recorder.published() {
            self.left.note(&recording.source, published);
        }
        self.troubles
            .lock()
            .remove(&key_of(&recording.source.layer_recording));
    }
}

impl PollingThread for Reading {
    fn turn(&mut self) -> Turn {
        let waker = Arc::clone(&self.waker);
        let longest = if self.recordings.is_empty() {
            TURN
        } else {
            LOOK
        };
        waker.wait(&mut self.poll, &mut self.events, longest);
        if !self.take_commands() {
            return Turn::Ended;
        }
        let now = self.now();
        for position in 0..self.recordings.len() {
            self.serving = Some(position);
            let recording = &mut self.recordings[position];
            if recording.unread.take() || recording.recorder.trouble().is_some() {
                recording.read(&mut self.units, now);
                let key = key_of(&recording.source.layer_recording);
                match recording.recorder.trouble() {
                    Some(trouble) => self.troubles.lock().insert(key, trouble),
                    None => self.troubles.lock().remove(&key),
                };
            }
        }
        self.serving = None;
        Turn::Again
    }

    fn drop_served(&mut self) -> bool {
        self.units.clear();
        let Some(position) = self.serving.take() else {
            return false;
        };
        // The recording begins anew with another file.
        let source = self.recordings.swap_remove(position).source;
        self.recordings
            .push(Recording::new(source, Some(Instant::now())));
        true
    }

    fn start_anew(&mut self) {
        self.units.clear();
        for recording in std::mem::take(&mut self.recordings) {
            let anew = Recording::new(recording.source, Some(Instant::now()));
            self.recordings.push(anew);
        }
    }
}

/// Returns the identity of a layer recording while it lives.
fn key_of(layer_recording: &Arc<LayerRecording>) -> usize {
    Arc::as_ptr(layer_recording).addr()
}
