//! The tasks that run as long as the server.

use std::sync::Arc;

use glassline_events::hooks::Hook;
use glassline_ingest::SourceSpec;
use glassline_runtime::{ConnectionLimit, Part, run_once, spawn_kept};
use glassline_transcoding as transcoding;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::access::Access;
use super::foundation::Foundation;
use super::listeners::HttpListeners;
use super::parts::{copy_recordings, keep_keys, record, run_hooks};
use super::services::{Media, Services, viewer_routes};
use super::streams::Streams;
use super::{StartError, balance, drain, observing, telemetry};
use crate::app::App;
use crate::reload::{Configuration, Parts, Reload, Reloading};
use crate::sessions;
use crate::sweep::{Swept, end_lost_sessions, keep_sweeping};

type Tasks = Vec<JoinHandle<()>>;

/// The parts of the server that its tasks work for.
#[derive(Debug)]
pub(super) struct Running<'a> {
    pub(super) app: &'a App,
    pub(super) foundation: &'a Foundation,
    pub(super) access: &'a Access,
    pub(super) streams: &'a Streams,
    pub(super) services: &'a Services,
}

impl Running<'_> {
    /// Starts all tasks: first those that look after sessions and streams, then the listeners of
    /// HTTP and of media over TCP, then those that renew and read again.
    ///
    /// # Errors
    /// Returns [`StartError`] if telemetry cannot be exported, or the port for media cannot be served.
    pub(super) fn start(
        &self,
        media: &mut Media,
        http: HttpListeners,
        specs: &[SourceSpec],
        reloading: Reloading,
    ) -> Result<Tasks, StartError> {
        let (app, foundation) = (self.app, self.foundation);
        let (supervisor, stopped) = (&foundation.supervisor, &foundation.stopped);
        let hooks = watch::Sender::new(Arc::from(app.config().hooks.clone()));
        let mut tasks = self.look_after(&hooks);
        tasks.extend(telemetry::start(app, stopped)?);
        tasks.extend(http.serve(app, viewer_routes, stopped));
        let allowed = self.services.allowed.media;
        let media_connections = ConnectionLimit::new(allowed, allowed.div_ceil(4));
        let reload = self.reload(hooks, &media_connections, specs, reloading);
        tasks.extend(self.access.certificates.keep(supervisor, stopped));
        if let Some(socket) = media.tcp.take() {
            let serving = sessions::serve_tcp(
                socket,
                media_connections,
                Arc::clone(&media.shared),
                Arc::clone(supervisor),
                stopped.clone(),
            )?;
            tasks.push(tokio::spawn(serving));
        }
        let (addresses, until) = (Arc::clone(&media.addresses), stopped.clone());
        let asking = move || Arc::clone(&addresses).keep(until.clone());
        let task = Part::Background.task("media addresses");
        tasks.push(spawn_kept(supervisor, task, stopped, asking));
        let reload = reload.run(Arc::clone(&app.settings), stopped.clone());
        let task = Part::Background.task("reload");
        let reload = run_once(Arc::clone(supervisor), task, stopped.clone(), reload);
        tasks.push(tokio::spawn(reload));
        let swept = Swept {
            shared: Arc::clone(&media.shared),
            hub: Arc::clone(&foundation.hub),
            latencies: Arc::clone(&foundation.latencies),
            audit: Arc::clone(&app.http.audit),
        };
        tasks.push(tokio::spawn(keep_sweeping(swept, stopped.clone())));
        Ok(tasks)
    }

    /// Starts the tasks that look after rooms, viewers who leave, keys, hooks and events.
    fn look_after(&self, hooks: &watch::Sender<Arc<[Hook]>>) -> Tasks {
        let (app, streams) = (self.app, self.streams);
        let (supervisor, stopped) = (&self.foundation.supervisor, &self.foundation.stopped);
        let (of_rooms, until) = (app.clone(), stopped.clone());
        let ending = move || end_lost_sessions(of_rooms.clone(), until.clone());
        let task = Part::Background.task("participants");
        let mut tasks = vec![spawn_kept(supervisor, task, stopped, ending)];
        tasks.extend(drain::spawn(app, streams.leaving.as_ref(), stopped));
        tasks.extend(balance::spawn(app, streams.spread.as_ref(), stopped));
        tasks.push(keep_keys(&app.users, supervisor, stopped));
        let inbox = Arc::default();
        tasks.push(run_hooks(app, hooks, &streams.sources, &inbox, stopped));
        tasks.push(record(app, &inbox, stopped));
        tasks.push(copy_recordings(app, stopped));
        tasks.push(observing::spawn(app, &self.foundation.events, stopped));
        let (hub, transcoders) = (Arc::clone(&app.hub), Arc::clone(&app.transcoders));
        let until = stopped.clone();
        let hinting =
            move || transcoding::hint(Arc::clone(&hub), Arc::clone(&transcoders), until.clone());
        let task = Part::Background.task("hints");
        tasks.push(spawn_kept(supervisor, task, stopped, hinting));
        let (hub, transcoders) = (Arc::clone(&app.hub), Arc::clone(&app.transcoders));
        let until = stopped.clone();
        let keeping = move || {
            transcoding::keep_ladders(Arc::clone(&hub), Arc::clone(&transcoders), until.clone())
        };
        let task = Part::Background.task("ladders");
        tasks.push(spawn_kept(supervisor, task, stopped, keeping));
        tasks
    }

    /// Returns what reads the configuration, users and certificates again.
    fn reload(
        &self,
        hooks: watch::Sender<Arc<[Hook]>>,
        media_connections: &ConnectionLimit,
        specs: &[SourceSpec],
        reloading: Reloading,
    ) -> Reload {
        let (foundation, files) = (self.foundation, &self.access.certificates.files);
        let sections = files.iter();
        let sections = sections.map(|(store, files)| (Arc::clone(store), files.section));
        let parts = Parts {
            app: self.app.clone(),
            hooks,
            transcoding: self.services.transcoding.clone(),
            media_tcp: media_connections.clone(),
            allowed: self.services.allowed,
            certificates: sections.collect(),
            log: reloading.log,
        };
        let config = self.app.config();
        let configuration = Configuration::new(&config, specs, reloading.load, parts);
        Reload::new(
            configuration,
            files,
            &foundation.supervisor,
            &foundation.events,
        )
    }
}
