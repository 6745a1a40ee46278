//! A configuration on this machine: what it names, and its listeners, through which a stream is
//! published and played.
//!
//! ```text
//! a server answers at the admin port ── yes ─► its listeners
//!                                    └─ no ──► listeners of this process, for the time of the check
//! ```

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use glassline_client::probe;
use glassline_client::probe::http::{Ask, exchange};
use glassline_client::trust::Trust;
use glassline_config::Config;
use glassline_server::Tried;
use url::Url;

use super::addresses::{self, Machine};
use super::finding::Finding;
use super::group::{Group, blocking};
use super::progress::Progress;
use super::round_trip::reachable;
use super::{certificates, clock, disk, kernel, ports, round_trip, stream, trial};

/// Time that a server of this machine has to say that it is there.
const GREETING: Duration = Duration::from_secs(1);

/// Time that a source has to be live.
const SOURCE: Duration = Duration::from_secs(7);

/// Examines `config` on this machine; `ntp` names a server of time.
pub(super) async fn examine(
    config: Config,
    ntp: Option<String>,
    progress: &Arc<Progress>,
) -> Vec<Finding> {
    let config = Arc::new(config);
    let running = {
        let admin = reachable(config.admin.address);
        blocking(move || version(admin)).await.flatten()
    };
    let is_running = running.is_some();
    let mut findings = vec![state(running.as_deref(), &config)];
    findings.extend(admin(&config));
    // Ports are tried before listeners of this process hold them.
    let (found, taken) = {
        let config = Arc::clone(&config);
        let tried = blocking(move || ports::check(&config, is_running)).await;
        tried.unwrap_or_default()
    };
    findings.extend(found);
    let mut group = Group::new(progress);
    let of = || Arc::clone(&config);
    let it = of();
    group.add_blocking("certificates", move || certificates::of_files(&it));
    let it = of();
    group.add("authority", async move {
        let tried = glassline_server::try_authority(&it).await;
        let why = "certificates cannot be obtained or renewed";
        let finding = tried.map(|tried| trial::finding("authority", &tried, why));
        finding.into_iter().collect()
    });
    let it = of();
    group.add_blocking("names", move || names(&it));
    let it = of();
    group.add("addresses", async move {
        let learned = glassline_server::advertised_ips(&it).await;
        let learned = learned.into_iter();
        let learned: Vec<_> = learned
            .map(|(entry, ips)| (entry.to_string(), ips))
            .collect();
        addresses::of_config(&it, &learned, &Machine::here())
    });
    let it = of();
    group.add_blocking("kernel", move || kernel::check(&it));
    group.add_blocking("clock", move || clock::check(ntp.as_deref()));
    let it = of();
    group.add_blocking("disk", move || folders(&it));
    let it = of();
    group.add("sources", async move { sources(it, is_running).await });
    let it = of();
    group.add("media", async move {
        round_trip::check(&it, is_running, &taken).await
    });
    findings.extend(group.run().await);
    findings
}

/// Returns what `config check --try` tried, where ports that a running server of this configuration
/// holds are in order.
pub(crate) fn settled(config: &Config, mut tried: Vec<Tried>) -> Vec<Tried> {
    let has_fault = tried.iter().any(|it| it.outcome.is_err());
    if has_fault && version(reachable(config.admin.address)).is_some() {
        ports::settle(config, &mut tried);
    }
    tried
}

fn state(running: Option<&str>, config: &Config) -> Finding {
    let (check, subject) = ("server", config.admin.address.to_string());
    match running {
        Some(version) => Finding::ok(check, subject, format!("glassline {version} runs here")),
        None => Finding::ok(
            check,
            subject,
            "no server runs with this configuration: its listeners are opened for the check",
        ),
    }
}

/// Says that other machines cannot use the admin port, although it listens to them.
fn admin(config: &Config) -> Option<Finding> {
    let said = config.useless_admin()?;
    let subject = config.admin.address.to_string();
    Some(
        Finding::warning("admin", subject, said)
            .why("the dashboard, the API and the metrics are refused to them")
            .change("auth: {tokens: [{name: ann, role: admin, token: …}]}"),
    )
}

/// The version of the server at an admin port; words for one that tells it to operators alone.
fn version(admin: SocketAddr) -> Option<String> {
    let url = Url::parse(&format!("http://{admin}/api/v1/server")).ok()?;
    let token = super::admin_token();
    let ask = Ask {
        method: "GET",
        body: None,
        token: token.as_deref(),
        headers: &[],
        trust: Trust::System,
        patience: GREETING,
    };
    let answer = exchange(&url, &ask).ok()?;
    if answer.status == 401 {
        return Some("(GLASSLINE_ADMIN_TOKEN would let it tell its version)".to_owned());
    }
    let told: serde_json::Value = serde_json::from_str(&answer.body).ok()?;
    told["version"].as_str().map(str::to_owned)
}

/// Resolves the names of `http.hosts`.
fn names(config: &Config) -> Vec<Finding> {
    let (check, port) = ("names", config.http.address.port());
    let hosts = config.http.hosts.iter();
    hosts
        .map(|host| {
            let host = host.to_string();
            match probe::resolve(&host, port) {
                Ok(found) => {
                    let found: Vec<_> = found.iter().map(|it| it.ip().to_string()).collect();
                    Finding::ok(check, host, format!("is {}", found.join(", ")))
                }
                Err(error) => Finding::failure(check, &host, format!("has no address: {error}"))
                    .why("browsers do not find the server under this name")
                    .change(format!(
                        "add an A or AAAA record for {host}, or remove it from `http.hosts`"
                    )),
            }
        })
        .collect()
}

fn folders(config: &Config) -> Vec<Finding> {
    let tried = glassline_server::try_folders(config);
    let tried = tried.iter();
    let tried = tried.map(|tried| trial::finding("disk", tried, "its files cannot be played"));
    tried.chain(disk::check(config)).collect()
}

/// Starts the sources, or asks the server that runs for their states: a camera may refuse a second
/// client.
async fn sources(config: Arc<Config>, is_running: bool) -> Vec<Finding> {
    if is_running {
        return blocking(move || running_sources(&config))
            .await
            .unwrap_or_default();
    }
    match glassline_server::try_sources(&config, SOURCE).await {
        Ok(tried) => tried
            .iter()
            .map(|tried| trial::finding("sources", tried, "viewers wait for its first picture"))
            .collect(),
        Err(error) => vec![Finding::failure("sources", "threads", error.to_string())],
    }
}

fn running_sources(config: &Config) -> Vec<Finding> {
    let admin = reachable(config.admin.address);
    let base = Url::parse(&format!("http://{admin}/")).ok();
    let names = config.sources.keys();
    names
        .zip(base.iter().cycle())
        .flat_map(|(name, base)| stream::source(base, name.as_str()))
        .collect()
}
