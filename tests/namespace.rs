//! Network namespaces: a machine of one's own for a test, and a second one behind a cable.
//!
//! ```text
//! namespace of the test program       namespace of `Neighbor`
//!   198.51.100.1  test0 ─────── cable ─────── test1  198.51.100.2
//! ```
//!
//! A test runs itself again inside a namespace, where it may change routes, rules and interfaces.

use std::ffi::OsStr;
use std::process::Command;
use std::time::Duration;

use glassline_client::impairment::Impairment;
use glassline_lab::ip_path::IpPath;
use libtest_mimic::Failed;

use crate::peers;
use crate::process::{PATIENCE, Running};
use crate::webdriver::Browser;

/// Environment variable that marks the run inside the namespace.
const INSIDE: &str = "GLASSLINE_TEST_NAMESPACE";

/// Address of the test program's namespace, from those for documentation (RFC 5737).
pub(crate) const HERE: &str = "198.51.100.1";

/// Address of the neighbor.
pub(crate) const NEIGHBOR: &str = "198.51.100.2";

/// Interface of the test program's namespace at the cable.
pub(crate) const INTERFACE: &str = "test0";

/// Interface of the neighbor's namespace at the cable.
const FAR_INTERFACE: &str = "test1";

/// Runs `body`, the body of the test `name`, in a network namespace of its own, and passes on the figures
/// that it prints.
pub(crate) fn inside(
    name: &str,
    patience: Duration,
    body: impl FnOnce() -> Result<(), Failed>,
) -> Result<(), Failed> {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    let unshare = peers::namespace().ok_or("no right to make network namespaces")?;
    let program = std::env::current_exe()?;
    let mut command = Command::new("unshare");
    command.args(unshare).arg(program);
    let exactly = ["--exact", "--include-ignored", name];
    command.args(exactly).env(INSIDE, "1");
    let mut running = Running::start("namespace", command)?;
    let status = running.wait(patience)?;
    let printed = running.printed();
    if status.success() && printed.contains("1 passed") {
        let figures = printed.lines().filter(|line| line.starts_with("figure: "));
        figures.for_each(|line| println!("{line}"));
        Ok(())
    } else {
        Err(format!("in its namespace the test ended with {status}").into())
    }
}

/// Runs `ip` with the words of `line`.
pub(crate) fn ip(line: &str) -> Result<(), String> {
    finish(Command::new("ip").args(line.split(' ')), line)
}

fn finish(command: &mut Command, line: &str) -> Result<(), String> {
    let output = command.output();
    let output = output.map_err(|error| format!("{line}: {error}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    let is_done = output.status.success().then_some(());
    is_done.ok_or_else(|| format!("{line}: {error}"))
}

/// A second network namespace, joined to this one by a cable or by a path.
pub(crate) struct Neighbor {
    /// The process that keeps the namespace.
    keeper: Running,
    /// The path in place of a cable.
    path: Option<IpPath>,
}

impl Neighbor {
    /// Makes the namespace and the cable, with addresses on both ends.
    pub(crate) fn start() -> Result<Self, String> {
        let neighbor = Self::apart()?;
        let keeper = neighbor.keeper.id();
        ip(&format!(
            "link add {INTERFACE} type veth peer name {FAR_INTERFACE} netns {keeper}"
        ))?;
        neighbor.joined()
    }

    /// Makes the namespace at the other end of a path under these conditions, with addresses on both ends.
    pub(crate) fn behind(impairment: &Impairment) -> Result<Self, String> {
        let mut neighbor = Self::apart()?;
        let path = IpPath::start([INTERFACE, FAR_INTERFACE], impairment);
        neighbor.path = Some(path.map_err(|error| format!("a path: {error}"))?);
        let keeper = neighbor.keeper.id();
        ip(&format!("link set {FAR_INTERFACE} netns {keeper}"))?;
        neighbor.joined()
    }

    /// Makes the namespace alone.
    fn apart() -> Result<Self, String> {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", "echo ready; exec sleep 1200"]);
        let keeper = Running::start("neighbor", command)?;
        keeper.wait_for_line(PATIENCE, |line| (line == "ready").then_some(()))?;
        ip("link set lo up")?;
        Ok(Self { keeper, path: None })
    }

    /// Gives both ends their addresses.
    fn joined(self) -> Result<Self, String> {
        ip(&format!("address add {HERE}/24 dev {INTERFACE}"))?;
        ip(&format!("link set {INTERFACE} up"))?;
        for line in [
            "link set lo up",
            &format!("address add {NEIGHBOR}/24 dev {FAR_INTERFACE}"),
            &format!("link set {FAR_INTERFACE} up"),
            &format!("route add default via {HERE}"),
        ] {
            self.ip(line)?;
        }
        Ok(self)
    }

    /// Number of packets that the path has lost.
    pub(crate) fn lost(&self) -> u64 {
        self.path.as_ref().map_or(0, IpPath::lost)
    }

    /// Runs `ip` with the words of `line` in the neighbor's namespace.
    pub(crate) fn ip(&self, line: &str) -> Result<(), String> {
        finish(self.command("ip").args(line.split(' ')), line)
    }

    /// A command that runs `program` in the neighbor's namespace.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.keeper.id()));
        command.arg("--").arg(program);
        command
    }
}

/// Lets this namespace drop datagrams of UDP from the neighbor, as a firewall does: the ones to
/// `port`, or all of them.
pub(crate) fn drop_udp(port: Option<u16>) -> Result<(), String> {
    // Rules are asked in order; the one that leads to this machine's own addresses stands first
    // unless it is moved.
    ip("rule add pref 100 lookup local")?;
    // A second call finds it moved already.
    let _ = ip("rule del pref 0");
    let port = port.map_or_else(String::new, |port| format!(" dport {port}"));
    ip(&format!(
        "rule add pref 10 iif {INTERFACE} ipproto udp{port} blackhole"
    ))
}

/// Starts a browser in the neighbor's namespace.
pub(crate) fn browser_of(neighbor: &Neighbor) -> Result<Browser, String> {
    let mut driver = neighbor.command(peers::chromedriver()?);
    // The tests are not on the driver's own machine.
    driver.args(["--allowed-ips=", "--allowed-origins=*"]);
    Browser::start_driver(driver, NEIGHBOR, &[])
}
