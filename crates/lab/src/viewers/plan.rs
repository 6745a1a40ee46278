//! What is to be measured, and whether this machine can.

use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

pub use glassline_client::trust::Trust;
pub use glassline_client::viewers::{Endpoint, RtspTransport};
use glassline_net::{Options, UdpSocket};
use url::Url;

use crate::viewers::RECEIVE_BUFFER_BYTES;
use crate::viewers::error::Error;
use crate::viewers::meter;
use crate::viewers::ramp::Ramp;
use crate::viewers::trouble::Trouble;

/// A load test.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What viewers join.
    pub endpoint: Endpoint,
    /// How many of them.
    pub ramp: Ramp,
    /// How long each step is watched once its viewers are there.
    pub every: Duration,
    /// How long the last step is watched.
    pub hold: Duration,
    /// The ramp ends after a step with more of the whole machine's time used, 0–100;
    /// 100 never ends it.
    pub cpu_max_percent: f64,
    /// The server's process, if it runs here.
    pub server: Option<u32>,
    /// Viewers that decrypt and take frames apart; the others count headers.
    pub verify: usize,
    /// Clients that misbehave beside the viewers, per hundred of these.
    pub bad_percent: f64,
    /// Clients that are added to each step once it was watched without them.
    pub trouble: Trouble,
    /// Ask the RTSP server to describe the stream ten times a second, too.
    pub describe_probe: bool,
    /// Goes out as `Authorization: Bearer`.
    pub token: Option<String>,
    /// Let the kernel join datagrams on arrival, which flatters the sender.
    pub gro: bool,
    /// Whose certificates are taken, for `https` and `rtsps` URLs.
    pub trust: Trust,
    /// Measure the floor after the ramp.
    pub floor: Option<FloorSource>,
    /// What charts call it.
    pub label: Option<String>,
}

/// Whose packets the floor repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FloorSource {
    /// As many and as large as the run's, in means.
    Run,
    /// Those of a clip.
    Files(Vec<PathBuf>),
}

/// What a plan's check found to be worth knowing; the run goes on.
pub type Warning = String;

/// How long a server may take to accept a connection.
const REACH_TIMEOUT: Duration = Duration::from_secs(5);

/// Until a client has stalled and the server has noticed.
const TROUBLE_MIN: Duration = Duration::from_secs(4);

/// Descriptors beside those of viewers: requests under way, the floor, files.
const DESCRIPTORS_BESIDE: usize = 128;

impl Plan {
    /// Checks all that can be known before the first viewer: descriptors, the
    /// server's process, that its port is open. No load yet.
    pub fn check(&self) -> Result<Vec<Warning>, Error> {
        let mut warnings = Vec::new();
        self.check_trouble()?;
        self.check_descriptors(&mut warnings)?;
        if let Some(id) = self.server {
            meter::Process::of(id)?;
        }
        reach(self.url())?;
        warnings.extend(receive_buffer_warning());
        Ok(warnings)
    }

    /// Where the endpoint is.
    pub const fn url(&self) -> &Url {
        self.endpoint.url()
    }

    /// As reports call it.
    pub fn protocol(&self) -> &'static str {
        match &self.endpoint {
            Endpoint::Whep(_) => "whep",
            Endpoint::DoSignaling(_) => "doSignaling",
            Endpoint::Rtsp { transport, .. } => match transport {
                RtspTransport::Tcp if self.endpoint.is_secure() => "rtsps/tcp",
                RtspTransport::Tcp => "rtsp/tcp",
                RtspTransport::Udp => "rtsp/udp",
                RtspTransport::Http => "rtsp/http",
            },
        }
    }

    /// Misbehaving clients beside `viewers`.
    pub fn bad_clients(&self, viewers: usize) -> usize {
        (viewers as f64 * self.bad_percent / 100.0).round() as usize
    }

    /// Whether the clients of [`Self::trouble`] can be a trouble over this protocol,
    /// and in this time.
    fn check_trouble(&self) -> Result<(), Error> {
        let refuse = |text: String| Err(Error::Trouble(text));
        let protocol = self.protocol();
        let by_window = [
            (self.trouble.slow, "--slow"),
            (self.trouble.tiny_window, "--tiny-window"),
        ];
        if let Some((_, flag)) = by_window.iter().find(|(count, _)| *count > 0)
            && !matches!(protocol, "rtsp/tcp" | "rtsps/tcp" | "rtsp/http")
        {
            return refuse(format!(
                "{flag} is for RTSP over TCP only: {protocol} sends media by UDP, where nobody \
                 waits for a reader; --stall makes sense there"
            ));
        }
        if self.describe_probe && !protocol.starts_with("rtsp/") {
            return refuse("--describe-probe is for rtsp:// only".to_owned());
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
                warnings.push(format!("cannot ask for more file descriptors: {error}"));
                return Ok(());
            }
        };
        let bad = self.bad_clients(self.ramp.end());
        let viewers = self.ramp.end() + bad + self.trouble.count();
        let needed = viewers * self.descriptors_per_viewer() + DESCRIPTORS_BESIDE;
        if needed > limit {
            return Err(Error::Descriptors {
                viewers,
                needed,
                limit,
            });
        }
        Ok(())
    }

    /// Sockets of one viewer: over UDP, RTSP has a pair for each of two tracks
    /// beside its connection.
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
            _ => 1,
        }
    }
}

/// Whether somebody accepts connections at `url`.
fn reach(url: &Url) -> Result<(), Error> {
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

/// `url` knows the ports of the other schemes.
fn rtsp_port(url: &Url) -> u16 {
    match url.scheme() {
        "rtsps" => 322,
        _ => 554,
    }
}

/// A clamped buffer loses packets that the server sent: that must not count
/// against it.
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
    // Linux reports twice what it was asked for.
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
        // Beyond any number that Linux gives out.
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
            // A machine with a very high limit gets as far as the dead port.
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
        let probed = Plan {
            describe_probe: true,
            ..whep.clone()
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
            (long(udp.clone(), tiny), "rtsp/udp sends media by UDP"),
            (probed, "--describe-probe"),
            (short, "4 s at least"),
        ] {
            let error = plan.check().expect_err(wanted).to_string();
            assert!(error.contains(wanted), "{error}");
        }
        for (plan, trouble) in [
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
