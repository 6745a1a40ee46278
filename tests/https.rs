//! The pages in Chromium by HTTPS with a private authority, whose root the browser trusts as a user
//! would install it, and below the base path of a proxy.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use libtest_mimic::Failed;

use crate::browser::PATIENCE;
use crate::http;
use crate::peers::{Peer, Test, target_directory};
use crate::ports::free_ports;
use crate::process::{Running, output_folder};
use crate::server::Server;
use crate::webdriver::Browser;

const NEEDS: &[Peer] = &[Peer::Chromium, Peer::Certutil];

pub(crate) const TESTS: &[Test] = &[
    Test::of(&chromium_accepts_a_trusted_private_authority_and_gives_the_microphone).needs(NEEDS),
    Test::of(&pages_below_a_base_path_request_nothing_outside_of_the_path).needs(&[Peer::Chromium]),
];

/// A user's home folder, with the database of certificates that the browser trusts.
struct BrowserUser(PathBuf);

impl BrowserUser {
    /// Makes the folder of a user who trusts the authority with this root certificate, in PEM.
    fn trusting(root: &str) -> Result<Self, String> {
        let folder = target_directory().join(format!("https-home-{}", std::process::id()));
        let database = folder.join(".pki/nssdb");
        fs::create_dir_all(&database).map_err(|error| error.to_string())?;
        let pem = folder.join("root.pem");
        fs::write(&pem, root).map_err(|error| error.to_string())?;
        let database = format!("sql:{}", database.display());
        let certutil = |arguments: &[&str]| {
            let mut command = Command::new("certutil");
            command.args(["-d", &database]).args(arguments);
            let mut running = Running::start("certutil", command)?;
            let status = running.wait(PATIENCE)?;
            let printed = running.printed();
            status
                .success()
                .then_some(())
                .ok_or_else(|| format!("certutil {arguments:?}: {status}: {printed}"))
        };
        certutil(&["-N", "--empty-password"])?;
        let pem = pem.display().to_string();
        certutil(&["-A", "-t", "C,,", "-n", "glassline", "-i", &pem])?;
        Ok(Self(folder))
    }
}

impl Drop for BrowserUser {
    fn drop(&mut self) {
        // The folder is below Cargo's target folder in any case.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn chromium_accepts_a_trusted_private_authority_and_gives_the_microphone() -> Result<(), Failed> {
    let [https] = free_ports()?;
    let state = output_folder().join(format!("https-state-{}", std::process::id()));
    let yaml = format!(
        "tls: lan\nhttps: {{address: '127.0.0.1:{https}'}}\nstate_folder: {}\n",
        state.display()
    );
    let server = Server::configured(&yaml, &["demo=demo"])?;
    let page = format!("https://localhost:{https}/demo");
    let opens = |browser: &Browser| -> Result<f64, String> {
        browser.open(&page)?;
        browser.wait_until(PATIENCE, "return glassline.state === 'live'")?;
        let first = browser.run("return glassline.firstFrameMs")?.as_f64();
        first.ok_or_else(|| "no first frame".to_owned())
    };

    // A browser that does not trust the root shows a warning in place of the page.
    let stranger = Browser::start()?;
    // Some versions of the driver return an error here.
    let _ = stranger.open(&page);
    let shown = stranger.run("return document.documentURI")?;
    if shown
        .as_str()
        .is_none_or(|shown| shown.starts_with("https:"))
    {
        return Err(
            format!("a browser took a certificate of an unknown authority: {shown}").into(),
        );
    }
    drop(stranger);

    let root = http::get(&server.url("/trust/root.pem"))?;
    let user = BrowserUser::trusting(&root.body)?;
    let browser = Browser::start_in(&user.0)?;
    let fresh = opens(&browser)?;
    let is_secure = browser.run("return isSecureContext && Boolean(navigator.mediaDevices)")?;
    if is_secure != true {
        return Err("the page may not use the microphone".into());
    }
    let again = opens(&browser)?;
    println!("first frame over HTTPS {fresh:.0} ms, reloaded {again:.0} ms");
    browser.open(&format!("https://127.0.0.1:{https}/trust"))?;
    browser.screenshot("trust")?;
    Ok(())
}

/// Opens each page below a base path, and looks at the address of everything that it requested and
/// links to.
fn pages_below_a_base_path_request_nothing_outside_of_the_path() -> Result<(), Failed> {
    let server = Server::configured("http: {base_path: /media}\n", &["demo=demo"])?;
    let base = server.url("/media");
    let browser = Browser::start_with(&["--use-fake-device-for-media-stream".to_owned()])?;
    // The player forgets the requests of its clock.
    browser.run_in_every_page("performance.clearResourceTimings = () => {}")?;
    for (path, action, done) in [
        ("/", "", "return document.body.innerText.includes('demo')"),
        (
            "/demo",
            "",
            "return glassline.state === 'live' && glassline.framesDecoded > 0",
        ),
        ("/call", "", "return window.call.state === 'idle'"),
        (
            "/studio/publish",
            "document.querySelector('input[name=source][value=test]').click(); \
             document.getElementById('size').value = '640x360'; \
             document.getElementById('rate').value = '15'; \
             document.getElementById('start').click()",
            "return publishing.state === 'live' && publishing.answer?.state === 'live'",
        ),
        (
            "/call/room",
            "document.getElementById('dial').click()",
            "return window.call.state === 'live'",
        ),
    ] {
        browser.open(&format!("{base}{path}"))?;
        browser.run(action)?;
        browser.wait_until(PATIENCE, done)?;
        let found = browser.run(
            "const base = `${location.origin}/media/`; \
             const requests = performance.getEntriesByType('resource').map((it) => it.name); \
             const links = [...document.querySelectorAll('[href]')].map((it) => it.href); \
             const outside = [...requests, ...links].filter((it) => !it.startsWith(base)); \
             return [requests.length, outside]",
        )?;
        let count = found[0].as_u64().unwrap_or_default();
        if count < 3 || found[1] != serde_json::json!([]) {
            let fault = format!("{path} made {count} requests; outside: {}", found[1]);
            return Err(fault.into());
        }
        browser.screenshot(&format!("base-path{}", path.replace('/', "-")))?;
    }
    Ok(())
}
