//! One case of the table, played in real time through the server.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::camera_server::CameraServer;
use super::media::Media;
use super::publisher::Publisher;
use super::quirk::Quirk;
use super::reader;
use super::row::{Ending, FREEZE_MS, Row, Video, Viewer, Way};
use super::sight::Sight;
use super::test_server::TestServer;
use crate::process::eventually;

/// A row by one way and in one codec.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) row: &'static Row,
    pub(crate) way: Way,
    pub(crate) video: Video,
}

/// The result of a case.
pub(crate) struct Shown {
    pub(crate) rate: f64,
    pub(crate) connections: usize,
    pub(crate) gap: Duration,
    /// The stream's state, with the reason that it shows.
    pub(crate) state: String,
    /// The differences from the row.
    pub(crate) faults: Vec<String>,
}

/// Longest wait for the stream, in a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(15);

/// Longest wait for a reason: a camera without keyframes is given 20 s.
const REASON: Duration = Duration::from_secs(30);

/// Longest time in which the server ends a session with a camera.
const FAREWELL: Duration = Duration::from_secs(3);

impl Case {
    /// Name of the case as a test.
    pub(crate) fn name(self) -> String {
        let Case { row, way, video } = self;
        format!("cameras::{}::{way}_{video}", row.name)
    }

    fn stream(self) -> String {
        self.name()["cameras::".len()..].replace("::", "-")
    }

    /// Plays the case.
    ///
    /// # Errors
    /// Returns why the case could not be played at all.
    pub(crate) fn play(self) -> Result<Shown, String> {
        let server = match self.row {
            row if row.late > 0 => TestServer::alone("limits: {ring_s: 2}\n")?,
            row if row.ending == Some(Ending::Terminate) => TestServer::alone("")?,
            _ => TestServer::shared()?,
        };
        match self.way {
            Way::Record => self.publish(&server),
            Way::Tcp | Way::Udp => self.pull(server),
        }
    }

    fn publish(self, server: &TestServer) -> Result<Shown, String> {
        let name = self.stream();
        let publisher = Publisher::start(self.row, self.video, &server.rtsp_url(&name))?;
        let mut shown = self.observe(server, &name, publisher.media())?;
        shown.connections = 1;
        shown.faults.extend(publisher.refusal());
        Ok(shown)
    }

    fn pull(self, mut server: TestServer) -> Result<Shown, String> {
        let name = self.stream();
        let camera = CameraServer::open(self.row, self.video)?;
        let url = match (self.way, camera.option()) {
            (Way::Udp, _) => format!("{}?transport=udp", camera.url()),
            (_, Some(option)) => format!("{}?{option}", camera.url()),
            _ => camera.url(),
        };
        put(&server, &name, &url)?;
        let mut shown = self.observe(&server, &name, &camera.device.media)?;
        let ledger = camera.device.ledger(|it| *it);
        shown.connections = ledger.connections;
        if ledger.connections == 0 || ledger.connections > self.row.connections {
            let (most, were) = (self.row.connections, ledger.connections);
            shown
                .faults
                .push(format!("{were} connections, and {most} are enough"));
        }
        if ledger.told_elsewhere > 0 {
            shown
                .faults
                .push("another host got the password".to_owned());
        }
        if let Some(ending) = self.row.ending {
            shown
                .faults
                .extend(end(&mut server, &name, &url, ending).err());
            let left = || camera.device.ledger(|it| *it);
            let said = eventually(FAREWELL, || match left() {
                it if it.teardowns > 0 && it.left_behind == 0 && it.refused == 0 => Ok(()),
                it => Err(format!("the camera was left without TEARDOWN: {it:?}")),
            });
            shown.faults.extend(said.err());
        }
        if self.row.ending != Some(Ending::Terminate) {
            server.change("DELETE", &format!("/api/v1/sources/{name}"), String::new())?;
        }
        Ok(shown)
    }

    /// Watches the stream `name`, once it is live, for the row's time.
    fn observe(self, server: &TestServer, name: &str, media: &Arc<Media>) -> Result<Shown, String> {
        let row = self.row;
        let mut sight = Sight::of(row, Arc::clone(media));
        let mut faults = Vec::new();
        let time = Duration::from_secs(row.seconds);
        let entry = match row.viewer {
            Viewer::Reason(words) => wait_for_reason(server, name, words),
            Viewer::Plays => wait_until_live(server, name),
        };
        if entry.is_ok() && row.viewer == Viewer::Plays {
            thread::sleep(Duration::from_secs(row.late));
            let deadline = Instant::now() + time + Duration::from_secs(3);
            let watched = reader::watch(&server.rtsp_url(name), &mut sight, time, deadline);
            // A stream whose source begins anew ends no session of a viewer.
            faults.extend(watched.err());
            faults.extend(self.judge(&sight, time));
            faults.extend(self.judge_entry(&server.stream(name)?));
        }
        faults.extend(entry.err());
        let state = server.stream(name).map(|it| state(&it)).unwrap_or_default();
        Ok(Shown {
            rate: sight.rate(time),
            connections: 0,
            gap: sight.gap,
            state,
            faults,
        })
    }

    fn judge(self, sight: &Sight, time: Duration) -> Vec<String> {
        let row = self.row;
        let mut faults = Vec::new();
        // At least four packets of sound come each second.
        if row.heard.is_some() && (sight.sounds as u64) < 2 * row.seconds {
            faults.push(format!("{} units of sound in the stream", sight.sounds));
        }
        if row.has(Quirk::NoVideo) {
            return faults;
        }
        let may_restart = row.freeze_ms > FREEZE_MS;
        faults.extend(sight.fault(may_restart));
        let (rate, wanted) = (sight.rate(time), sight.wanted_rate());
        // The latest frames may be late for as long as a freeze may be; lost ones are breaks.
        let late = Duration::from_millis(row.freeze_ms).min(time);
        if rate < wanted * (1.0 - late.as_secs_f64() / time.as_secs_f64().max(0.001)) {
            faults.push(format!("{rate:.1} frames a second of {wanted}"));
        }
        if sight.gap > Duration::from_millis(row.freeze_ms) {
            faults.push(format!("a freeze of {:.1} s", sight.gap.as_secs_f64()));
        }
        faults
    }

    /// Compares what the API says of the tracks.
    fn judge_entry(self, entry: &Value) -> Vec<String> {
        let mut faults = Vec::new();
        let tracks = entry["tracks"].as_array().cloned().unwrap_or_default();
        let has = |kind: &str| {
            let mut tracks = tracks.iter();
            tracks
                .find(|it| it["kind"] == kind)
                .cloned()
                .unwrap_or_default()
        };
        let video = has("video");
        let browser = &video["browser"];
        let note = browser["note"].as_str().unwrap_or_default();
        let is_told = match self.row.encoded_again {
            true => {
                let plainly = browser["codec"].is_null() && video["begins_in_browsers"] == false;
                plainly && note.contains("?transcode behind")
            }
            false => !browser["codec"].is_null() && video["begins_in_browsers"] == true,
        };
        let has_frames = is_told && video["width"] == 320;
        if !has_frames && !self.row.has(Quirk::NoVideo) {
            faults.push(format!("browsers have no frame of 320 pixels: {video}"));
        }
        let audio = has("audio");
        let heard = audio["browser"]["codec"].as_str();
        if let Some(wanted) = self.row.heard
            && !heard.is_some_and(|it| it.eq_ignore_ascii_case(wanted))
        {
            faults.push(format!(
                "browsers hear no {wanted}: {audio} {}",
                entry["source"]
            ));
        }
        faults
    }
}

/// Makes or changes a source over the API.
pub(super) fn put(server: &TestServer, name: &str, url: &str) -> Result<(), String> {
    let source = format!("/api/v1/sources/{name}");
    let answer = server.change("PUT", &source, json!({"source": url}).to_string())?;
    match answer.status {
        200 | 201 => Ok(()),
        status => Err(format!("the source was refused: {status} {}", answer.body)),
    }
}

/// Ends the session with the camera as an operator does, and waits for the next one where there is
/// one.
fn end(server: &mut TestServer, name: &str, url: &str, ending: Ending) -> Result<(), String> {
    let source = format!("/api/v1/sources/{name}");
    match ending {
        Ending::Delete => drop(server.change("DELETE", &source, String::new())?),
        Ending::Change => put(server, name, &url.replace("/live", "/other"))?,
        Ending::Restart => {
            server.change("POST", &format!("{source}/restart"), String::new())?;
        }
        Ending::Terminate => server.terminate(FAREWELL + FAREWELL)?,
    }
    if matches!(ending, Ending::Change | Ending::Restart) {
        // The answer comes when the session before has ended.
        wait_until_live(server, name)?;
    }
    Ok(())
}

/// Waits until the stream `name` is live.
pub(super) fn wait_until_live(server: &TestServer, name: &str) -> Result<(), String> {
    let last = eventually(PATIENCE, || {
        let entry = server.stream(name)?;
        match entry["state"] == "live" {
            true => Ok(()),
            false => Err(state(&entry)),
        }
    });
    last.map_err(|reason| format!("no stream {reason}"))
}

fn wait_for_reason(server: &TestServer, name: &str, words: &str) -> Result<(), String> {
    let last = eventually(REASON, || {
        let entry = server.stream(name)?;
        let detail = entry["detail"].as_str().unwrap_or_default();
        match entry["state"] != "live" && detail.contains(words) {
            true => Ok(()),
            false => Err(state(&entry)),
        }
    });
    last.map_err(|reason| format!("no word of {words:?} {reason}"))
}

fn state(entry: &Value) -> String {
    let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    format!("{} {}", text("state"), text("detail"))
        .trim()
        .to_owned()
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Tcp => "tcp",
            Way::Udp => "udp",
            Way::Record => "record",
        })
    }
}

impl fmt::Display for Video {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Video::H264 => "h264",
            Video::H265 => "h265",
        })
    }
}
