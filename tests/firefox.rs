//! The pages in Firefox.
//!
//! Firefox sends nothing to an address of the loopback interface unless it has candidates there,
//! and gives pages none. The tests therefore run in a network namespace with another interface:
//! the test program runs itself again there.

use std::process::Command;
use std::time::Duration;

use libtest_mimic::Failed;

use crate::browser::ensure;
use crate::marionette::Firefox;
use crate::peers::{Peer, Test, namespace};
use crate::process::Running;
use crate::server::Server;

pub(crate) const TESTS: &[Test] = &[Test {
    name: "firefox::publishes_and_watches_by_the_pages",
    needs: &[Peer::Firefox],
    run: || in_a_namespace("publishes_and_watches_by_the_pages", publishes_and_watches),
}];

/// Environment variable that marks the run inside the namespace.
const INSIDE: &str = "GLASSLINE_TEST_NAMESPACE";

/// Address of the server inside the namespace, from those for documentation (RFC 5737).
const ADDRESS: &str = "198.51.100.1";

/// Long, for a browser that encodes and decodes on a busy machine.
const LONG: Duration = Duration::from_secs(240);

fn in_a_namespace(name: &str, body: fn() -> Result<(), Failed>) -> Result<(), Failed> {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    let unshare = namespace().ok_or("no right to make network namespaces")?;
    let program = std::env::current_exe()?;
    let mut command = Command::new("unshare");
    command.args(unshare).arg(program);
    command.args(["--exact", &format!("firefox::{name}")]);
    command.env(INSIDE, "1");
    let mut inside = Running::start("namespace", command)?;
    let status = inside.wait(3 * LONG)?;
    let printed = inside.printed();
    if status.success() && printed.contains("1 passed") {
        Ok(())
    } else {
        Err(printed.into())
    }
}

/// Makes an interface besides loopback, and the route by which Firefox finds its own address.
fn make_interface() -> Result<(), Failed> {
    for line in [
        "link set lo up",
        "link add media0 type veth peer name media1",
        "address add 198.51.100.1/24 dev media0",
        "link set media0 up",
        "link set media1 up",
        "route add default via 198.51.100.2 dev media0",
    ] {
        let output = Command::new("ip").args(line.split(' ')).output()?;
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            return Err(format!("ip {line}: {error}").into());
        }
    }
    Ok(())
}

fn publishes_and_watches() -> Result<(), Failed> {
    make_interface()?;
    let server = Server::configured(&format!("media: {{address: '{ADDRESS}:0'}}"), &[])?;
    let browser = Firefox::start()?;
    browser.open(&server.url("/studio/publish"))?;
    browser.wait_until(LONG, "return window.publishing?.state === 'idle'")?;
    browser.run(
        "document.querySelector('input[name=source][value=test]').click();
         document.getElementById('size').value = '640x360';
         document.getElementById('rate').value = '15';
         document.getElementById('bitrate').value = '0.5';
         document.getElementById('start').click()",
    )?;
    let arrives = "return publishing.state === 'live' && publishing.arrives?.fps > 0";
    browser.wait_until(LONG, arrives)?;
    let tracks = server.stream("studio")?["tracks"].clone();
    ensure(tracks[0]["codec"] == "VP8", "video", &tracks)?;
    ensure(tracks[1]["codec"] == "opus", "the tone", &tracks)?;
    browser.new_window()?;
    browser.open(&server.url("/studio"))?;
    let plays = "return glassline.state === 'live' && glassline.framesDecoded > 20";
    browser.wait_until(LONG, plays)?;
    Ok(())
}
