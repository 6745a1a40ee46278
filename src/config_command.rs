//! `glassline config`: checks, prints and describes the configuration.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use glassline_config::{Auth, Config};
use glassline_ingest::{Input, SourceSpec, StartError};
use glassline_runtime::small_file;
use glassline_server::Tried;

use crate::config_import;
use crate::exit::{CHECK_FAILED, Failure};
use crate::logging;
use crate::output;

/// Largest configuration of another server that is read.
const IMPORT_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Check a configuration file, and summarize what it configures.
    Check {
        /// Configuration file in YAML that is checked.
        file: PathBuf,
        /// Also open the ports, read the certificates, and start the sources for some seconds; exit
        /// code 3 if something fails.
        #[arg(long = "try")]
        is_tried: bool,
    },
    /// Print every setting in effect, with secrets hidden.
    Print {
        /// Configuration file (YAML); without one, defaults and environment.
        file: Option<PathBuf>,
        /// Print JSON instead of YAML.
        #[arg(long)]
        json: bool,
    },
    /// Turn a configuration of MediaMTX or go2rtc into one of this server.
    ///
    /// The keys of the file tell its server. Lines that could not be taken are named on stderr; then the
    /// exit code is 3. The result is as secret as the file, since it has passwords of cameras.
    Import {
        /// Configuration file, mediamtx.yml or go2rtc.yaml.
        file: PathBuf,
        /// File to write, readable by its owner only; stdout without it.
        #[arg(long, value_name = "PATH")]
        out: Option<PathBuf>,
    },
    /// Print a JSON Schema of the configuration file, for editors.
    Schema,
}

pub(crate) fn run(action: &Action, quiet: bool) -> Result<ExitCode, Failure> {
    match action {
        Action::Check { file, is_tried } => return check(file, *is_tried, quiet),
        Action::Print { file, json } => {
            let config = match file {
                Some(file) => Config::load(file).map_err(Failure::usage)?,
                None => Config::of_environment().map_err(Failure::usage)?,
            };
            let text = if *json {
                config.to_json()
            } else {
                config.to_yaml()
            };
            output::print(&format!("{}\n", text.trim_end()))?;
        }
        Action::Import { file, out } => return import(file, out.as_deref(), quiet),
        Action::Schema => output::print(&format!("{}\n", Config::schema()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a configuration of another server as one of this server, and names what could not be taken.
fn import(file: &Path, out: Option<&Path>, quiet: bool) -> Result<ExitCode, Failure> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::runtime(format_args!("{}: {error}", path.display()))
    };
    let text = small_file::read_text_or_pipe(file, IMPORT_BYTES_MAX);
    let text = text.map_err(|error| failed(file, &error))?;
    let imported = config_import::import(&text, &file.display().to_string())?;
    match out {
        None => output::print(&imported.yaml)?,
        Some(out) => output::write_for_owner(out, imported.yaml.as_bytes())
            .map_err(|error| failed(out, &error))?,
    }
    for note in &imported.notes {
        let line = format!("{}:{note}", file.display());
        eprintln!("{}", logging::escaped_lines(&line));
    }
    if let Some(trouble) = &imported.trouble {
        let line = format!("{}: the result needs a change: {trouble}", file.display());
        eprintln!("{}", logging::escaped_lines(&line));
    }
    if !quiet {
        let left = imported.notes.len();
        eprintln!(
            "{}: of {}, {left} lines not taken",
            file.display(),
            imported.of
        );
    }
    Ok(
        match imported.notes.is_empty() && imported.trouble.is_none() {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(CHECK_FAILED),
        },
    )
}

/// Checks a file; `is_tried`: also tries what it names.
fn check(file: &Path, is_tried: bool, quiet: bool) -> Result<ExitCode, Failure> {
    let config = Config::load(file).map_err(Failure::usage)?;
    let wrong =
        |error: &dyn std::fmt::Display| Failure::usage(format_args!("{}: {error}", file.display()));
    config.check_ports().map_err(|error| wrong(&error))?;
    config.check_cluster().map_err(|error| wrong(&error))?;
    let specs = config.specs();
    config
        .check_programs(&specs)
        .map_err(|error| wrong(&error))?;
    check_kinds(specs).map_err(|error| wrong(&error))?;
    glassline_server::check_certificates(&config).map_err(|error| wrong(&error))?;
    if !quiet {
        output::print(&format!("{}: ok\n{}", file.display(), summary(&config)))?;
    }
    if !is_tried {
        return Ok(ExitCode::SUCCESS);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::runtime(format_args!("cannot start threads: {error}")))?;
    let tried = runtime.block_on(glassline_server::try_config(&config));
    runtime.shutdown_background();
    let tried = crate::doctor::settled(&config, tried.map_err(Failure::runtime)?);
    let mut text = "tried:\n".to_owned();
    for Tried { key, outcome } in &tried {
        let (word, said) = match outcome {
            Ok(said) => ("ok  ", said.clone()),
            Err(fault) => ("FAIL", fault.to_string()),
        };
        if outcome.is_err() || !quiet {
            writeln!(text, "  {word} {key}: {said}").expect("a string takes everything");
        }
    }
    let has_failed = tried.iter().any(|it| it.outcome.is_err());
    if has_failed || !quiet {
        output::print(&text)?;
    }
    Ok(match has_failed {
        true => ExitCode::from(CHECK_FAILED),
        false => ExitCode::SUCCESS,
    })
}

/// Summary of a configuration, one line for each setting that matters.
fn summary(config: &Config) -> String {
    let mut out = String::new();
    let mut line = |name: &str, text: &dyn std::fmt::Display| {
        writeln!(out, "  {name:<8} {text}").expect("a string takes everything");
    };
    line("http", &config.http.address);
    if let Some(address) = config.https_address() {
        line("https", &address);
    }
    line("media", &config.media.address);
    match config.rtsp.address {
        Some(address) => line("rtsp", &address),
        None => line("rtsp", &"off"),
    }
    if let Some(address) = config.rtsp.tls.address {
        line("rtsps", &address);
    }
    match config.quic.address {
        Some(address) => line("quic", &address),
        None => line("quic", &"off"),
    }
    if let Some(folder) = &config.rtsp.media_folder {
        let note = if folder.is_dir() {
            ""
        } else {
            " (note: no such folder)"
        };
        line(
            "media",
            &format_args!("files of {}{note}", folder.display()),
        );
    }
    match config.useless_admin() {
        None => line("admin", &config.admin.address),
        Some(note) => line(
            "admin",
            &format_args!("{} (note: {note})", config.admin.address),
        ),
    }
    match config.shards {
        Some(shards) => line("shards", &shards),
        None => line("shards", &"one per core"),
    }
    let limits = &config.limits;
    line(
        "limits",
        &format_args!("{} viewers, {} streams", limits.viewers, limits.streams),
    );
    line("auth", &who_may_watch(&config.auth));
    let operators = match config.auth.closes_admin() {
        true => "the admin port requires a role".to_owned(),
        false => "everybody on this machine may use the admin port".to_owned(),
    };
    line("auth", &operators);
    for (name, input) in &config.sources {
        line("source", &format_args!("{name} = {input}{}", notes(input)));
    }
    if config.sources.is_empty() {
        line("source", &"none");
    }
    let needs_restart = config.keys_that_need_restart(&Config::default());
    if !needs_restart.is_empty() {
        let keys = needs_restart.join(", ");
        line(
            "restart",
            &format_args!("changes of these keys are heeded after a restart: {keys}"),
        );
    }
    out
}

/// Says what a viewer has to show.
fn who_may_watch(auth: &Auth) -> String {
    if !auth.closes_reading() {
        return "everybody who reaches the port may watch".to_owned();
    }
    let users = auth.users.iter().filter(|it| it.is_of_streams()).count();
    let mut ways = Vec::new();
    if users > 0 {
        ways.push(match users {
            1 => "the user's password".to_owned(),
            _ => format!("the password of one of {users} users"),
        });
    }
    if auth.read_token.is_some() {
        ways.push("the read token".to_owned());
    }
    if auth.jwt.is_some() {
        ways.push("a token of the identity provider".to_owned());
    }
    if let Some(webhook) = auth.webhook_of_reading() {
        ways.push(format!("what {} accepts", webhook.url));
    }
    format!("viewers need {}", ways.join(", or "))
}

/// Checks that each source is of a kind that the server has.
fn check_kinds(specs: Vec<SourceSpec>) -> Result<(), StartError> {
    for SourceSpec { name, input } in specs {
        if let Input::Files(files) = &input
            && let Some(path) = files.of_no_kind()
        {
            let path = path.to_owned();
            return Err(StartError::Kind { name, path });
        }
    }
    Ok(())
}

/// A note on each file that does not exist on this machine, and on each option that may be misspelt.
fn notes(input: &Input) -> String {
    let files = match input {
        Input::Files(files) => files,
        Input::Camera(camera) => {
            let options = camera.doubtful_options().into_iter();
            return options
                .map(|(key, meant)| {
                    format!(
                        "\n           note: '{key}' is sent to the camera; did you mean '{meant}'?"
                    )
                })
                .collect();
        }
        _ => return String::new(),
    };
    let gone = files.paths.iter().filter(|path| !path.exists());
    gone.map(|path| format!("\n           note: {} does not exist", path.display()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_tells_what_matters_and_no_secret() {
        let yaml = "auth: {read_token: swordfish}\n\
                    sources: {cam: 'rtsp://u:hunter2@h/live', hall: /nowhere/v.h264, \
                    door: 'rtsp://h/x?transpot=udp'}\n";
        let text = summary(&Config::from_yaml(yaml, "t.yml").expect("a good file"));
        for wanted in [
            "  http     127.0.0.1:8889\n",
            "  shards   one per core\n",
            "viewers need the read token",
            "  auth     everybody on this machine may use the admin port\n",
            "cam = rtsp://u:…@h/live\n",
            "note: /nowhere/v.h264 does not exist",
            "note: 'transpot' is sent to the camera; did you mean 'transport'?",
        ] {
            assert!(text.contains(wanted), "{wanted} in\n{text}");
        }
        assert!(!text.contains("swordfish") && !text.contains("hunter2"));
    }

    #[test]
    fn a_camera_without_its_scheme_is_refused_before_the_start() {
        let check = |source: &str| {
            let yaml = format!("sources: {{cam: {source}}}\n");
            let config = Config::from_yaml(&yaml, "t.yml").expect("a good file");
            check_kinds(config.specs()).map_err(|error| error.to_string())
        };
        let refused = check("192.168.1.5/stream1").expect_err("no file, and no camera");
        assert!(refused.contains("rtsp://"), "{refused}");
        for good in ["film.mp4", "rtsp://192.0.2.1/x", "demo", "film.avi"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn the_summary_names_every_way_to_watch() {
        let watching = |auth: &str| {
            let yaml = format!("auth: {auth}\nsources: {{cam: demo}}\n");
            let config = Config::from_yaml(&yaml, "t.yml").expect("a good file");
            who_may_watch(&config.auth)
        };
        let open = "everybody who reaches the port may watch";
        assert_eq!(watching("{publish_token: swordfish-of-ann}"), open);
        // Only the right to publish is asked for.
        let publishing = "{webhook: {url: 'https://h/r', actions: [publish]}}";
        assert_eq!(watching(publishing), open);
        let publishing =
            "{read_token: swordfish, webhook: {url: 'https://h/r', actions: [publish]}}";
        assert_eq!(watching(publishing), "viewers need the read token");
        let all = "{read_token: swordfish, webhook: {url: 'https://h/r'}, \
                   jwt: {algorithms: [ES256], jwks_url: 'https://id/keys', \
                   issuer: 'https://id', audience: glassline}}";
        assert_eq!(
            watching(all),
            "viewers need the read token, or a token of the identity provider, or what https://h/r accepts"
        );
    }
}
