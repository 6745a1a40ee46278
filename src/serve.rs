//! `glassline serve` and `glassline demo`: run a server until a signal ends it.

use std::fmt::Write as _;
#[cfg(unix)]
use std::io::IsTerminal;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use glassline_access::tls::LanNames;
use glassline_config::Config;
use glassline_server::{Reloading, Server};

use crate::exit::{Failure, INTERRUPTED};
use crate::output;
use crate::service_manager::ServiceManager;

/// Time for viewers to be told of the end, and for open requests to finish.
const GRACE: Duration = Duration::from_secs(5);

/// Time after which a reload counts as done for the service manager, though a disk may still hold it
/// up.
const RELOAD_MAX: Duration = Duration::from_secs(10);

/// Runs a server with `config`. SIGTERM or Ctrl-C ends it, SIGHUP reads the configuration and what it
/// names again. The service manager that started the process, if one did, is told of all that.
pub(crate) fn run(config: Config, reloading: Reloading, quiet: bool) -> Result<ExitCode, Failure> {
    glassline_server::return_large_blocks();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::runtime(format_args!("cannot start threads: {error}")))?;
    let code = runtime.block_on(serve(config, reloading, quiet));
    // Tasks that are still running after the grace period must not delay the exit.
    runtime.shutdown_background();
    code
}

async fn serve(config: Config, reloading: Reloading, quiet: bool) -> Result<ExitCode, Failure> {
    // First of all, so that a signal during the start is handled, too.
    let (mut signals, mut hangup) = (Signals::new()?, Hangup::new()?);
    let manager = ServiceManager::of_environment()?;
    // The soft limit is often 1,024 for the sake of old programs that call `select`.
    if let Err(error) = glassline_server::raise_descriptor_limit() {
        tracing::warn!(%error, "cannot raise the limit of open files (RLIMIT_NOFILE)");
    }
    let specs = config.specs();
    let pulls =
        |cluster: &glassline_config::Cluster| !cluster.origins.is_empty() || cluster.nats.is_some();
    let has_files = config.rtsp.media_folder.is_some();
    if specs.is_empty() && !has_files && !config.cluster.as_ref().is_some_and(pulls) {
        tracing::info!(
            "no sources yet: publish one (OBS, a browser), add a camera in the dashboard, or start with --source NAME=…"
        );
    }
    let page = match specs.as_slice() {
        [only] => only.name.to_string(),
        _ => String::new(),
    };
    let guarded = config.clone();
    let starting = Server::start_with(config, specs, reloading);
    let server = tokio::select! {
        started = starting => started.map_err(Failure::runtime)?,
        // A file on a disk or share that does not answer must not hold the process.
        code = signals.next() => return Ok(ExitCode::from(code)),
    };
    if let Some(exposure) = guarded.exposure(server.listeners()) {
        tracing::warn!("{exposure}");
    }
    if let Some(useless) = guarded.useless_admin() {
        tracing::warn!("{useless}");
    }
    if !quiet {
        let pin = server.quic_fingerprint().map(|pin| pin.to_string());
        let outside = addresses_for_others();
        let mut text = announcement(server.listeners(), pin.as_deref(), &page, &outside);
        if let Some((root, names)) = server.lan() {
            text += &invitation(server.listeners(), &names, &root.fingerprint().to_string());
        }
        output::print(&text)?;
    }
    let status = status(server.listeners());
    manager.ready(&status);
    let mut watchdog = Watchdog::new(&manager);
    let mut is_draining = false;
    let failure = loop {
        tokio::select! {
            code = signals.next() => match is_draining {
                true => return Ok(ExitCode::from(code)),
                // Ctrl-C comes from a person who waits.
                false if code != INTERRUPTED => match server.drain() {
                    Some(within) => {
                        manager.draining(within + GRACE);
                        is_draining = true;
                    }
                    None => break None,
                },
                false => break None,
            },
            is_over = server.drained(), if is_draining => match is_over {
                true => break None,
                false => {
                    manager.ready(&status);
                    is_draining = false;
                }
            },
            reason = server.failed() => break Some(reason),
            () = watchdog.next() => watchdog.tell(server.stuck()),
            is_terminal_gone = hangup.next() => match is_terminal_gone {
                true => break None,
                false => {
                    manager.reloading();
                    server.reload();
                    let reload = tokio::time::timeout(RELOAD_MAX, server.reloaded());
                    tokio::select! {
                        _ = reload => manager.ready(&status),
                        _ = signals.next() => break None,
                    }
                }
            },
        }
    };
    manager.stopping();
    tracing::info!("shutting down: viewers are told; a second signal stops at once");
    tokio::select! {
        () = server.shutdown(GRACE) => {}
        code = signals.next() => return Ok(ExitCode::from(code)),
    }
    match failure {
        None => Ok(ExitCode::SUCCESS),
        Some(reason) => Err(Failure::runtime(reason)),
    }
}

/// The signs of life for the service manager.
struct Watchdog<'a> {
    manager: &'a ServiceManager,
    /// `None` if nobody watches.
    ticks: Option<tokio::time::Interval>,
}

impl<'a> Watchdog<'a> {
    fn new(manager: &'a ServiceManager) -> Self {
        let ticks = manager.watchdog_interval().map(tokio::time::interval);
        Self { manager, ticks }
    }

    /// Waits until a sign of life is due.
    async fn next(&mut self) {
        match &mut self.ticks {
            Some(ticks) => drop(ticks.tick().await),
            None => std::future::pending().await,
        }
    }

    /// Gives the sign of life, unless a thread of the server is stuck.
    fn tell(&self, stuck: Option<String>) {
        match stuck {
            None => self.manager.alive(),
            Some(reason) => self.manager.stuck(&reason),
        }
    }
}

/// Line for people in the status of the service.
fn status(listeners: &[(&'static str, SocketAddr)]) -> String {
    let listeners = listeners.iter();
    let listeners: Vec<String> = listeners.map(|(name, at)| format!("{name} {at}")).collect();
    format!("serving: {}", listeners.join(", "))
}

/// Most addresses of this machine that are printed for other devices.
const ADDRESSES_MAX: usize = 4;

/// Returns the addresses of this machine that other devices may reach, IPv4 first. Bridges of containers
/// are left out: nobody else reaches them.
fn addresses_for_others() -> Vec<IpAddr> {
    let interfaces = glassline_net::interface_addresses().unwrap_or_default();
    let is_bridge = |name: &str| {
        ["docker", "br-", "veth", "cni", "virbr"]
            .iter()
            .any(|it| name.starts_with(it))
    };
    let outside = interfaces
        .into_iter()
        .filter(|it| !is_bridge(&it.interface));
    let mut ips: Vec<IpAddr> = outside.map(|it| it.ip).collect();
    ips.retain(|ip| !ip.is_loopback() && !is_link_local(*ip));
    ips.sort_by_key(IpAddr::is_ipv6);
    ips.truncate(ADDRESSES_MAX);
    ips
}

const fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// Text on stdout after the start: a line for each listener, and URLs to open. `outside`: addresses of
/// this machine for other devices.
fn announcement(
    listeners: &[(&'static str, SocketAddr)],
    pin: Option<&str>,
    page: &str,
    outside: &[IpAddr],
) -> String {
    let mut out = String::new();
    let mut line = |name: &str, place: &str, what: &str| {
        let text = format!("{name:<6} {place:<28} {what}");
        writeln!(out, "{}", text.trim_end()).expect("a string takes everything");
    };
    for (name, address) in listeners {
        let (scheme, what) = match *name {
            "http" => ("http://", "player pages, WHEP, API"),
            "https" => ("https://", "the same inside TLS"),
            "media" => ("udp ", "WebRTC media"),
            "media-tcp" => ("tcp ", "the same, where UDP is blocked"),
            "rtsp" => ("rtsp://", "streams for players and recorders"),
            "rtsps" => ("rtsps://", "the same streams inside TLS"),
            "quic" => ("moq://", "streams over QUIC (MoQ), to publish and to read"),
            "admin" => ("http://", "dashboard, metrics, health"),
            "admin-https" => ("https://", "dashboard, metrics, health inside TLS"),
            _ => ("", ""),
        };
        let name = name.strip_suffix("-tcp").unwrap_or(name);
        line(name, &format!("{scheme}{address}"), what);
    }
    if let Some(pin) = pin {
        // The fragment of a moq:// URL for a certificate that no authority signed.
        line("pin", &format!("#sha256={pin}"), "");
    }
    if let Some((_, address)) = listeners.iter().find(|(name, _)| *name == "http") {
        line("watch", &url(*address, page), "");
        let others = outside.iter().filter(|ip| listens_to(*address, **ip));
        for ip in others {
            let at = SocketAddr::new(*ip, address.port());
            line("", &url(at, page), "from other devices");
        }
    }
    out
}

/// Returns whether a listener at `address` is reached at `ip`.
fn listens_to(address: SocketAddr, ip: IpAddr) -> bool {
    address.ip().is_unspecified() && (address.is_ipv6() || ip.is_ipv4())
}

/// Text on stdout for a server with a private authority: the page that other devices open to trust
/// it, the root certificate's SHA-256 to compare there, and the address to open afterwards.
fn invitation(listeners: &[(&'static str, SocketAddr)], names: &LanNames, sha256: &str) -> String {
    let address = |name: &str| {
        let (_, address) = listeners.iter().find(|(it, _)| *it == name)?;
        let host = match address.ip() {
            ip if ip.is_unspecified() => names.reachable_host()?,
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        Some(format!("{host}:{}", address.port()))
    };
    let (Some(http), Some(https)) = (address("http"), address("https")) else {
        return String::new();
    };
    format!(
        "trust  http://{http}/trust  once on each device, then https://{https}/\n\
         root   SHA-256 {sha256}\n"
    )
}

/// A URL that a browser on this machine can open.
fn url(address: SocketAddr, page: &str) -> String {
    let ip: IpAddr = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => [127, 0, 0, 1].into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
    };
    format!("http://{}/{page}", SocketAddr::new(ip, address.port()))
}

/// Signals that end the program: SIGINT and SIGTERM. Each one yields the exit code for the case
/// that the program stops at once.
#[cfg(unix)]
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub(crate) fn new() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| {
            let failed = |error| format!("cannot listen to signals: {error}");
            signal(kind).map_err(failed).map_err(Failure::Runtime)
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    pub(crate) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => INTERRUPTED,
            // The viewers were not told of the end, so this counts as a failure.
            _ = self.terminate.recv() => 1,
        }
    }
}

/// SIGHUP: asks a service to read its files again, or says that the program's terminal was
/// closed.
#[cfg(unix)]
struct Hangup {
    signal: tokio::signal::unix::Signal,
    has_terminal: bool,
}

#[cfg(unix)]
impl Hangup {
    fn new() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let failed = |error| format!("cannot listen to signals: {error}");
        let signal = signal(SignalKind::hangup()).map_err(failed);
        Ok(Self {
            signal: signal.map_err(Failure::Runtime)?,
            has_terminal: std::io::stdin().is_terminal(),
        })
    }

    /// Waits for the next SIGHUP; returns whether the terminal is gone.
    async fn next(&mut self) -> bool {
        if self.signal.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
        self.has_terminal && !std::io::stdin().is_terminal()
    }
}

#[cfg(not(unix))]
struct Hangup;

#[cfg(not(unix))]
impl Hangup {
    fn new() -> Result<Self, Failure> {
        Ok(Self)
    }

    async fn next(&mut self) -> bool {
        std::future::pending().await
    }
}

#[cfg(not(unix))]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn new() -> Result<Self, Failure> {
        Ok(Self)
    }

    pub(crate) async fn next(&mut self) -> u8 {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        INTERRUPTED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_listener_has_a_line_and_the_url_is_the_last() {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let listeners = [
            ("http", at(8889)),
            ("media", at(8189)),
            ("media-tcp", at(8189)),
            ("admin", at(9997)),
        ];
        let expected = "\
http   http://127.0.0.1:8889        player pages, WHEP, API
media  udp 127.0.0.1:8189           WebRTC media
media  tcp 127.0.0.1:8189           the same, where UDP is blocked
admin  http://127.0.0.1:9997        dashboard, metrics, health
watch  http://127.0.0.1:8889/demo
";
        let outside = [[192, 0, 2, 7].into()];
        assert_eq!(announcement(&listeners, None, "demo", &outside), expected);
        let pinned = announcement(&listeners, Some("ab12"), "demo", &[]);
        assert!(pinned.contains("\npin    #sha256=ab12\nwatch"), "{pinned}");
    }

    #[test]
    fn other_devices_have_urls_if_the_server_listens_to_them() {
        let outside: Vec<IpAddr> = ["192.0.2.7", "2001:db8::7"]
            .map(|it| it.parse().expect("an address"))
            .into();
        let at = |text: &str| {
            let listeners = [("http", text.parse().expect("an address"))];
            announcement(&listeners, None, "demo", &outside)
        };
        let (v4, v6) = (
            "\n       http://192.0.2.7:8889/demo   from other devices\n",
            "\n       http://[2001:db8::7]:8889/demo from other devices\n",
        );
        let everywhere = at("[::]:8889");
        assert!(
            everywhere.contains(v4) && everywhere.contains(v6),
            "{everywhere}"
        );
        let of_v4 = at("0.0.0.0:8889");
        assert!(of_v4.contains(v4) && !of_v4.contains("db8"), "{of_v4}");
        assert!(!at("127.0.0.1:8889").contains("other devices"));
    }

    #[test]
    fn the_url_can_be_clicked_wherever_we_listen() {
        let at = |text: &str| url(text.parse().expect("an address"), "demo");
        assert_eq!(at("0.0.0.0:8889"), "http://127.0.0.1:8889/demo");
        assert_eq!(at("192.0.2.1:80"), "http://192.0.2.1:80/demo");
        assert_eq!(at("[::]:8889"), "http://[::1]:8889/demo");
    }
}
