//! MediaMTX, which serves a stream of ours by its own HLS with low latency.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::http;
use crate::peers;
use crate::ports::free_ports;
use crate::process::{PATIENCE, Running, eventually, output_folder};
use crate::server::{unique, write_file};

/// The program, serving. Dropping it ends it.
pub(crate) struct MediaMtx {
    playlist: String,
    _running: Running,
}

impl MediaMtx {
    /// Starts the program, which pulls `source` by RTSP and serves it at `address` in parts of 200 ms.
    pub(crate) fn pulling(source: &str, address: &str) -> Result<Self, String> {
        let program = program()?;
        let [rtsp, hls] = free_ports()?;
        let off = ["rtmp", "srt", "webrtc", "moq"].map(|it| format!("{it}: no\n"));
        let configuration = format!(
            "logLevel: warn\n{}rtspAddress: 127.0.0.1:{rtsp}\nrtspTransports: [tcp]\n\
             hlsAddress: {address}:{hls}\nhlsVariant: lowLatency\nhlsPartDuration: 200ms\n\
             hlsSegmentDuration: 2s\nhlsAlwaysRemux: yes\n\
             paths:\n  demo: {{source: '{source}', rtspTransport: tcp}}\n",
            off.concat()
        );
        let path = write_file(&unique("mediamtx.yml"), configuration.as_bytes())?;
        let mut command = Command::new(program);
        // The program writes certificates into its working directory.
        command.arg(path).current_dir(output_folder());
        let mediamtx = Self {
            _running: Running::start("mediamtx", command)?,
            playlist: format!("http://{address}:{hls}/demo/index.m3u8"),
        };
        eventually(PATIENCE, || match http::get(&mediamtx.playlist)?.status {
            200 => Ok(()),
            status => Err(format!("{}: {status}", mediamtx.playlist)),
        })?;
        Ok(mediamtx)
    }

    /// URL of the multivariant playlist.
    pub(crate) fn playlist(&self) -> &str {
        &self.playlist
    }
}

/// The program on the PATH, or the one that `cargo xtask bench-peers` has built.
fn program() -> Result<PathBuf, String> {
    if let Some(program) = peers::find("mediamtx") {
        return Ok(program);
    }
    let folder = peers::target_directory().join("peers/mediamtx");
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let built = files.map(|it| it.path()).find(|it| {
        let name = it.file_name().unwrap_or_default().to_string_lossy();
        it.is_file() && name.starts_with("mediamtx-")
    });
    built.ok_or_else(|| "no MediaMTX; `cargo xtask bench-peers --hls --quick` builds it".to_owned())
}
