//! A trial of a configuration: ports are opened, certificates are read, and sources are started,
//! all at the same time and for some seconds.

use std::fmt;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use glassline_access::auth::{self, TRIED_STREAM};
use glassline_config::{
    AdvertisedAddress, Cluster, Config, ConfiguredListener, PemFiles, Protocol, Tls,
};
use glassline_hub::Hub;
use glassline_ingest::{self as ingest, SourceSpec};
use glassline_latency::FrameCodes;
use glassline_runtime::Supervisor;
use url::Url;

use super::StartError;
use super::certificates::check_certificates;
use crate::addresses::learn;

/// Time that a camera or an authority has to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The outcome of trying one part of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Key of the part, like `http.address` or `sources.cam`.
    pub key: String,
    /// The success in words, or the fault and its remedy.
    pub outcome: Result<String, Fault>,
}

/// A part of a configuration that does not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Fault in plain words, without its remedy.
    pub wrong: String,
    /// The remedy; empty if the text of the fault says so.
    pub remedy: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.wrong)?;
        match self.remedy.as_str() {
            "" => Ok(()),
            remedy => write!(f, "; {remedy}"),
        }
    }
}

impl From<String> for Fault {
    fn from(wrong: String) -> Self {
        Self {
            wrong,
            remedy: String::new(),
        }
    }
}

/// Tries everything that `config` names. Takes some ten seconds at most if a camera does not answer.
/// Needs a tokio runtime.
///
/// # Errors
/// Returns [`StartError`] if the system refuses threads.
pub async fn try_config(config: &Config) -> Result<Vec<Tried>, StartError> {
    let mut tried = try_listeners(config);
    tried.extend(try_certificates(config));
    tried.extend(try_authority(config).await);
    tried.extend(try_advertised(config).await);
    tried.extend(try_nats(config).await);
    tried.extend(try_webhook(config).await);
    tried.extend(try_folders(config));
    tried.extend(try_sources(config, PATIENCE).await?);
    Ok(tried)
}

/// Opens each port, and closes it again.
pub fn try_listeners(config: &Config) -> Vec<Tried> {
    config.configured_listeners().iter().map(listen).collect()
}

/// Reads the folders that the configuration names.
pub fn try_folders(config: &Config) -> Vec<Tried> {
    let folder = config.rtsp.media_folder.iter().map(|folder| {
        let outcome = match std::fs::read_dir(folder) {
            Ok(_) => Ok(format!("{} can be read", folder.display())),
            Err(error) => Err(format!("cannot read {}: {error}", folder.display()).into()),
        };
        of("rtsp.media_folder", outcome)
    });
    folder.collect()
}

/// Starts all sources at the same time, and waits at most `patience` until each is live or says why
/// not. Needs a tokio runtime.
///
/// # Errors
/// Returns [`StartError`] if the system refuses threads.
pub async fn try_sources(config: &Config, patience: Duration) -> Result<Vec<Tried>, StartError> {
    if config.sources.is_empty() {
        return Ok(Vec::new());
    }
    let surroundings = ingest::Surroundings {
        codes: FrameCodes::default(),
        supervisor: Supervisor::start()?,
        udp_ports: config.rtsp.camera_udp_ports,
    };
    let mut tried = Vec::new();
    let hub = Arc::new(Hub::new(config.limits.hub()));
    let sources: Vec<_> = config
        .specs()
        .into_iter()
        .map(|spec| {
            let (hub, surroundings) = (Arc::clone(&hub), surroundings.clone());
            tokio::spawn(source(spec, hub, surroundings, patience))
        })
        .collect();
    for source in sources {
        match source.await {
            Ok(outcome) => tried.push(outcome),
            Err(error) => tried.push(of("sources", Err(error.to_string().into()))),
        }
    }
    Ok(tried)
}

fn of(key: impl Into<String>, outcome: Result<String, Fault>) -> Tried {
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
            Err(Fault {
                wrong: format!("cannot listen on {protocol} {address}: {error}"),
                remedy: format!(
                    "`ss -l{kind}np 'sport = :{port}'` names the program that holds the port, which \
                     may be a server with this configuration"
                ),
            })
        }
    };
    of(key, outcome)
}

/// Reads the certificate files, and looks at the calendar.
pub fn try_certificates(config: &Config) -> Vec<Tried> {
    if let Err(error) = check_certificates(config) {
        return vec![of("tls", Err(error.to_string().into()))];
    }
    config.certificate_files().iter().map(dates).collect()
}

fn dates(files: &PemFiles) -> Tried {
    let outcome = files.load().map_err(|error| error.to_string().into());
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
            (Ok(_), Err(_)) => Err(Fault {
                wrong: format!("{file}: clients do not accept the certificate yet"),
                remedy: "see whether this machine's clock is right".to_owned(),
            }),
            (Err(ago), _) => Err(Fault {
                wrong: format!(
                    "{file}: the certificate expired {} days ago",
                    days(ago.duration())
                ),
                remedy: "renew the file".to_owned(),
            }),
        }
    });
    of(files.section, outcome)
}

/// Connects to the authority of `tls.acme`, if there is one.
pub async fn try_authority(config: &Config) -> Option<Tried> {
    let Some(Tls::Acme(acme)) = &config.tls else {
        return None;
    };
    let url = Url::parse(&acme.directory).ok()?;
    let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
    let port = url.port_or_known_default()?;
    let connecting = tokio::net::TcpStream::connect((host.as_str(), port));
    let outcome = match tokio::time::timeout(PATIENCE, connecting).await {
        Ok(Ok(_)) => Ok(format!("{host} accepts connections")),
        Ok(Err(error)) => Err(format!("cannot connect to {host} port {port}: {error}").into()),
        Err(_) => Err(format!("{host} does not answer on TCP port {port}").into()),
    };
    Some(of("tls.acme.directory", outcome))
}

/// Connects to each server of `cluster.nats`, and compares the buckets there, which are made if they
/// are missing.
pub async fn try_nats(config: &Config) -> Vec<Tried> {
    let Some(options) = config.cluster.as_ref().and_then(Cluster::nats_options) else {
        return Vec::new();
    };
    let tried = glassline_cluster_nats::try_servers(&options).await;
    let tried = tried.into_iter().map(|it| {
        let outcome = match it.outcome {
            Ok(warnings) if warnings.is_empty() => Ok(format!("{} can be used", it.server)),
            Ok(warnings) => Ok(format!(
                "{} can be used; note: {}",
                it.server,
                warnings.join("; ")
            )),
            Err(failure) => Err(failure.to_string().into()),
        };
        of("cluster.nats", outcome)
    });
    tried.collect()
}

/// Asks the webhook of rights about a client that shows nothing. Whatever it decides, it must answer.
async fn try_webhook(config: &Config) -> Option<Tried> {
    let webhook = config.auth.webhook.as_ref()?;
    let outcome = match auth::try_webhook(webhook).await {
        Ok(decision) => Ok(format!(
            "{} answers; a client without credentials who reads '{TRIED_STREAM}' is {decision}",
            webhook.url
        )),
        Err(wrong) => Err(Fault {
            wrong: format!("{}: {wrong}", webhook.url),
            remedy: "clients are refused while it does not answer with 2xx, 401 or 403".to_owned(),
        }),
    };
    Some(of("auth.webhook.url", outcome))
}

/// Asks for the names and the STUN servers of `media.advertise`.
pub async fn try_advertised(config: &Config) -> Vec<Tried> {
    let mut tried = Vec::new();
    for (entry, learned) in advertised_ips(config).await {
        if matches!(entry, AdvertisedAddress::Ip(_)) {
            continue;
        }
        let outcome = learned.map(|ips| {
            let ips: Vec<_> = ips.iter().map(ToString::to_string).collect();
            format!("{entry} stands for {}", ips.join(" and "))
        });
        tried.push(of("media.advertise", outcome.map_err(Fault::from)));
    }
    tried
}

/// Returns the entries of `media.advertise` with the addresses that they stand for, or why these are
/// not known.
pub async fn advertised_ips(
    config: &Config,
) -> Vec<(AdvertisedAddress, Result<Vec<IpAddr>, String>)> {
    let mut found = Vec::new();
    for entry in &config.media.advertise {
        let learned = learn(entry).await.map_err(|error| error.to_string());
        found.push((entry.clone(), learned));
    }
    found
}

/// Tries one source in `hub`.
async fn source(
    spec: SourceSpec,
    hub: Arc<Hub>,
    surroundings: ingest::Surroundings,
    patience: Duration,
) -> Tried {
    let key = format!("sources.{}", spec.name);
    let text = spec.input.to_string();
    let outcome = match ingest::try_source(spec, hub, &surroundings, patience).await {
        Ok(ingest::Tried::Plays(_)) => Ok(format!("{text} plays")),
        Ok(ingest::Tried::AwaitsPublisher) => Ok("waits for a publisher".to_owned()),
        Err(error) => Err(Fault {
            wrong: error.to_string(),
            remedy: error.remedy().unwrap_or_default().to_owned(),
        }),
    };
    of(key, outcome)
}
