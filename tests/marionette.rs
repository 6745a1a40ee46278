//! A headless Firefox, driven over its own remote protocol, Marionette: commands of WebDriver as
//! JSON, each behind its length.

use std::fs;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};

use crate::peers;
use crate::process::{Running, eventually, output_folder};

/// Longest wait for a new browser and for one answer, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// Settings for false devices, for sound without a user, and against calls home.
const PREFERENCES: &str = r#"
user_pref("marionette.port", 0);
user_pref("media.navigator.streams.fake", true);
user_pref("media.navigator.permission.disabled", true);
user_pref("media.autoplay.default", 0);
user_pref("media.gmp-manager.updateEnabled", false);
user_pref("app.update.enabled", false);
user_pref("app.normandy.enabled", false);
user_pref("browser.safebrowsing.update.enabled", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("services.settings.server", "");
user_pref("toolkit.telemetry.enabled", false);
"#;

/// A browser with a profile of its own. Dropping it ends the browser.
pub(crate) struct Firefox {
    wire: Mutex<Wire>,
    _running: Running,
    profile: PathBuf,
}

struct Wire {
    stream: BufReader<TcpStream>,
    sent: u64,
}

impl Firefox {
    pub(crate) fn start() -> Result<Firefox, String> {
        let profile = output_folder().join(format!("firefox-{}", std::process::id()));
        let _ = fs::remove_dir_all(&profile);
        fs::create_dir_all(&profile)
            .and_then(|()| fs::write(profile.join("user.js"), PREFERENCES))
            .map_err(|error| format!("{}: {error}", profile.display()))?;
        let mut command = Command::new(peers::firefox()?);
        command.args(["--headless", "--marionette", "--no-remote", "--profile"]);
        command.arg(&profile).env("HOME", &profile);
        let running = Running::start("firefox", command)?;
        // The browser writes the port that it took into its profile.
        let port_file = profile.join("MarionetteActivePort");
        let stream = eventually(PATIENCE, || {
            let text = fs::read_to_string(&port_file).map_err(|error| error.to_string())?;
            let port: u16 = text.trim().parse().map_err(|_| format!("port {text}"))?;
            TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())
        })?;
        let limit = stream.set_read_timeout(Some(PATIENCE));
        limit.map_err(|error| error.to_string())?;
        let mut wire = Wire {
            stream: BufReader::new(stream),
            sent: 0,
        };
        // It speaks first.
        wire.receive()?;
        wire.call("WebDriver:NewSession", &json!({}))?;
        Ok(Firefox {
            wire: Mutex::new(wire),
            _running: running,
            profile,
        })
    }

    /// Loads `url`, and waits for the page's load event.
    pub(crate) fn open(&self, url: &str) -> Result<(), String> {
        self.call("WebDriver:Navigate", &json!({"url": url}))
            .map(drop)
    }

    /// Opens a further window, in which the following commands work.
    pub(crate) fn new_window(&self) -> Result<(), String> {
        let window = self.call("WebDriver:NewWindow", &json!({"type": "window"}))?;
        let handle = json!({"handle": window["handle"]});
        self.call("WebDriver:SwitchToWindow", &handle).map(drop)
    }

    /// Runs the body of a function in the page; returns its result.
    pub(crate) fn run(&self, script: &str) -> Result<Value, String> {
        let command = json!({"script": script, "args": [], "sandbox": null});
        Ok(self.call("WebDriver:ExecuteScript", &command)?["value"].take())
    }

    /// Runs `script` repeatedly until it returns something true.
    pub(crate) fn wait_until(&self, timeout: Duration, script: &str) -> Result<Value, String> {
        eventually(timeout, || match self.run(script)? {
            Value::Null | Value::Bool(false) => Err(format!("not yet: {script}")),
            value => Ok(value),
        })
    }

    fn call(&self, command: &str, parameters: &Value) -> Result<Value, String> {
        let mut wire = self.wire.lock().map_err(|error| error.to_string())?;
        wire.call(command, parameters)
    }
}

impl Drop for Firefox {
    fn drop(&mut self) {
        // Its helpers end with it, which a kill would leave behind.
        let _ = self.call("Marionette:Quit", &json!({"flags": ["eForceQuit"]}));
        let _ = fs::remove_dir_all(&self.profile);
    }
}

impl Wire {
    /// Sends a command, and returns the result in its answer.
    fn call(&mut self, command: &str, parameters: &Value) -> Result<Value, String> {
        self.sent += 1;
        let text = json!([0, self.sent, command, parameters]).to_string();
        let message = format!("{}:{text}", text.len());
        let sent = self.stream.get_mut().write_all(message.as_bytes());
        sent.map_err(|error| format!("{command}: {error}"))?;
        let mut answer = self.receive()?;
        match answer[2].take() {
            Value::Null => Ok(answer[3].take()),
            error => Err(format!("{command}: {}", error["message"])),
        }
    }

    /// Reads one message: its length in decimal, a colon, and JSON.
    fn receive(&mut self) -> Result<Value, String> {
        let mut length: usize = 0;
        loop {
            let mut byte = [0];
            let read = self.stream.read_exact(&mut byte);
            read.map_err(|error| format!("Firefox: {error}"))?;
            match byte[0] {
                b':' => break,
                digit @ b'0'..=b'9' => length = length * 10 + usize::from(digit - b'0'),
                other => return Err(format!("Firefox sent byte {other} in a length")),
            }
        }
        let mut text = vec![0; length];
        let read = self.stream.read_exact(&mut text);
        read.map_err(|error| format!("Firefox: {error}"))?;
        serde_json::from_slice(&text).map_err(|error| format!("Firefox: {error}"))
    }
}
