//! A trial of a configuration: ports are opened, certificates are read, and sources are started,
//! all at the same time and for some seconds.

use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use glassline_hub::{Hub, State};
use tokio::sync::watch;
use url::Url;

use super::StartError;
use super::certificates::check_certificates;
use crate::addresses::{AdvertisedAddress, learn};
use crate::config::{Config, ConfiguredListener, PemFiles, Protocol, Tls};
use crate::ingest::{self, FrameCodes, Input, SourceSpec};
use crate::runtime::Supervisor;

/// Time that a camera or an authority has to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Interval at which sources are looked at.
const INTERVAL: Duration = Duration::from_millis(50);

/// The outcome of trying one part of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Key of the part, like `http.address` or `sources.cam`.
    pub key: String,
    /// What works, or what is wrong and what to do.
    pub outcome: Result<String, String>,
}

/// Tries everything that `config` names. Takes some ten seconds at most if a camera does not answer.
/// Needs a tokio runtime.
///
/// # Errors
/// Returns [`StartError`] if the system refuses threads.
pub async fn try_config(config: &Config) -> Result<Vec<Tried>, StartError> {
    let supervisor = Supervisor::start()?;
    let mut tried: Vec<Tried> = config.configured_listeners().iter().map(listen).collect();
    tried.extend(certificates(config));
    tried.extend(authority(config).await);
    tried.extend(advertised(config).await);
    if let Some(folder) = &config.rtsp.media_folder {
        let outcome = match std::fs::read_dir(folder) {
            Ok(_) => Ok(format!("{} can be read", folder.display())),
            Err(error) => Err(format!("cannot read {}: {error}", folder.display())),
        };
        tried.push(of("rtsp.media_folder", outcome));
    }
    let hub = Arc::new(Hub::new(config.limits.hub()));
    let sources: Vec<_> = config
        .specs()
        .into_iter()
        .map(|spec| tokio::spawn(source(spec, Arc::clone(&hub), Arc::clone(&supervisor))))
        .collect();
    for source in sources {
        match source.await {
            Ok(outcome) => tried.push(outcome),
            Err(error) => tried.push(of("sources", Err(error.to_string()))),
        }
    }
    Ok(tried)
}

fn of(key: impl Into<String>, outcome: Result<String, String>) -> Tried {
    Tried {
        key: key.into(),
        outcome,
    }
}

/// Opens the port, and closes it again.
fn listen(listener: &ConfiguredListener) -> Tried {
    let ConfiguredListener {
        key,
        protocol,
        address,
    } = *listener;
    let opened = match protocol {
        Protocol::Tcp => TcpListener::bind(address).map(drop),
        Protocol::Udp => UdpSocket::bind(address).map(drop),
    };
    let outcome = match opened {
        Ok(()) => Ok(format!("{protocol} {address} can be opened")),
        Err(error) => {
            let (kind, port) = match protocol {
                Protocol::Tcp => ("t", address.port()),
                Protocol::Udp => ("u", address.port()),
            };
            Err(format!(
                "cannot listen on {protocol} {address}: {error}; `ss -l{kind}np 'sport = :{port}'` \
                 names the program that holds the port, which may be a server with this configuration"
            ))
        }
    };
    of(key, outcome)
}

/// Reads the certificates, and looks at the calendar.
fn certificates(config: &Config) -> Vec<Tried> {
    if let Err(error) = check_certificates(config) {
        return vec![of("tls", Err(error.to_string()))];
    }
    let shared = match &config.tls {
        Some(Tls::Files(files)) => Some(files.clone()),
        _ => None,
    };
    let own = [config.rtsp.tls.files(), config.quic.files()];
    let own = own.into_iter().filter_map(Result::ok).flatten();
    shared
        .into_iter()
        .chain(own)
        .map(|files| dates(&files))
        .collect()
}

fn dates(files: &PemFiles) -> Tried {
    let outcome = files.load().map_err(|error| error.to_string());
    let outcome = outcome.and_then(|certificate| {
        let file = files.certificate.display();
        let Some(validity) = certificate.validity() else {
            return Ok(format!("{file} and its key fit"));
        };
        let now = SystemTime::now();
        let days = |span: Duration| span.as_secs() / 86_400;
        match (
            validity.not_after.duration_since(now),
            now.duration_since(validity.not_before),
        ) {
            (Ok(left), Ok(_)) => Ok(format!(
                "{file} and its key fit; clients accept them for {} more days",
                days(left)
            )),
            (Ok(_), Err(_)) => Err(format!(
                "{file}: clients do not accept the certificate yet; see whether this machine's clock is right"
            )),
            (Err(ago), _) => Err(format!(
                "{file}: the certificate expired {} days ago; renew the file",
                days(ago.duration())
            )),
        }
    });
    of(files.section, outcome)
}

/// Connects to the authority of `tls.acme`.
async fn authority(config: &Config) -> Option<Tried> {
    let Some(Tls::Acme(acme)) = &config.tls else {
        return None;
    };
    let url = Url::parse(&acme.directory).ok()?;
    let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
    let port = url.port_or_known_default()?;
    let connecting = tokio::net::TcpStream::connect((host.as_str(), port));
    let outcome = match tokio::time::timeout(PATIENCE, connecting).await {
        Ok(Ok(_)) => Ok(format!("{host} accepts connections")),
        Ok(Err(error)) => Err(format!("cannot connect to {host} port {port}: {error}")),
        Err(_) => Err(format!("{host} does not answer on TCP port {port}")),
    };
    Some(of("tls.acme.directory", outcome))
}

/// Asks for the names and the STUN servers of `media.advertise`.
async fn advertised(config: &Config) -> Vec<Tried> {
    let mut tried = Vec::new();
    for entry in &config.media.advertise {
        if matches!(entry, AdvertisedAddress::Ip(_)) {
            continue;
        }
        let outcome = match learn(entry).await {
            Ok(ips) => {
                let ips: Vec<_> = ips.iter().map(ToString::to_string).collect();
                Ok(format!("{entry} stands for {}", ips.join(" and ")))
            }
            Err(error) => Err(error.to_string()),
        };
        tried.push(of("media.advertise", outcome));
    }
    tried
}

/// Starts the source in a hub of its own, and waits until it is live or says why not.
async fn source(spec: SourceSpec, hub: Arc<Hub>, supervisor: Arc<Supervisor>) -> Tried {
    let key = format!("sources.{}", spec.name);
    let (name, text) = (spec.name.clone(), spec.input.to_string());
    if matches!(spec.input, Input::Publisher(_)) {
        return of(key, Ok("waits for a publisher".to_owned()));
    }
    let (stop, stopped) = watch::channel(false);
    let codes = FrameCodes::default();
    let started = ingest::spawn(&hub, vec![spec], &codes, &supervisor, stopped).await;
    let sources = match started {
        Ok(sources) => sources,
        Err(error) => return of(key, Err(error.to_string())),
    };
    // A source on demand comes, too.
    let demand = hub.stream(name.as_str()).map(|stream| stream.demand());
    let looking = async {
        loop {
            let state = hub.stream(name.as_str()).map(|stream| stream.state());
            match state {
                Some(State::Live { .. } | State::Ended { .. }) => {
                    return Ok(format!("{text} plays"));
                }
                Some(State::Down { detail }) => return Err(format!("{text}: {detail}")),
                _ => tokio::time::sleep(INTERVAL).await,
            }
        }
    };
    let outcome = tokio::time::timeout(PATIENCE, looking).await;
    let seconds = PATIENCE.as_secs();
    let outcome = outcome.unwrap_or_else(|_| {
        Err(format!("{text}: no media within {seconds} s; the address may be wrong, or a firewall drops packets"))
    });
    drop(demand);
    stop.send_replace(true);
    sources.join().await;
    of(key, outcome)
}
