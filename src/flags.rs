//! Flags of `demo` and `serve`, which override the configuration file.
//!
//! Every flag is optional. An absent flag changes nothing, so that a default never overrides the
//! file.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use clap::Args;
use glassline_config::{Config, DataAccess, HTTPS_PORT, HttpsAddress, Secret, Tls};
use glassline_ingest::SourceSpec;
use glassline_server::LoadConfig;

use crate::exit::Failure;

/// Flags of `glassline demo`.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    #[command(flatten)]
    listen: Listen,
}

/// Flags of `glassline serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Configuration file (YAML). Flags override it.
    #[arg(value_name = "CONFIG.yml")]
    config: Option<PathBuf>,
    /// Stream and source: NAME=rtsp://…, NAME=demo or NAME=FILE,FILE…, with ?fps=30&once or not;
    /// wins over the file. Repeatable.
    #[arg(long = "source", value_name = "NAME=SOURCE")]
    sources: Vec<String>,
    #[command(flatten)]
    listen: Listen,
    /// Address for RTSP inside TLS; the file names certificate and key.
    #[arg(long, value_name = "PORT|IP:PORT|off")]
    rtsps: Option<OptionalAddress>,
    /// Data channels of viewers: off, read (receive messages), or write (also send).
    #[arg(long, value_name = "off|read|write")]
    data_channels: Option<DataAccess>,
    #[command(flatten)]
    tokens: Tokens,
}

/// Addresses to listen on.
#[derive(Debug, Args)]
struct Listen {
    /// IP address for all listeners but admin, like 0.0.0.0 for all interfaces.
    #[arg(long, value_name = "IP")]
    listen: Option<IpAddr>,
    /// Address for player pages, WHEP and API.
    #[arg(long, value_name = "PORT|IP:PORT")]
    http: Option<ListenAddress>,
    /// Address for HTTPS: PORT, IP:PORT, or off, with the certificate of --tls or of the file
    /// [default: port 8443 if there is one].
    #[arg(long, value_name = "PORT|IP:PORT|off")]
    https: Option<OptionalAddress>,
    /// Certificate for HTTPS, RTSPS and QUIC: lan (a private authority of this server), acme: and
    /// public names (Let's Encrypt), or two PEM files, the certificate first.
    #[arg(long, value_name = "lan|acme:NAME,…|CERTIFICATE,KEY")]
    tls: Option<Tls>,
    /// Address for WebRTC media.
    #[arg(long, value_name = "PORT|IP:PORT")]
    media: Option<ListenAddress>,
    /// Address for RTSP.
    #[arg(long, value_name = "PORT|IP:PORT|off")]
    rtsp: Option<OptionalAddress>,
    /// Address for MoQ over QUIC.
    #[arg(long, value_name = "PORT|IP:PORT|off")]
    quic: Option<OptionalAddress>,
    /// Address for metrics and health checks.
    #[arg(long, value_name = "PORT|IP:PORT")]
    admin: Option<ListenAddress>,
    /// Number of threads that serve viewers [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    shards: Option<u16>,
}

/// Tokens are kept as text and checked later: clap's own error would repeat the secret.
#[derive(Debug, Args)]
struct Tokens {
    /// Token that viewers have to send.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "GLASSLINE_READ_TOKEN",
        hide_env_values = true
    )]
    read_token: Option<String>,
    /// Token that publishers have to send.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "GLASSLINE_PUBLISH_TOKEN",
        hide_env_values = true
    )]
    publish_token: Option<String>,
}

impl Demo {
    /// The configuration of the demo: defaults, the built-in stream, and the flags.
    pub(crate) fn config(&self) -> Result<Config, Failure> {
        let mut config = Config::default();
        let demo = SourceSpec::demo();
        config.sources.insert(demo.name, demo.input);
        self.listen.apply(&mut config);
        Ok(config)
    }
}

impl Serve {
    /// The configuration, and how it is read again while the server runs.
    pub(crate) fn start(self) -> Result<(Config, Arc<LoadConfig>), Failure> {
        let config = self.config()?;
        let load: Arc<LoadConfig> =
            Arc::new(move || self.config().map_err(|error| error.to_string()));
        Ok((config, load))
    }

    /// The configuration file, if there is one, overridden by the flags.
    pub(crate) fn config(&self) -> Result<Config, Failure> {
        let mut config = match &self.config {
            Some(path) => Config::load(path).map_err(Failure::usage)?,
            None => Config::of_environment().map_err(Failure::usage)?,
        };
        self.apply(&mut config)?;
        config.keep_state();
        Ok(config)
    }

    fn apply(&self, config: &mut Config) -> Result<(), Failure> {
        self.listen.apply(config);
        self.apply_rtsps(config);
        if let Some(access) = self.data_channels {
            config.webrtc.data.viewers = access;
        }
        self.tokens.apply(config)?;
        let mut names = std::collections::BTreeSet::new();
        for text in &self.sources {
            let spec = SourceSpec::parse(text)
                .map_err(|error| Failure::usage(format_args!("--source: {error}")))?;
            if !names.insert(spec.name.clone()) {
                let twice = format_args!(
                    "--source: two sources have the name '{}'; give each stream one",
                    spec.name
                );
                return Err(Failure::usage(twice));
            }
            config.sources.insert(spec.name, spec.input);
        }
        Ok(())
    }
}

impl Serve {
    fn apply_rtsps(&self, config: &mut Config) {
        let rtsp = &mut config.rtsp;
        match self.rtsps {
            Some(OptionalAddress::Off) => rtsp.tls.address = None,
            Some(OptionalAddress::On(wanted)) => {
                // Without an address in the file, the address of plain RTSP is the base.
                let default = glassline_config::Rtsp::default().address;
                let base = rtsp.tls.address.or(rtsp.address).or(default);
                rtsp.tls.address = base.map(|mut address| {
                    wanted.apply(&mut address);
                    address
                });
            }
            None => {}
        }
    }
}

impl Listen {
    fn apply(&self, config: &mut Config) {
        if let Some(ip) = self.listen {
            config.http.address.set_ip(ip);
            config.media.address.set_ip(ip);
            if let HttpsAddress::At(address) = &mut config.https.address {
                address.set_ip(ip);
            }
            let rtsp = &mut config.rtsp;
            let quic = &mut config.quic.address;
            let addresses = [&mut rtsp.address, &mut rtsp.tls.address, quic];
            for address in addresses.into_iter().flatten() {
                address.set_ip(ip);
            }
        }
        let addresses = [
            (self.http, &mut config.http.address),
            (self.media, &mut config.media.address),
            (self.admin, &mut config.admin.address),
        ];
        for (wanted, address) in addresses {
            if let Some(wanted) = wanted {
                wanted.apply(address);
            }
        }
        if let Some(tls) = &self.tls {
            config.tls = Some(tls.clone());
        }
        if let Some(wanted) = self.https {
            let mut address = config.https_address();
            let default = SocketAddr::new(config.http.address.ip(), HTTPS_PORT);
            wanted.apply(&mut address, Some(default));
            config.https.address = address.map_or(HttpsAddress::Off, HttpsAddress::At);
        }
        // A listener that the file switches off starts from the default address.
        let default = Config::default();
        let optional = [
            (self.rtsp, &mut config.rtsp.address, default.rtsp.address),
            (self.quic, &mut config.quic.address, default.quic.address),
        ];
        for (wanted, address, default) in optional {
            if let Some(wanted) = wanted {
                wanted.apply(address, default);
            }
        }
        if let Some(shards) = self.shards {
            config.shards = Some(shards.into());
        }
    }
}

impl Tokens {
    fn apply(&self, config: &mut Config) -> Result<(), Failure> {
        let tokens = [
            (
                "--read-token",
                &self.read_token,
                &mut config.auth.read_token,
            ),
            (
                "--publish-token",
                &self.publish_token,
                &mut config.auth.publish_token,
            ),
        ];
        for (flag, text, token) in tokens {
            if let Some(text) = text {
                let secret = Secret::new(text)
                    .map_err(|error| Failure::usage(format_args!("{flag}: {error}")))?;
                *token = Some(secret);
            }
        }
        Ok(())
    }
}

/// Address of one listener, as a flag gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListenAddress {
    /// This port, at the IP address that is configured.
    Port(u16),
    /// This IP address and port.
    Address(SocketAddr),
}

impl ListenAddress {
    fn apply(self, address: &mut SocketAddr) {
        match self {
            Self::Port(port) => address.set_port(port),
            Self::Address(whole) => *address = whole,
        }
    }
}

/// Address of a listener that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OptionalAddress {
    Off,
    On(ListenAddress),
}

impl OptionalAddress {
    fn apply(self, address: &mut Option<SocketAddr>, default: Option<SocketAddr>) {
        *address = match self {
            Self::Off => None,
            Self::On(wanted) => address.or(default).map(|mut address| {
                wanted.apply(&mut address);
                address
            }),
        };
    }
}

impl FromStr for OptionalAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "off" => Ok(Self::Off),
            text => text.parse().map(Self::On),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(port) = text.parse() {
            return Ok(Self::Port(port));
        }
        text.parse()
            .map(Self::Address)
            .map_err(|_| "give a port like 8889 or an address like 0.0.0.0:8889")
    }
}

#[cfg(test)]
mod tests {
    use glassline_config::{Acme, Lan};

    use super::*;
    use crate::test_flags;

    /// A file in which every value differs from its default.
    const FILE: &str = "\
http: {address: '10.0.0.1:1001'}
https: {address: '10.0.0.7:1007'}
media: {address: '10.0.0.2:1002'}
rtsp: {address: '10.0.0.4:1004', tls: {address: '10.0.0.5:1005'}}
quic: {address: '10.0.0.6:1006'}
admin: {address: '10.0.0.3:1003'}
shards: 7
auth: {read_token: file-read, publish_token: file-publish}
sources: {cam: file.h264, other: other.h264}
";

    fn over_file(flags: &[&str]) -> Result<Config, Failure> {
        let serve: Serve = test_flags::parse(flags).expect("flags that clap takes");
        let mut config = Config::from_yaml(FILE, "test.yml").expect("a good file");
        serve.apply(&mut config).map(|()| config)
    }

    fn file() -> Config {
        Config::from_yaml(FILE, "test.yml").expect("a good file")
    }

    #[test]
    fn absent_flags_leave_the_file_alone() {
        assert_eq!(over_file(&[]).expect("no flags"), file());
    }

    #[test]
    fn each_flag_changes_its_own_and_nothing_else() {
        type Change = fn(&mut Config);
        let cases: [(&[&str], Change); 23] = [
            (&["--data-channels", "write"], |c| {
                c.webrtc.data.viewers = DataAccess::Write;
            }),
            (&["--http", "80"], |c| c.http.address.set_port(80)),
            (&["--http", "1.2.3.4:80"], |c| {
                c.http.address = SocketAddr::from(([1, 2, 3, 4], 80));
            }),
            (&["--https", "off"], |c| c.https.address = HttpsAddress::Off),
            (&["--https", "443"], |c| {
                let address = "10.0.0.7:443".parse().expect("an address");
                c.https.address = HttpsAddress::At(address);
            }),
            (&["--tls", "lan"], |c| {
                c.tls = Some(Tls::Lan(Lan::default()));
            }),
            (&["--tls", "acme:media.example,203.0.113.7"], |c| {
                let names = ["media.example", "203.0.113.7"];
                c.tls = Some(Tls::Acme(Acme {
                    names: names.map(|name| name.parse().expect("a name")).into(),
                    ..Acme::default()
                }));
            }),
            (&["--tls", "a.pem,b.pem"], |c| {
                c.tls = "a.pem,b.pem".parse().ok();
            }),
            (&["--media", "81"], |c| c.media.address.set_port(81)),
            (&["--admin", "[::1]:82"], |c| {
                c.admin.address = "[::1]:82".parse().expect("an address");
            }),
            (&["--rtsp", "off"], |c| c.rtsp.address = None),
            (&["--rtsp", "83"], |c| {
                c.rtsp.address = "10.0.0.4:83".parse().ok();
            }),
            (&["--rtsps", "off"], |c| c.rtsp.tls.address = None),
            (&["--rtsps", "84"], |c| {
                c.rtsp.tls.address = "10.0.0.5:84".parse().ok();
            }),
            (&["--quic", "off"], |c| c.quic.address = None),
            (&["--quic", "85"], |c| {
                c.quic.address = "10.0.0.6:85".parse().ok();
            }),
            (&["--listen", "0.0.0.0"], |c| {
                c.http.address.set_ip([0, 0, 0, 0].into());
                c.https.address = HttpsAddress::At("0.0.0.0:1007".parse().expect("an address"));
                c.media.address.set_ip([0, 0, 0, 0].into());
                c.rtsp.address = "0.0.0.0:1004".parse().ok();
                c.rtsp.tls.address = "0.0.0.0:1005".parse().ok();
                c.quic.address = "0.0.0.0:1006".parse().ok();
            }),
            // The more exact flag wins, in whatever order the flags come.
            (&["--http", "1.2.3.4:80", "--listen", "9.9.9.9"], |c| {
                c.http.address = SocketAddr::from(([1, 2, 3, 4], 80));
                c.https.address = HttpsAddress::At("9.9.9.9:1007".parse().expect("an address"));
                c.media.address.set_ip([9, 9, 9, 9].into());
                c.rtsp.address = "9.9.9.9:1004".parse().ok();
                c.rtsp.tls.address = "9.9.9.9:1005".parse().ok();
                c.quic.address = "9.9.9.9:1006".parse().ok();
            }),
            (&["--shards", "2"], |c| c.shards = Some(2)),
            (&["--read-token", "flag"], |c| {
                c.auth.read_token = Some(Secret::new("flag").expect("a token"));
            }),
            (&["--publish-token", "flag"], |c| {
                c.auth.publish_token = Some(Secret::new("flag").expect("a token"));
            }),
            (&["--source", "demo"], |c| {
                let demo = SourceSpec::demo();
                c.sources.insert(demo.name, demo.input);
            }),
            (&["--source", "cam=flag.h264"], |c| {
                let spec = SourceSpec::parse("cam=flag.h264").expect("a source");
                c.sources.insert(spec.name, spec.input);
            }),
        ];
        for (flags, change) in cases {
            let mut expected = file();
            change(&mut expected);
            assert_ne!(expected, file(), "{flags:?} is tested against its default");
            assert_eq!(over_file(flags).expect("good flags"), expected, "{flags:?}");
        }
    }

    #[test]
    fn bad_flags_are_usage_errors_that_keep_secrets() {
        for (flags, wanted) in [
            (["--source", "clip.h264"], "has no stream name"),
            (["--source", "cam=srt://x"], "is not supported"),
            (["--read-token", "two words"], "--read-token: character 4"),
            (
                ["--publish-token", ""],
                "--publish-token: the token is empty",
            ),
        ] {
            match over_file(&flags) {
                Err(Failure::Usage(text)) => {
                    assert!(text.contains(wanted), "{flags:?}: {text}");
                    assert!(!text.contains("words"), "{text}");
                }
                other => panic!("{flags:?}: {other:?}"),
            }
        }
        let twice = over_file(&["--source", "a=x.h264", "--source", "a=y.h264"]);
        assert!(matches!(twice, Err(Failure::Usage(text)) if text.contains("two sources")));
        assert!(test_flags::parse::<Serve>(&["--shards", "0"]).is_err());
        assert!(test_flags::parse::<Serve>(&["--http", "localhost"]).is_err());
    }

    #[test]
    fn the_demo_serves_the_demo() {
        let demo = Demo {
            listen: Listen {
                listen: None,
                http: Some(ListenAddress::Port(0)),
                https: None,
                tls: None,
                media: None,
                admin: None,
                rtsp: None,
                quic: None,
                shards: None,
            },
        };
        let config = demo.config().expect("nothing to go wrong");
        assert_eq!(config.specs(), [SourceSpec::demo()]);
        assert_eq!(config.http.address.to_string(), "127.0.0.1:0");
    }
}
