//! A headless Chromium, driven over the W3C WebDriver protocol.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::http;
use crate::peers;
use crate::process::{Running, eventually};

/// A browser with one window. Dropping it closes both.
pub(crate) struct Browser {
    session_url: String,
    _driver: Running,
}

/// Flags to play video with audio on a machine without screen, GPU and user.
const CHROMIUM_FLAGS: [&str; 9] = [
    "--headless=new",
    // Build servers run as root in containers, where the sandbox cannot start.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--autoplay-policy=no-user-gesture-required",
    "--use-fake-ui-for-media-stream",
    "--window-size=1440,1000",
    // A hidden window would be throttled.
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
];

/// Line of a driver that ends because another program has the port.
const PORT_TAKEN: &str = "IPv4 port not available";

impl Browser {
    pub(crate) fn start() -> Result<Browser, String> {
        Self::start_with(&[])
    }

    /// Starts a browser with additional flags.
    pub(crate) fn start_with(flags: &[String]) -> Result<Browser, String> {
        Self::start_command(Command::new(peers::chromedriver()?), flags)
    }

    /// Starts a browser of a user whose home folder is `home`.
    pub(crate) fn start_in(home: &Path) -> Result<Browser, String> {
        let mut command = Command::new(peers::chromedriver()?);
        command.env("HOME", home);
        Self::start_command(command, &[])
    }

    fn start_command(command: Command, flags: &[String]) -> Result<Browser, String> {
        Self::start_driver(command, "127.0.0.1", flags)
    }

    /// Starts a driver by `command`, reaches it at `host`, and has it start a browser with `flags`.
    ///
    /// The driver lets the system choose a port of `[::1]` and then wants this port of `127.0.0.1`
    /// too, which another program may have: the driver then ends, and is started again.
    pub(crate) fn start_driver(
        mut command: Command,
        host: &str,
        flags: &[String],
    ) -> Result<Browser, String> {
        command.arg("--port=0");
        let mut starts_left = 5;
        let (driver, port) = loop {
            let driver = Running::start("chromedriver", &mut command)?;
            let port = driver.wait_for_line(Duration::from_secs(120), |line| {
                let (_, rest) = line.split_once("started successfully on port ")?;
                rest.trim_end_matches('.').parse::<u16>().ok()
            });
            starts_left -= 1;
            match port {
                Ok(port) => break (driver, port),
                Err(error) if starts_left == 0 || !error.contains(PORT_TAKEN) => return Err(error),
                Err(_) => {}
            }
        };
        let driver_url = format!("http://{host}:{port}");
        let usual = CHROMIUM_FLAGS.iter().map(|flag| (*flag).to_owned());
        let flags: Vec<String> = usual.chain(flags.iter().cloned()).collect();
        let options = json!({"binary": peers::chromium()?, "args": flags});
        let session = call(
            "POST",
            &format!("{driver_url}/session"),
            &json!({"capabilities": {"alwaysMatch": {
                "browserName": "chrome",
                "goog:chromeOptions": options,
            }}}),
        )?;
        let id = session["sessionId"]
            .as_str()
            .ok_or_else(|| format!("chromedriver gave no session: {session}"))?;
        Ok(Browser {
            session_url: format!("{driver_url}/session/{id}"),
            _driver: driver,
        })
    }

    /// Loads `url`, and waits for the page's load event.
    pub(crate) fn open(&self, url: &str) -> Result<(), String> {
        self.post("url", &json!({"url": url})).map(drop)
    }

    /// Runs `script` in every page that is loaded from now on, before the page's own scripts.
    pub(crate) fn run_in_every_page(&self, script: &str) -> Result<(), String> {
        let command = "Page.addScriptToEvaluateOnNewDocument";
        let command = json!({"cmd": command, "params": {"source": script}});
        self.post("goog/cdp/execute", &command).map(drop)
    }

    /// Has every request fail whose URL matches one of these patterns (`*` stands for any text), in the place
    /// of those named before.
    pub(crate) fn block(&self, patterns: &[&str]) -> Result<(), String> {
        for (command, parameters) in [
            ("Network.enable", json!({})),
            ("Network.setBlockedURLs", json!({"urls": patterns})),
        ] {
            let command = json!({"cmd": command, "params": parameters});
            self.post("goog/cdp/execute", &command)?;
        }
        Ok(())
    }

    /// Lets pages that are loaded from now on load from any server, whatever their policy says.
    pub(crate) fn bypass_policy(&self) -> Result<(), String> {
        let command = json!({"cmd": "Page.setBypassCSP", "params": {"enabled": true}});
        self.post("goog/cdp/execute", &command).map(drop)
    }

    /// Clicks the element of a CSS selector as a user does, who may thereby start a capture.
    pub(crate) fn click(&self, selector: &str) -> Result<(), String> {
        let wanted = json!({"using": "css selector", "value": selector});
        let element = self.post("element", &wanted)?;
        let id = element
            .as_object()
            .and_then(|it| it.values().next()?.as_str());
        let id = id.ok_or_else(|| format!("no element {selector}"))?;
        self.post(&format!("element/{id}/click"), &json!({}))
            .map(drop)
    }

    /// Gives the page the size of a window in CSS pixels, also sizes that no window can have.
    pub(crate) fn resize(&self, [width, height]: [u32; 2]) -> Result<(), String> {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1,
            "mobile": width < 600});
        let command = json!({"cmd": "Emulation.setDeviceMetricsOverride", "params": size});
        self.post("goog/cdp/execute", &command).map(drop)
    }

    /// Presses keys one after another, where the focus is. `\u{e004}` is Tab and `\u{e007}` Enter, as
    /// WebDriver has it.
    pub(crate) fn press(&self, keys: &str) -> Result<(), String> {
        let actions = keys.chars().flat_map(|key| {
            ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key.to_string()}))
        });
        let actions: Vec<Value> = actions.collect();
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": actions});
        self.post("actions", &json!({"actions": [keyboard]}))
            .map(drop)
    }

    /// Runs the body of a function in the page; returns its result.
    pub(crate) fn run(&self, script: &str) -> Result<Value, String> {
        self.post("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Runs `script` repeatedly until it returns something true.
    pub(crate) fn wait_until(&self, timeout: Duration, script: &str) -> Result<Value, String> {
        eventually(timeout, || match self.run(script)? {
            Value::Null | Value::Bool(false) => Err(format!("not yet: {script}")),
            value => Ok(value),
        })
        .map_err(|reason| format!("{reason}; the page knows: {}", self.state()))
    }

    /// Stores the window's content as `target/screenshots/NAME.png`.
    pub(crate) fn screenshot(&self, name: &str) -> Result<PathBuf, String> {
        let encoded = call(
            "GET",
            &format!("{}/screenshot", self.session_url),
            &Value::Null,
        )?;
        let encoded = encoded.as_str().unwrap_or_default();
        let image = STANDARD
            .decode(encoded)
            .map_err(|error| format!("the screenshot is no base64: {error}"))?;
        let folder = peers::target_directory().join("screenshots");
        let path = folder.join(format!("{name}.png"));
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&path, image))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    /// State that the player page reports, for failure messages.
    fn state(&self) -> String {
        match self.run("return JSON.stringify(window.glassline ?? document.body.innerText)") {
            Ok(value) => value
                .as_str()
                .unwrap_or_default()
                .chars()
                .take(2000)
                .collect(),
            Err(error) => error,
        }
    }

    fn post(&self, command: &str, body: &Value) -> Result<Value, String> {
        call("POST", &format!("{}/{command}", self.session_url), body)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Without this the browser would outlive its driver.
        let _ = call("DELETE", &self.session_url, &Value::Null);
    }
}

/// Sends one WebDriver command; returns the `value` of its answer.
fn call(method: &str, url: &str, body: &Value) -> Result<Value, String> {
    let text = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let headers = [("Content-Type", "application/json")];
    let answer = http::request(method, url, &headers, text)?;
    let value = answer.json()?["value"].take();
    if answer.status == 200 {
        Ok(value)
    } else {
        Err(format!("{method} {url}: {}", value["message"]))
    }
}
