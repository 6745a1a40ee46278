//! Plan of a load test, and checks whether this machine can run it.

use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

pub use glassline_client::trust::Trust;
pub use glassline_client::viewers::{Endpoint, IceTransport, RtspTransport};
use glassline_net::{Options, UdpSocket};
use url::Url;

use crate::meter;
use crate::viewers::RECEIVE_BUFFER_BYTES;
use crate::viewers::error::Error;
use crate::viewers::ramp::Ramp;
use crate::viewers::trouble::Trouble;

/// Plan of a load test.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Endpoint that viewers join.
    pub endpoint: Endpoint,
    /// Number of viewers in each step.
    pub ramp: Ramp,
    /// Time that each step is measured for, once its viewers have joined.
    pub every: Duration,
    /// Time that the last step is measured for.
    pub hold: Duration,
    /// The ramp ends after a step in which the whole machine was busier than this, 0–100; 100
    /// never ends it.
    pub cpu_max_percent: f64,
    /// Id of the server's process, if it runs on this machine.
    pub server: Option<u32>,
    /// Number of viewers that decrypt packets and check frames; the others count headers.
    pub verify: usize,
    /// Misbehaving clients per hundred viewers.
    pub bad_percent: f64,
    /// Clients that are added to each step after it was measured without them.
    pub trouble: Trouble,
    /// Whether viewers report their frames about once a second, as the player page does (WHEP only).
    pub reports: bool,
    /// Whether the RTSP server gets ten DESCRIBE requests a second.
    pub describe_probe: bool,
    /// Token that is sent as `Authorization: Bearer`.
    pub token: Option<String>,
    /// Whether the kernel merges datagrams on arrival (GRO), which makes the server look better.
    pub gro: bool,
    /// Certificates that are accepted for `https` and `rtsps` URLs.
    pub trust: Trust,
    /// Whether the floor is measured after the ramp, and with which packets.
    pub floor: Option<FloorSource>,
    /// Name of the run in charts.
    pub label: Option<String>,
}

/// Packets that the floor sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FloorSource {
    /// Packets with the run's mean rates and sizes.
    Run,
    /// Packets of a clip's files.
    Files(Vec<PathBuf>),
}

/// A finding of a plan's check that the user should know; the run continues.
pub type Warning = String;

/// Longest time for a server to accept a connection.
const REACH_TIMEOUT: Duration = Duration::from_secs(5);

/// Least time of a step with hindering clients: a client must have stalled, and the server must
/// have noticed.
const TROUBLE_MIN: Duration = Duration::from_secs(4);

/// File descriptors in addition to those of viewers: open requests, the floor, files.
const DESCRIPTORS_OTHER: usize = 128;

impl Plan {
    /// Checks everything that can be known before the first viewer: file descriptors, the
    /// server's process, and whether its port is open. Causes no load.
    pub fn check(&self) -> Result<Vec<Warning>, Error> {
        let mut warnings = Vec::new();
        self.check_trouble()?;
        self.check_descriptors(&mut warnings)?;
        if let Some(id) = self.server {
            meter::Process::of(id)?;
        }
        check_reachable(self.url())?;
        warnings.extend(receive_buffer_warning());
        Ok(warnings)
    }

    /// URL of the endpoint.
    pub const fn url(&self) -> &Url {
        self.endpoint.url()
    }

    /// Name of the protocol in reports.
    pub fn protocol(&self) -> &'static str {
        match &self.endpoint {
            Endpoint::Whep { transport, .. } => match transport {
                IceTransport::Udp => "whep",
                IceTransport::Tcp => "whep/tcp",
            },
            Endpoint::DoSignaling(_) => "doSignaling",
            Endpoint::Hls(_) => "hls",
            Endpoint::Rtsp { transport, .. } => match transport {
                RtspTransport::Tcp if self.endpoint.is_secure() => "rtsps/tcp",
                RtspTransport::Tcp => "rtsp/tcp",
                RtspTransport::Udp => "rtsp/udp",
                RtspTransport::Http => "rtsp/http",
            },
        }
    }

    /// Number of misbehaving clients beside `viewers`.
    pub fn bad_clients(&self, viewers: usize) -> usize {
        (viewers as f64 * self.bad_percent / 100.0).round() as usize
    }

    /// Checks whether the clients of [`Self::trouble`] can hinder others over this protocol and
    /// in this time.
    fn check_trouble(&self) -> Result<(), Error> {
        let refuse = |text: String| Err(Error::Trouble(text));
        let protocol = self.protocol();
        let by_window = [
            (self.trouble.slow, "--slow"),
            (self.trouble.tiny_window, "--tiny-window"),
        ];
        let is_hls = protocol == "hls";
        if is_hls && (!self.trouble.is_none() || self.bad_percent > 0.0 || self.floor.is_some()) {
            let flags = "--bad-clients, --stall, --stall-tcp, --slow, --tiny-window and --floor";
            return refuse(format!(
                "{flags} are not for HLS, whose viewers are requests of HTTP"
            ));
        }
        if let Some((_, flag)) = by_window.iter().find(|(count, _)| *count > 0)
            && !matches!(protocol, "rtsp/tcp" | "rtsps/tcp" | "rtsp/http")
        {
            return refuse(format!(
                "{flag} is for RTSP over TCP only; with {protocol}, --stall hinders a server"
            ));
        }
        if self.trouble.stalled_over_tcp > 0 && self.endpoint.over_tcp().is_none() {
            return refuse(format!(
                "--stall-tcp is for WHEP only; with {protocol}, --stall hinders a server"
            ));
        }
        if self.describe_probe && !protocol.starts_with("rtsp/") {
            return refuse("--describe-probe is for rtsp:// only".to_owned());
        }
        if self.reports && !protocol.starts_with("whep") {
            return refuse("--reports is for WHEP only, whose sessions take reports".to_owned());
        }
        if !self.trouble.is_none() && self.every.min(self.hold) < TROUBLE_MIN {
            return refuse(format!(
                "clients stall after two seconds: watch each step for {} s at least (--every, \
                 --hold)",
                TROUBLE_MIN.as_secs()
            ));
        }
        Ok(())
    }

    fn check_descriptors(&self, warnings: &mut Vec<Warning>) -> Result<(), Error> {
        let limit = match glassline_net::raise_descriptor_limit() {
            Ok(limit) => usize::try_from(limit).unwrap_or(usize::MAX),
            Err(error) => {
                warnings.push(format!(
                    "cannot raise the limit on file descriptors: {error}"
                ));
                return Ok(());
            }
        };
        let bad = self.bad_clients(self.ramp.end());
        let viewers = self.ramp.end() + bad + self.trouble.count();
        let needed = viewers * self.descriptors_per_viewer() + DESCRIPTORS_OTHER;
        if needed > limit {
            return Err(Error::Descriptors {
                viewers,
                needed,
                limit,
            });
        }
        Ok(())
    }

    /// Sockets of one viewer: over UDP, RTSP has a connection, and a pair of sockets for each of
    /// two tracks.
    const fn descriptors_per_viewer(&self) -> usize {
        match &self.endpoint {
            Endpoint::Rtsp {
                transport: RtspTransport::Udp,
                ..
            } => 5,
            Endpoint::Rtsp {
                transport: RtspTransport::Http,
                ..
            } => 2,
            // A playlist and a part, of video and of audio.
            Endpoint::Hls(_) => 4,
            _ => 1,
        }
    }
}

/// Checks whether a server accepts connections at `url`.
fn check_reachable(url: &Url) -> Result<(), Error> {
    let unreachable = |reason: String| Error::Unreachable {
        host: url.host_str().unwrap_or_default().to_owned(),
        port: url.port_or_known_default().unwrap_or(rtsp_port(url)),
        reason,
    };
    let addresses = url
        .socket_addrs(|| Some(rtsp_port(url)))
        .map_err(|error| unreachable(error.to_string()))?;
    let mut reason = "the name has no address".to_owned();
    for address in addresses {
        match TcpStream::connect_timeout(&address, REACH_TIMEOUT) {
            Ok(_) => return Ok(()),
            Err(error) => reason = error.to_string(),
        }
    }
    Err(unreachable(reason))
}

/// Port of the URL; `url` knows the default ports of the other schemes.
fn rtsp_port(url: &Url) -> u16 {
    match url.scheme() {
        "rtsps" => 322,
        _ => 554,
    }
}

/// Warning about a receive buffer that the system limits: such a buffer loses packets that the
/// server sent.
fn receive_buffer_warning() -> Option<Warning> {
    let options = Options {
        receive_buffer: Some(RECEIVE_BUFFER_BYTES),
        ..Options::default()
    };
    let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let granted = UdpSocket::bind(any, &options)
        .ok()?
        .receive_buffer_bytes()
        .ok()?;
    // Linux reports twice the requested size.
    (granted < 2 * RECEIVE_BUFFER_BYTES).then(|| {
        format!(
            "the kernel grants {} of {} bytes of receive buffer per viewer, so bursts may be lost \
             here and not at the server: `sysctl -w net.core.rmem_max={RECEIVE_BUFFER_BYTES}`",
            granted / 2,
            RECEIVE_BUFFER_BYTES
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn plan(url: &str) -> Plan {
        Plan {
            endpoint: Endpoint::parse(url).expect(url),
            ramp: "0:10:5".parse().expect("a ramp"),
            every: Duration::from_secs(1),
            hold: Duration::from_secs(1),
            cpu_max_percent: 90.0,
            server: None,
            verify: 5,
            bad_percent: 0.0,
            trouble: Trouble::default(),
            reports: false,
            describe_probe: false,
            token: None,
            gro: false,
            trust: Trust::System,
            floor: None,
            label: None,
        }
    }

    fn free_port() -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
        listener.local_addr().expect("it is bound").port()
    }

    #[test]
    fn a_server_that_listens_is_reached_and_a_dead_one_is_named() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
        let port = listener.local_addr().expect("it is bound").port();
        for scheme in ["http", "rtsp"] {
            let url = format!("{scheme}://127.0.0.1:{port}/a/whep");
            plan(&url).check().expect("somebody listens");
        }
        drop(listener);
        let port = free_port();
        let dead = plan(&format!("http://127.0.0.1:{port}/a/whep"));
        let error = dead.check().expect_err("nobody listens").to_string();
        assert!(
            error.contains(&port.to_string()) && error.contains("127.0.0.1"),
            "{error}"
        );
    }

    #[test]
    fn a_dead_process_is_found_before_the_load() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let mut plan = plan(&format!("http://127.0.0.1:{port}/a/whep"));
        plan.server = Some(std::process::id());
        plan.check().expect("we run");
        // An id beyond any that Linux assigns.
        plan.server = Some(u32::MAX - 1);
        let error = plan.check().expect_err("no such process").to_string();
        assert!(error.contains("not running"), "{error}");
    }

    #[test]
    fn a_ramp_that_needs_more_descriptors_than_there_are_says_so() {
        let mut plan = plan("rtsp://127.0.0.1:1/a");
        plan.endpoint = Endpoint::Rtsp {
            url: plan.url().clone(),
            transport: RtspTransport::Udp,
        };
        assert_eq!(plan.protocol(), "rtsp/udp");
        plan.ramp = "60000".parse().expect("a ramp");
        plan.bad_percent = 50.0;
        match plan.check() {
            Err(Error::Descriptors {
                viewers, needed, ..
            }) => {
                assert_eq!((viewers, needed), (90_000, 450_128));
            }
            // A machine with a very high limit reaches the check of the closed port.
            Err(Error::Unreachable { .. }) => {}
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn trouble_that_makes_no_sense_is_refused() {
        let whep = plan("http://127.0.0.1:1/a/whep");
        let rtsp = plan("rtsp://127.0.0.1:1/a");
        let rtsps = plan("rtsps://127.0.0.1:1/a");
        assert_eq!(rtsps.protocol(), "rtsps/tcp");
        let mut udp = rtsp.clone();
        udp.endpoint = Endpoint::Rtsp {
            url: rtsp.url().clone(),
            transport: RtspTransport::Udp,
        };
        let long = |mut plan: Plan, trouble| {
            plan.trouble = trouble;
            (plan.every, plan.hold) = (TROUBLE_MIN, TROUBLE_MIN);
            plan
        };
        let none = Trouble::default();
        let slow = Trouble { slow: 1, ..none };
        let tiny = Trouble {
            tiny_window: 1,
            ..none
        };
        let stalled = Trouble { stalled: 1, ..none };
        let stalled_over_tcp = Trouble {
            stalled_over_tcp: 1,
            ..none
        };
        let probed = Plan {
            describe_probe: true,
            ..whep.clone()
        };
        let reporting = Plan {
            reports: true,
            ..rtsp.clone()
        };
        let short = Plan {
            trouble: stalled,
            ..rtsp.clone()
        };
        for (plan, wanted) in [
            (long(whep.clone(), slow), "--slow is for RTSP over TCP only"),
            (
                long(whep.clone(), tiny),
                "--tiny-window is for RTSP over TCP only",
            ),
            (long(udp.clone(), tiny), "with rtsp/udp, --stall"),
            (
                long(rtsp.clone(), stalled_over_tcp),
                "--stall-tcp is for WHEP only",
            ),
            (probed, "--describe-probe"),
            (reporting, "--reports is for WHEP only"),
            (short, "4 s at least"),
        ] {
            let error = plan.check().expect_err(wanted).to_string();
            assert!(error.contains(wanted), "{error}");
        }
        for (plan, trouble) in [
            (whep.clone(), stalled_over_tcp),
            (whep, stalled),
            (udp, stalled),
            (rtsps, slow),
            (rtsp.clone(), slow),
            (rtsp, tiny),
        ] {
            let fits = long(plan, trouble).check_trouble();
            fits.expect("it makes sense");
        }
    }

    #[test]
    fn bad_clients_are_a_share() {
        let mut plan = plan("http://127.0.0.1:1/a/whep");
        plan.bad_percent = 5.0;
        assert_eq!([0, 10, 25, 100].map(|n| plan.bad_clients(n)), [0, 1, 1, 5]);
    }
}
