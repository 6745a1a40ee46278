//! Everything that runs: the server, its publishers, and the good viewers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::configuration::Configuration;
use super::error::Error;
use super::fleet::Fleet;
use super::group::{FFMPEG_FRAME_RATE, GroupSpec, Origin, QUIC_STREAM, RTSP_STREAM, ViewerGroup};
use super::plan::Plan;
use super::probe::{Probe, http_get};
use super::program::{Log, Program};

/// Longest wait for the server's first answer.
const SERVING_MAX: Duration = Duration::from_secs(30);

/// Longest wait for the first frame of every viewer.
const VIDEO_MAX: Duration = Duration::from_secs(90);

/// A server with publishers and viewers.
#[derive(Debug)]
pub(super) struct Deployment {
    pub(super) plan: Plan,
    pub(super) configuration: Configuration,
    server: Option<Program>,
    /// Id of the server's process, for the monitor; 0 while there is none.
    server_id: Arc<AtomicU32>,
    pub(super) publishers: Vec<Publisher>,
    pub(super) groups: Vec<ViewerGroup>,
    /// Servers of a cluster, once an action has needed them.
    pub(super) fleet: Option<Fleet>,
}

/// A program that publishes a stream.
#[derive(Debug)]
pub(super) struct Publisher {
    pub(super) origin: Origin,
    pub(super) program: Program,
}

impl Deployment {
    /// Starts everything, and waits until every viewer has video.
    pub(super) fn start(plan: &Plan) -> Result<Self, Error> {
        let configuration = Configuration::write(plan)?;
        let mut deployment = Self {
            plan: plan.clone(),
            configuration,
            server: None,
            server_id: Arc::default(),
            publishers: Vec::new(),
            groups: Vec::new(),
            fleet: None,
        };
        deployment.start_server(LogTarget::File)?;
        let mut origins = vec![Origin::Quic];
        let has_ffmpeg = ffmpeg().is_some();
        if has_ffmpeg {
            origins.push(Origin::Rtsp);
        } else {
            tracing::warn!("there is no ffmpeg: no stream is published over RTSP");
        }
        for origin in origins {
            deployment.start_publisher(origin)?;
        }
        for spec in GroupSpec::all(plan, &deployment.configuration, has_ffmpeg) {
            let group = ViewerGroup::start(plan, &deployment.configuration, &spec)?;
            deployment.groups.push(group);
        }
        deployment.wait_for_video()?;
        Ok(deployment)
    }

    /// Starts the server, and waits until it serves; returns the time that this took.
    pub(super) fn start_server(&mut self, target: LogTarget) -> Result<Duration, Error> {
        let mut command = match self.plan.descriptors {
            Some(limit) => {
                let mut command = Command::new("prlimit");
                command.arg(format!("--nofile={limit}:{limit}"));
                command.arg("--").arg(&self.plan.program);
                command
            }
            None => Command::new(&self.plan.program),
        };
        command.arg("serve").arg(&self.configuration.file);
        command.env("NO_COLOR", "1");
        let path = self.server_log();
        let log = match target {
            LogTarget::File => Log::File(&path),
            LogTarget::FullDisk => Log::FullDisk,
        };
        let begun = Instant::now();
        let server = Program::start("server", command, log, |_| {})?;
        self.server_id.store(server.id(), Ordering::Relaxed);
        self.server = Some(server);
        let health = self.health();
        while health.ask().ms.is_none() {
            let ended = self.server.as_mut().and_then(Program::ended);
            if begun.elapsed() > SERVING_MAX || ended.is_some() {
                return Err(Error::NotServing {
                    seconds: begun.elapsed().as_secs(),
                    log: path,
                });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(begun.elapsed())
    }

    /// Kills the server with SIGKILL, so that it says goodbye to nobody.
    pub(super) fn kill_server(&mut self) {
        self.server_id.store(0, Ordering::Relaxed);
        self.server = None;
    }

    /// The server's program; an error if it does not run.
    pub(super) fn server(&self) -> Result<&Program, Error> {
        self.server.as_ref().ok_or_else(|| Error::NotServing {
            seconds: 0,
            log: self.server_log(),
        })
    }

    /// How the server ended, if it ended by itself.
    pub(super) fn server_ended(&mut self) -> Option<String> {
        self.server.as_mut().and_then(Program::ended)
    }

    /// Ends the server as a service manager does; returns false if it had to be killed.
    pub(super) fn stop_server(&mut self, patience: Duration) -> bool {
        self.server_id.store(0, Ordering::Relaxed);
        let server = self.server.take();
        server.is_none_or(|mut server| server.terminate(patience))
    }

    /// Path of the server's log.
    pub(super) fn server_log(&self) -> PathBuf {
        self.plan.folder.join("server.log")
    }

    /// Id of the server's process, for another thread; 0 while there is none.
    pub(super) fn server_id(&self) -> Arc<AtomicU32> {
        Arc::clone(&self.server_id)
    }

    /// Starts the publisher of a stream, again if it ran before.
    pub(super) fn start_publisher(&mut self, origin: Origin) -> Result<(), Error> {
        self.publishers
            .retain(|publisher| publisher.origin != origin);
        let (name, command) = match origin {
            Origin::Quic => ("publisher-quic", self.quic_publisher()),
            Origin::Rtsp => ("publisher-rtsp", self.rtsp_publisher()),
            Origin::Server => return Ok(()),
        };
        let log = self.plan.folder.join(format!("{name}.log"));
        let program = Program::start(name, command, Log::File(&log), |_| {})?;
        self.publishers.push(Publisher { origin, program });
        Ok(())
    }

    /// Starts publishers again that have ended, as a service manager does.
    pub(super) fn restart_ended_publishers(&mut self) -> Result<(), Error> {
        let publishers = self.publishers.iter_mut();
        let ended: Vec<Origin> = publishers
            .filter_map(|publisher| publisher.program.ended().map(|_| publisher.origin))
            .collect();
        for origin in ended {
            self.start_publisher(origin)?;
        }
        Ok(())
    }

    /// Starts publishers again whose stream no viewer has received since `since_ms`; returns the
    /// names of their groups.
    pub(super) fn restart_unseen_publishers(
        &mut self,
        since_ms: u64,
    ) -> Result<Vec<&'static str>, Error> {
        let groups = self.groups.iter();
        let unseen: Vec<(Origin, &str)> = groups
            .filter(|group| group.origin != Origin::Server && !group.has_video(since_ms))
            .map(|group| (group.origin, group.name))
            .collect();
        for (origin, _) in &unseen {
            self.start_publisher(*origin)?;
        }
        Ok(unseen.into_iter().map(|(_, name)| name).collect())
    }

    fn quic_publisher(&self) -> Command {
        let mut command = Command::new(&self.plan.program);
        command.args(["--quiet", "publish", "demo", "--insecure"]);
        command.arg(self.configuration.moq_url(QUIC_STREAM));
        command.env("GLASSLINE_PUBLISH_TOKEN", &self.configuration.publish_token);
        command
    }

    fn rtsp_publisher(&self) -> Command {
        let mut command = Command::new("ffmpeg");
        let source = format!("testsrc2=size=320x180:rate={FFMPEG_FRAME_RATE}");
        command.args(["-hide_banner", "-loglevel", "error", "-nostdin", "-re"]);
        command.args(["-f", "lavfi", "-i", &source, "-c:v", "libx264"]);
        command.args(["-preset", "ultrafast", "-tune", "zerolatency", "-g", "15"]);
        command.args(["-threads", "1", "-pix_fmt", "yuv420p", "-f", "rtsp"]);
        command.args(["-rtsp_transport", "tcp"]);
        command.arg(self.configuration.rtsp_url(RTSP_STREAM));
        command
    }

    /// Waits until no viewer of any group lacks video.
    fn wait_for_video(&mut self) -> Result<(), Error> {
        let begun = Instant::now();
        loop {
            let without = self.groups.iter().find(|group| !group.has_video(0));
            let Some(group) = without else {
                return Ok(());
            };
            if begun.elapsed() > VIDEO_MAX {
                let last = group.last().unwrap_or_default();
                return Err(Error::NoVideo {
                    group: group.name.to_owned(),
                    seconds: VIDEO_MAX.as_secs(),
                    reason: last.failure.unwrap_or_else(|| "no join failed".to_owned()),
                });
            }
            std::thread::sleep(Duration::from_millis(100));
            self.restart_ended_publishers()?;
        }
    }

    /// The question of monitors, at the admin listener.
    pub(super) fn health(&self) -> Probe {
        Probe {
            name: "admin",
            address: self.configuration.admin,
            request: http_get("/healthz", "none"),
            wanted: "HTTP/1.1 200",
        }
    }

    /// Questions to all listeners that answer on TCP.
    pub(super) fn probes(&self) -> Vec<Probe> {
        let bearer = format!("Bearer {}", self.configuration.read_token);
        vec![
            self.health(),
            Probe {
                name: "http",
                address: self.configuration.http,
                request: http_get("/api/v1/streams", &bearer),
                wanted: "HTTP/1.1 200",
            },
            Probe {
                name: "rtsp",
                address: self.configuration.rtsp,
                request: "OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n".to_owned(),
                wanted: "RTSP/1.0 200",
            },
        ]
    }
}

/// Where the server's log goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogTarget {
    /// To the file of the run.
    File,
    /// To a device that is always full.
    FullDisk,
}

/// Path of FFmpeg, which publishes over RTSP.
fn ffmpeg() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut programs = std::env::split_paths(&path).map(|folder| folder.join("ffmpeg"));
    programs.find(|program: &PathBuf| Path::is_file(program))
}
