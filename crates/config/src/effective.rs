//! The configuration in effect: the file, overridden by the environment.

use std::path::{Path, PathBuf};

use glassline_access::auth::Jwt;

use super::document::{Document, include};
use super::environment::{self, Overrides};
use super::load::{self, Error};
use super::users;
use crate::{Config, Nats, Tls};

impl Config {
    /// Reads the YAML file at `path`, overridden by the variables `GLASSLINE_…` of the environment.
    /// Paths in the file and in variables are relative to its folder.
    ///
    /// # Errors
    /// Returns [`Error`] with the file and, if there is one, the line; or with the variable.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let (text, name) = load::read(path)?;
        let overrides = environment::read(variables())?;
        let mut document = Document::of_text(&text, &name)?;
        let included = environment::value(&mut document, &overrides, include::KEY)?;
        document.include(path, included)?;
        let (mut config, read) = Self::of_document(document, &overrides)?;
        if let Some(folder) = path.parent() {
            for input in config.sources.values_mut() {
                input.resolve_in(folder);
            }
            let (users, media) = (&mut config.auth.users_file, &mut config.rtsp.media_folder);
            let (tls, quic) = (&mut config.rtsp.tls, &mut config.quic);
            let files = [&mut tls.certificate, &mut tls.key];
            let files = files.into_iter();
            let files = files.chain([&mut quic.certificate, &mut quic.key]);
            let named = files.chain([users, media]).flatten();
            let of_tls = config.tls.as_mut().map_or_else(Vec::new, Tls::paths_mut);
            let admin = &mut config.admin;
            let of_admin = admin
                .sources
                .folders
                .iter_mut()
                .chain(&mut admin.state_file);
            let of_server = of_admin.chain(&mut config.state_folder);
            let of_jwt = config.auth.jwt.iter_mut().flat_map(Jwt::paths_mut);
            let of_webhook = config.auth.webhook.iter_mut();
            let of_webhook = of_webhook.filter_map(|it| it.roots.as_mut());
            let of_auth = of_jwt.chain(of_webhook);
            let nats = config.cluster.as_mut().and_then(|it| it.nats.as_mut());
            let of_nats = nats.map_or_else(Vec::new, Nats::paths_mut);
            let others = of_tls.into_iter().chain(of_nats).chain(of_server);
            let of_recordings = config.recordings.paths_mut();
            let of_hooks = config.hooks.iter_mut();
            let of_hooks = of_hooks.filter_map(|hook| hook.roots.as_mut());
            let others = others.chain(of_recordings);
            for path in named.chain(others).chain(of_auth).chain(of_hooks) {
                *path = folder.join(&*path);
            }
        }
        users::load_users_file(&mut config.auth)?;
        let named = [Some(path), config.auth.users_file.as_deref()];
        let named = named.into_iter().flatten().map(Path::to_owned);
        config.files.read = named.chain(read).collect();
        // What they have is in the configuration.
        config.files.include.clear();
        Ok(config)
    }

    /// Returns the defaults, overridden by the variables `GLASSLINE_…` of the environment.
    ///
    /// # Errors
    /// Returns [`Error`] with the variable.
    pub fn of_environment() -> Result<Self, Error> {
        let mut config = Self::from_yaml_and_variables("", "", variables())?;
        users::load_users_file(&mut config.auth)?;
        Ok(config)
    }

    /// Parses YAML text, overridden by `variables` of the environment, which are names with values;
    /// `name` is the name of the file in errors. Variables of other programs are passed over.
    ///
    /// # Errors
    /// Returns [`Error`] with `name` and, if there is one, the line; or with the variable.
    pub fn from_yaml_and_variables(
        text: &str,
        name: &str,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Error> {
        let overrides = environment::read(variables)?;
        let document = Document::of_text(text, name)?;
        Self::of_document(document, &overrides).map(|(config, _)| config)
    }

    /// Makes the configuration of its files and variables. Returns the files that were read beside
    /// the first one, too.
    fn of_document(
        mut document: Document,
        overrides: &Overrides,
    ) -> Result<(Self, Vec<PathBuf>), Error> {
        environment::apply(&mut document, overrides)?;
        document.read_secret_files()?;
        let config = document.deserialize::<Self>()?;
        Ok((config, document.take_read_files()))
    }
}

/// The variables of the environment that are text.
fn variables() -> impl Iterator<Item = (String, String)> {
    let text = |it: std::ffi::OsString| it.into_string().ok();
    std::env::vars_os().filter_map(move |(name, value)| Some((text(name)?, text(value)?)))
}
