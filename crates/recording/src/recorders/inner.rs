//! What the recorders know, under one lock.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use glassline_hub::StreamName;

use super::known_folders::{KnownFolders, Recognized};
use super::plan::{FolderPlan, Plan};
use super::recording::Known;
use super::status::{RecorderEvent, RecorderEventKind};
use super::wishes::Wishes;
use crate::recorder::ReadingThread;
use crate::retention::RetentionThread;
use crate::writer::{FolderState, FolderThread};

/// Share of a disk's time from which it is named.
const BUSY_FROM: f64 = 0.8;

/// Share of a disk's time below which it is no longer named.
const CALM_BELOW: f64 = 0.6;

/// Plan, threads and streams of the recorders.
pub(super) struct Inner {
    pub(super) plan: Plan,
    pub(super) reading: ReadingThread,
    pub(super) retention: RetentionThread,
    pub(super) folders: BTreeMap<PathBuf, OpenedFolder>,
    pub(super) known_folders: KnownFolders,
    pub(super) wishes: Wishes,
    pub(super) streams: BTreeMap<StreamName, Known>,
    pub(super) events: Vec<RecorderEvent>,
    /// Number of folders that were opened, for the names of threads.
    pub(super) opened: usize,
}

/// A folder that is written to.
pub(super) struct OpenedFolder {
    pub(super) plan: FolderPlan,
    pub(super) thread: FolderThread,
    pub(super) seen: FolderState,
    pub(super) is_busy: bool,
}

impl Inner {
    /// Ends the recording of a stream, if there is one.
    pub(super) fn end(&mut self, name: &StreamName) {
        let Some(known) = self.streams.get_mut(name) else {
            return;
        };
        let Some(running) = known.running.take() else {
            return;
        };
        known.was_losing = false;
        for layer_recording in &running.layer_recordings {
            if !self.reading.end(layer_recording) {
                tracing::error!(stream = %name, "a recording did not end: its thread is busy");
            }
        }
        known.ending.extend(running.layer_recordings);
        self.tell(RecorderEventKind::Stopped, name.as_str(), None);
    }

    pub(super) fn look_at_folders(&mut self) {
        let now = Instant::now();
        let mut events = Vec::new();
        for (path, folder) in &mut self.folders {
            let mut tell = |kind, reason| events.push((kind, path.display().to_string(), reason));
            let state = folder.thread.state();
            if state != folder.seen {
                match &state {
                    FolderState::Failed(reason) => {
                        tell(RecorderEventKind::FolderFailed, Some(reason.clone()));
                    }
                    FolderState::Ready(id) => {
                        let recognized = self.known_folders.note(path, *id);
                        if let Recognized::Swapped(text) = recognized {
                            tell(RecorderEventKind::FolderSwapped, Some(text));
                        }
                        if matches!(folder.seen, FolderState::Failed(_)) {
                            tell(RecorderEventKind::FolderBack, None);
                        }
                    }
                    FolderState::Opening => {}
                }
                folder.seen = state;
            }
            let share = folder.thread.disk_share(now);
            if !folder.is_busy && share >= BUSY_FROM {
                folder.is_busy = true;
                let text = format!("it takes {:.0} % of its time", share * 100.0);
                tell(RecorderEventKind::DiskBusy, Some(text));
            } else if folder.is_busy && share < CALM_BELOW {
                folder.is_busy = false;
                tell(RecorderEventKind::DiskCalm, None);
            }
        }
        for (kind, subject, reason) in events {
            self.tell(kind, &subject, reason);
        }
    }

    pub(super) fn look_at_streams(&mut self) {
        let mut events = Vec::new();
        for (name, known) in &mut self.streams {
            known.settle();
            let layer_recordings = known.running.iter().flat_map(|it| &it.layer_recordings);
            let trouble = layer_recordings
                .filter_map(|layer_recording| self.reading.trouble(layer_recording))
                .next();
            if trouble.is_some() == known.was_losing {
                continue;
            }
            known.was_losing = trouble.is_some();
            let kind = match trouble {
                Some(_) => RecorderEventKind::Losing,
                None => RecorderEventKind::GoesOn,
            };
            events.push((kind, name.to_string(), trouble));
        }
        for (kind, subject, reason) in events {
            self.tell(kind, &subject, reason);
        }
    }

    pub(super) fn tell(&mut self, kind: RecorderEventKind, subject: &str, reason: Option<String>) {
        self.events.push(RecorderEvent {
            kind,
            subject: subject.to_owned(),
            reason,
        });
    }
}
