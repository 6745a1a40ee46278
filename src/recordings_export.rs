//! `glassline recordings export`: saves a part of what a running server has recorded as one MP4 file.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use glassline_client::trust::Trust;
use serde_json::Value;

use crate::api_command::Target;
use crate::exit::Failure;

/// Longest time until the server answers: it reads the index of every file of the part before.
const PATIENCE: Duration = Duration::from_secs(60);

/// Largest error that is read, in bytes.
const PROBLEM_BYTES_MAX: u64 = 64 << 10;

/// A part of a stream's recordings, and the file that it becomes.
#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Name of the stream.
    stream: String,
    /// Time of the first frame: 2026-11-30T14:03:05Z, with any zone, or seconds since 1970.
    #[arg(long, value_name = "TIME")]
    from: String,
    /// Time of the end, at most a day later.
    #[arg(long, value_name = "TIME")]
    to: String,
    /// Begin exactly at the time, and not at the keyframe before.
    #[arg(long)]
    exact: bool,
    /// File to write. It must not exist.
    file: PathBuf,
    #[command(flatten)]
    target: Target,
}

impl Export {
    pub(crate) fn run(&self, quiet: bool) -> Result<ExitCode, Failure> {
        let shown = self.file.display();
        if self.file.exists() {
            return Err(Failure::usage(format_args!(
                "{shown} exists already: choose another name"
            )));
        }
        let beside = self.file.with_added_extension("part");
        let bytes = self.download(&beside).inspect_err(|_| {
            let _ = fs::remove_file(&beside);
        })?;
        let renamed = fs::rename(&beside, &self.file);
        renamed.map_err(|error| Failure::runtime(format_args!("{shown}: {error}")))?;
        if !quiet {
            eprintln!("{shown}: {bytes} bytes");
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Writes the answer into the file at `path`. Returns the number of its bytes.
    fn download(&self, path: &Path) -> Result<u64, Failure> {
        let server = self.target.url();
        let unreachable = |error: ureq::Error| Failure::runtime(format_args!("{server}: {error}"));
        let config = ureq::Agent::config_builder()
            .timeout_recv_response(Some(PATIENCE))
            .http_status_as_error(false)
            .max_redirects(0)
            .build();
        let agent = glassline_client::agent::agent(config, Trust::System);
        let url = self.url()?;
        let mut request = agent.get(url.as_str());
        if let Some(token) = self.target.token() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let mut response = request.call().map_err(unreachable)?;
        if response.status() != 200 {
            let body = response.body_mut().with_config().limit(PROBLEM_BYTES_MAX);
            let problem = body.read_to_string().unwrap_or_default();
            let problem = serde_json::from_str::<Value>(&problem).unwrap_or_default();
            let status = response.status().as_u16();
            let told = problem["detail"].as_str().map(str::to_owned);
            let told = told.unwrap_or_else(|| format!("{server}: HTTP status {status}"));
            return Err(Failure::runtime(told));
        }
        let length = response.body().content_length();
        let mut write = || -> io::Result<u64> {
            let mut file = File::create(path)?;
            let copied = io::copy(&mut response.body_mut().as_reader(), &mut file)?;
            file.flush()?;
            Ok(copied)
        };
        let failed = |error| Failure::runtime(format_args!("{}: {error}", path.display()));
        let bytes = write().map_err(failed)?;
        match length {
            Some(length) if length != bytes => Err(Failure::runtime(format_args!(
                "{server}: the file broke off after {bytes} of {length} bytes"
            ))),
            _ => Ok(bytes),
        }
    }

    fn url(&self) -> Result<url::Url, Failure> {
        let server = self.target.url();
        let mut url = server.clone();
        let segments = url.path_segments_mut();
        let mut segments =
            segments.map_err(|()| Failure::usage(format_args!("{server}: no http URL")))?;
        segments.pop_if_empty().extend(["api", "v1", "streams"]);
        segments.extend(self.stream.split('/')).push("export");
        drop(segments);
        url.query_pairs_mut()
            .append_pair("start", &self.from)
            .append_pair("end", &self.to)
            .append_pair("cut", if self.exact { "exact" } else { "keyframe" });
        Ok(url)
    }
}
