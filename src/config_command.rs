//! `glassline config`: checks, prints and describes the configuration.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use glassline_server::config::Config;
use glassline_server::ingest::Input;

use crate::exit::Failure;
use crate::output;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Check a configuration file, and summarize what it configures.
    Check {
        /// Configuration file in YAML that is checked.
        file: PathBuf,
    },
    /// Print every setting in effect, with secrets hidden.
    Print {
        /// Configuration file (YAML); without one, the defaults are printed.
        file: Option<PathBuf>,
        /// Print JSON instead of YAML.
        #[arg(long)]
        json: bool,
    },
    /// Print a JSON Schema of the configuration file, for editors.
    Schema,
}

pub(crate) fn run(action: &Action, quiet: bool) -> Result<ExitCode, Failure> {
    match action {
        Action::Check { file } => {
            let config = Config::load(file).map_err(Failure::usage)?;
            glassline_server::check_certificates(&config).map_err(Failure::usage)?;
            if !quiet {
                output::print(&format!("{}: ok\n{}", file.display(), summary(&config)))?;
            }
        }
        Action::Print { file, json } => {
            let config = match file {
                Some(file) => Config::load(file).map_err(Failure::usage)?,
                None => Config::default(),
            };
            let text = if *json {
                config.to_json()
            } else {
                config.to_yaml()
            };
            output::print(&format!("{}\n", text.trim_end()))?;
        }
        Action::Schema => output::print(&format!("{}\n", Config::schema()))?,
    }
    Ok(ExitCode::SUCCESS)
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
    line("admin", &config.admin.address);
    match config.shards {
        Some(shards) => line("shards", &shards),
        None => line("shards", &"one per core"),
    }
    let limits = &config.limits;
    line(
        "limits",
        &format_args!("{} viewers, {} streams", limits.viewers, limits.streams),
    );
    let reading = match (config.auth.users.len(), &config.auth.read_token) {
        (0, Some(_)) => "viewers need the read token".to_owned(),
        (0, None) => "everybody who reaches the port may watch".to_owned(),
        (users, Some(_)) => {
            format!("{users} users; viewers must log in as one of them, or have the read token")
        }
        (users, None) => format!("{users} users; viewers must log in as one of them"),
    };
    line("auth", &reading);
    for (name, input) in &config.sources {
        line(
            "source",
            &format_args!("{name} = {input}{}", missing(input)),
        );
    }
    if config.sources.is_empty() {
        line("source", &"none");
    }
    out
}

/// A note on each file that does not exist on this machine.
fn missing(input: &Input) -> String {
    let Input::Files(files) = input else {
        return String::new();
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
                    sources: {cam: 'rtsp://u:hunter2@h/live', hall: /nowhere/v.h264}\n";
        let text = summary(&Config::from_yaml(yaml, "t.yml").expect("a good file"));
        for wanted in [
            "  http     127.0.0.1:8889\n",
            "  shards   one per core\n",
            "viewers need the read token",
            "cam = rtsp://u:…@h/live\n",
            "note: /nowhere/v.h264 does not exist",
        ] {
            assert!(text.contains(wanted), "{wanted} in\n{text}");
        }
        assert!(!text.contains("swordfish") && !text.contains("hunter2"));
    }
}
