//! The parts of a running server that a configuration is put in force in.
//!
//! ```text
//! Config ─► make ready: keys, certificates, names, threads, sources ─► swap: no step can fail
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use glassline_access::auth::{Auth, PreparedAuth};
use glassline_access::tls::{Certificate, CertificateStore};
use glassline_config::{Config, Limits};
use glassline_events::hooks::Hook;
use glassline_hub::StreamName;
use glassline_ingest::{ChangeError, Input};
use glassline_rooms as rooms;
use glassline_runtime::ConnectionLimit;
use glassline_service::settings::{AllowedConnections, Settings};
use glassline_transcoding::{self as transcoding, TranscodingThreads};
use tokio::sync::watch;

use super::{Error, LogFilter};
use crate::addresses::Known;
use crate::app::App;

/// The parts that take a new configuration.
#[derive(derive_more::Debug)]
#[debug("Parts {{ .. }}")]
pub(crate) struct Parts {
    pub(crate) app: App,
    pub(crate) hooks: watch::Sender<Arc<[Hook]>>,
    pub(crate) transcoding: TranscodingThreads,
    /// Connections of the TCP port for media.
    pub(crate) media_tcp: ConnectionLimit,
    pub(crate) allowed: AllowedConnections,
    /// The certificates that come from files, with the sections that name the files.
    pub(crate) certificates: Vec<(Arc<CertificateStore>, &'static str)>,
    /// The log of the process; `None` if its filter is not the server's.
    pub(crate) log: Option<Arc<dyn LogFilter>>,
}

/// All of a configuration that could fail, made ready.
struct Ready {
    auth: PreparedAuth,
    addresses: Vec<Known>,
    certificates: Vec<(Arc<CertificateStore>, Certificate)>,
}

/// The outcome of a configuration that was put in force.
pub(super) struct Renewed {
    /// Whether anything is different.
    pub(super) has_changed: bool,
    /// Sources that wait until their streams are free.
    pub(super) waiting: Vec<StreamName>,
}

/// How the sources of a configuration differ from those before.
pub(super) struct SourcesChanged {
    /// The differences, for people; `None` if there are none.
    pub(super) text: Option<String>,
    /// Sources that wait until their streams are free.
    pub(super) waiting: Vec<StreamName>,
}

impl Parts {
    pub(super) fn settings(&self) -> &Settings {
        &self.app.settings
    }

    /// Returns the configuration in force.
    pub(super) fn running(&self) -> Arc<Config> {
        self.app.config()
    }

    /// Checks that `auth` opens nothing to everybody that needs a credential now.
    pub(super) fn check(&self, auth: &Auth, file: &Path) -> Result<(), Error> {
        let file = auth.users_file.as_deref().unwrap_or(file);
        if self.app.users.would_open_streams(auth) {
            return Err(Error::NoUsers(file.to_owned()));
        }
        if self.app.users.would_open_admin(auth) {
            return Err(Error::NoOperators(file.to_owned()));
        }
        Ok(())
    }

    /// Makes `config` ready, and puts it in force with its `sources`, except those that wait until their
    /// streams are free.
    ///
    /// # Errors
    /// Returns [`Error`] if anything of it cannot be put in force; then nothing has changed.
    pub(super) async fn renew(
        &self,
        config: Config,
        sources: BTreeMap<StreamName, Input>,
        file: &Path,
    ) -> Result<Renewed, Error> {
        let ready = self.make_ready(&config, file).await?;
        let sources = self.change_sources(&config, sources, file).await?;
        if let (Some(library), Some(folder)) = (&self.app.library, &config.rtsp.media_folder) {
            library.set_folder(folder).await;
            library.set_private_max(config.rtsp.media_clients);
        }
        let has_changed = self.swap(config, ready) || sources.text.is_some();
        Ok(Renewed {
            has_changed,
            waiting: sources.waiting,
        })
    }

    /// Makes the sources of the configuration those of `sources`, except those that wait until their
    /// streams are free.
    ///
    /// # Errors
    /// Returns [`ChangeError`] if one of them cannot be started.
    pub(super) async fn try_sources(
        &self,
        sources: BTreeMap<StreamName, Input>,
    ) -> Result<SourcesChanged, ChangeError> {
        let differences = self.app.stored.sources.configure(sources).await?;
        Ok(SourcesChanged {
            text: (!differences.is_empty()).then(|| differences.to_string()),
            waiting: differences.waiting,
        })
    }

    async fn make_ready(&self, config: &Config, file: &Path) -> Result<Ready, Error> {
        if let Some(log) = &self.log {
            log.check(config.log.filter.as_deref())
                .map_err(|error| Error::at(file, &format!("log.filter: {error}")))?;
        }
        for hook in &config.hooks {
            let checked = hook.check_roots();
            checked.map_err(|error| Error::at(file, &format!("hooks: {error}")))?;
        }
        let before = self.running().certificate_files();
        let mut certificates = Vec::new();
        for files in config.certificate_files() {
            let stores = self.certificates.iter();
            let mut stores = stores.filter(|(_, section)| *section == files.section);
            if let Some((store, _)) = stores.next()
                && !before.contains(&files)
            {
                certificates.push((Arc::clone(store), files.load()?));
            }
        }
        let threads = self.transcoding.grow(transcoded(config));
        threads.map_err(|error| Error::at(file, &format!("transcoding: {error}")))?;
        let auth = self.app.users.prepare(&config.auth).await;
        let auth = auth.map_err(|error| Error::at(file, &error))?;
        let addresses = &self.app.sessions.shared().addresses;
        Ok(Ready {
            auth,
            addresses: addresses.learn(&config.media.advertise).await,
            certificates,
        })
    }

    async fn change_sources(
        &self,
        config: &Config,
        sources: BTreeMap<StreamName, Input>,
        file: &Path,
    ) -> Result<SourcesChanged, Error> {
        let before = self.app.hub.limits();
        // More sources may be what the limit is raised for.
        let streams = before.streams.max(config.limits.streams);
        self.app
            .hub
            .set_limits(glassline_hub::Limits { streams, ..before });
        let changed = self.try_sources(sources).await;
        let changed = changed.map_err(|error| {
            self.app.hub.set_limits(before);
            Error::Source(file.to_owned(), error)
        })?;
        if let Some(text) = &changed.text {
            tracing::info!("sources: {text}");
        }
        Ok(changed)
    }

    /// Puts everything in force. Each step exchanges a value under a lock of its own, and none can
    /// fail or wait. Rights come first: nobody uses another key by a right that is gone.
    fn swap(&self, config: Config, ready: Ready) -> bool {
        let app = &self.app;
        let has_other_users = app.users.apply(ready.auth);
        config.apply_to(&app.sites);
        let allowed = self.allowed.again(&config);
        for service in app.services.iter() {
            service.heed(&config, &allowed);
        }
        app.sessions.shared().addresses.replace(ready.addresses);
        app.rooms.set_bounds(room_bounds(&config.limits));
        app.hub.set_limits(config.limits.hub());
        let settings = config.transcoding.settings();
        app.transcoders.set(transcoded(&config), settings);
        app.transcoders.set_video(of_video(&config));
        app.hub.set_ladder(config.transcoding.ladder);
        app.stored.sources.set_limits(&config.admin.sources);
        self.set_connections(&config, &allowed);
        for (store, certificate) in ready.certificates {
            store.replace(certificate);
        }
        let hooks: Arc<[Hook]> = Arc::from(config.hooks.clone());
        self.hooks.send_if_modified(|before| {
            let is_other = *before != hooks;
            *before = hooks;
            is_other
        });
        if let Some(log) = &self.log {
            log.set(config.log.filter.as_deref());
        }
        app.settings.config.replace(config);
        has_other_users
    }

    fn set_connections(&self, config: &Config, allowed: &AllowedConnections) {
        let http = &config.http;
        let places = &self.app.http.places;
        places.set(
            allowed.http,
            http.connections_per_address,
            &http.trusted_proxies,
        );
        self.media_tcp.set(allowed.media, allowed.media.div_ceil(4));
    }
}

/// Returns the limits on rooms.
pub(crate) fn room_bounds(limits: &Limits) -> rooms::Bounds {
    rooms::Bounds {
        rooms: limits.rooms,
        participants: limits.room_participants,
    }
}

/// Returns the limits on what is transcoded.
pub(crate) fn transcoded(config: &Config) -> transcoding::Limits {
    transcoding::Limits {
        audio: config.transcoding.audio_streams,
        video: config.transcoding.video_streams(),
    }
}

/// Returns the rules for video that is transcoded.
pub(crate) fn of_video(config: &Config) -> transcoding::VideoRules {
    transcoding::VideoRules {
        choice: config.transcoding.video,
        ffmpeg: config.transcoding.ffmpeg.clone(),
    }
}
