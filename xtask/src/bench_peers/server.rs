//! Servers that are compared: their requirements, how they are started, and how they show that
//! they are ready.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::media::Media;
use super::place::Placement;
use super::running::Running;
use crate::{install, process, versions};

/// Longest wait for a server to be ready; one in Python reads its files first.
const PATIENCE: Duration = Duration::from_secs(40);

/// Limits of our server: all viewers of a load test have one address.
const LIMITS: &str = "limits: {half_open_per_address: 1000}\n";

/// A server, or a variant of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    Pion,
    PionBare,
    PionReference,
    Janus,
    GstRtsp,
    GstRtspUdp,
    Live555,
    MediaMtx,
    MediaMtxRtsp,
    GlasslineRtsp,
    GlasslineRtspUdp,
    Glassline,
}

/// Resources that servers need.
pub(super) struct Lab {
    /// Folder of reports, logs and configuration of this comparison.
    pub(super) folder: PathBuf,
    pub(super) media: Media,
    /// Our binary, which is a server and the generator for all servers.
    pub(super) glassline: PathBuf,
    /// Longest time that a server must play.
    pub(super) duration: Duration,
}

/// A server that is ready.
pub(super) struct Serving {
    pub(super) url: String,
    /// RTSP transport that viewers must use.
    pub(super) transport: Option<&'static str>,
    /// Id of the server's own process, without those of its sources.
    pub(super) process: u32,
    /// Processes, ended in this order: those that need the server come first.
    running: Vec<Running>,
}

impl Server {
    /// All servers in order of measurement; ours is the last, so that its chart shows all.
    pub(super) const ALL: [Server; 12] = [
        Server::Pion,
        Server::PionBare,
        Server::PionReference,
        Server::Janus,
        Server::GstRtsp,
        Server::GstRtspUdp,
        Server::Live555,
        Server::MediaMtx,
        Server::MediaMtxRtsp,
        Server::GlasslineRtsp,
        Server::GlasslineRtspUdp,
        Server::Glassline,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Server::Pion => "pion",
            Server::PionBare => "pion-bare",
            Server::PionReference => "pion-reference",
            Server::Janus => "janus",
            Server::GstRtsp => "gst-rtsp",
            Server::GstRtspUdp => "gst-rtsp-udp",
            Server::Live555 => "live555",
            Server::MediaMtx => "mediamtx",
            Server::MediaMtxRtsp => "mediamtx-rtsp",
            Server::GlasslineRtsp => "glassline-rtsp",
            Server::GlasslineRtspUdp => "glassline-rtsp-udp",
            Server::Glassline => "glassline",
        }
    }

    /// Remark for the reader of the table.
    pub(super) fn about(self) -> &'static str {
        match self {
            Server::Pion => "WebRTC, interceptors on (NACK, reports, TWCC), frames in real time",
            Server::PionBare => "the same without interceptors",
            Server::PionReference => {
                "one NAL unit per 33 ms tick, no audio, interceptors on: the published file-bench"
            }
            Server::Janus => "WebRTC, streaming plugin fed by RTP, ICE-lite",
            Server::GstRtsp => "RTSP over TCP, not encrypted, one shared pipeline",
            Server::GstRtspUdp => "the same with media over UDP",
            Server::Live555 => "RTSP over TCP, not encrypted, no audio",
            Server::MediaMtx => "WebRTC, published to by ffmpeg",
            Server::MediaMtxRtsp => "RTSP over TCP, not encrypted, published to by ffmpeg",
            Server::GlasslineRtsp => "RTSP over TCP, not encrypted",
            Server::GlasslineRtspUdp => "the same with media over UDP",
            Server::Glassline => "WebRTC, RTCP and NACK on",
        }
    }

    /// Whether the server sends video and audio, so that its cost is comparable.
    pub(super) fn has_whole_load(self) -> bool {
        !matches!(self, Server::PionReference | Server::Live555)
    }

    /// Whether the server is in Glassline's chart, which has room for seven others.
    pub(super) fn is_drawn(self) -> bool {
        !matches!(
            self,
            Server::GstRtspUdp
                | Server::MediaMtxRtsp
                | Server::GlasslineRtsp
                | Server::GlasslineRtspUdp
        )
    }

    /// Our variant with the same protocol, for comparing costs.
    pub(super) fn ours(self) -> Server {
        match self {
            Server::GstRtsp | Server::Live555 | Server::MediaMtxRtsp | Server::GlasslineRtsp => {
                Server::GlasslineRtsp
            }
            Server::GstRtspUdp | Server::GlasslineRtspUdp => Server::GlasslineRtspUdp,
            _ => Server::Glassline,
        }
    }

    /// Installs or builds the server.
    ///
    /// # Errors The server is not available here; the text says how to get it.
    pub(super) fn prepare(self) -> Result<(), String> {
        match self {
            Server::Pion | Server::PionBare | Server::PionReference => install::go_peers(),
            Server::Janus => {
                install::peer("Janus")?;
                install::go_peers()?;
                own_address().map(drop)
            }
            Server::GstRtsp | Server::GstRtspUdp => install::peer("GStreamer's RTSP server"),
            Server::Live555 => install::live555().map(drop),
            Server::MediaMtx | Server::MediaMtxRtsp => install::mediamtx().map(drop),
            Server::GlasslineRtsp | Server::GlasslineRtspUdp | Server::Glassline => Ok(()),
        }
    }

    /// Version that the program prints, else the last known one.
    pub(super) fn version(self, lab: &Lab) -> String {
        let (mut command, section) = match self {
            Server::Pion | Server::PionBare | Server::PionReference => {
                (Command::new(install::go_peer("pion")), "pion")
            }
            Server::Janus => (Command::new("janus"), "janus"),
            Server::GstRtsp | Server::GstRtspUdp => (rtsp_script(), "gst-rtsp-server"),
            // live555 prints its version only when it serves.
            Server::Live555 => (Command::new("false"), "live555"),
            Server::MediaMtx | Server::MediaMtxRtsp => {
                let program = install::mediamtx().unwrap_or_default();
                (Command::new(program), "mediamtx")
            }
            Server::GlasslineRtsp | Server::GlasslineRtspUdp | Server::Glassline => {
                (Command::new(&lab.glassline), "glassline")
            }
        };
        let said = process::output_of(command.arg("--version"));
        let first = said.as_deref().and_then(|text| text.trim().lines().next());
        match first.map(|line| line.trim_start_matches("glassline ").trim()) {
            Some(line) if !line.is_empty() => line.to_owned(),
            _ => versions::of(section, "seen").unwrap_or_else(|_| "unknown".to_owned()),
        }
    }

    /// Starts the server on its cores, and waits until it is ready.
    pub(super) fn start(self, lab: &Lab, place: &Placement) -> Result<Serving, String> {
        match self {
            Server::Pion => pion(self, lab, place, &[]),
            Server::PionBare => pion(self, lab, place, &["-interceptors=none"]),
            Server::PionReference => pion(self, lab, place, &["-pace=nal"]),
            Server::Janus => janus(lab, place),
            Server::GstRtsp => gst_rtsp(self, lab, place, "tcp"),
            Server::GstRtspUdp => gst_rtsp(self, lab, place, "udp"),
            Server::Live555 => live555(lab, place),
            Server::MediaMtx => mediamtx(self, lab, place),
            Server::MediaMtxRtsp => mediamtx(self, lab, place),
            Server::GlasslineRtsp => glassline(self, lab, place, Some("tcp")),
            Server::GlasslineRtspUdp => glassline(self, lab, place, Some("udp")),
            Server::Glassline => glassline(self, lab, place, None),
        }
    }
}

impl Lab {
    pub(super) fn log(&self, name: &str, place: &Placement) -> PathBuf {
        self.folder
            .join(format!("{name}-{}.log", place.layout.name()))
    }
}

impl Serving {
    /// Whether the server has ended; its sources are started before it.
    pub(super) fn has_crashed(&mut self) -> bool {
        let server = self.running.last_mut();
        server.is_none_or(|server| server.has_ended().is_some())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        for running in self.running.drain(..) {
            drop(running);
        }
    }
}

fn pion(server: Server, lab: &Lab, place: &Placement, flags: &[&str]) -> Result<Serving, String> {
    let mut command = Command::new(install::go_peer("pion"));
    command.arg("-addr=127.0.0.1:0").args(flags);
    command.arg("-video").arg(&lab.media.video);
    command.arg("-audio").arg(&lab.media.audio);
    let log = lab.log(server.name(), place);
    let running = Running::start(&command, &place.server, &log)?;
    Ok(Serving {
        url: running.wait_for("ready ", PATIENCE)?,
        transport: None,
        process: running.id(),
        running: vec![running],
    })
}

fn janus(lab: &Lab, place: &Placement) -> Result<Serving, String> {
    let folder = lab.folder.join("janus");
    let [api] = free_ports()?;
    write_janus_configuration(&folder, api)?;
    let mut server = Command::new("janus");
    server.arg("--disable-colors");
    server.arg("--configs-folder").arg(&folder);
    server.arg("--config").arg(folder.join("janus.jcfg"));
    let server = Running::start(&server, &place.server, &lab.log("janus", place))?;
    let mut bridge = Command::new(install::go_peer("janus"));
    bridge.arg("-addr=127.0.0.1:0");
    bridge.arg(format!("-janus=http://127.0.0.1:{api}/janus"));
    bridge.arg("-video").arg(&lab.media.video);
    bridge.arg("-audio").arg(&lab.media.audio);
    let log = lab.log("janus-bridge", place);
    let bridge = Running::start(&bridge, &place.generator, &log)?;
    Ok(Serving {
        url: bridge.wait_for("ready ", PATIENCE)?,
        transport: None,
        process: server.id(),
        running: vec![bridge, server],
    })
}

/// Writes `peers/janus/*.jcfg` with this machine's address and free ports.
fn write_janus_configuration(folder: &Path, api: u16) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    for name in [
        "janus.jcfg",
        "janus.transport.http.jcfg",
        "janus.plugin.streaming.jcfg",
    ] {
        let text = fs::read_to_string(install::peers_folder().join("janus").join(name));
        let text = text
            .map_err(failed)?
            .replace("@FOLDER@", &folder.display().to_string())
            .replace("@ADDRESS@", &own_address()?.to_string())
            .replace("@API@", &api.to_string());
        fs::write(folder.join(name), text).map_err(failed)?;
    }
    Ok(())
}

/// The machine's address on the default route. Connecting a UDP socket asks the routing table and
/// sends nothing.
fn own_address() -> Result<IpAddr, String> {
    // An address for documentation (RFC 5737), which is reached by the default route.
    let world = SocketAddr::from(([192, 0, 2, 1], 9));
    let address = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        .and_then(|socket| socket.connect(world).map(|()| socket))
        .and_then(|socket| socket.local_addr())
        .map(|address| address.ip());
    match address {
        Ok(address) if !address.is_loopback() => Ok(address),
        _ => Err(
            "Janus offers no loopback address, and this machine has no other; \
                  as root: ip link add lab0 type dummy && \
                  ip address add 192.0.2.2/24 dev lab0 && ip link set lab0 up"
                .to_owned(),
        ),
    }
}

fn gst_rtsp(
    server: Server,
    lab: &Lab,
    place: &Placement,
    transport: &'static str,
) -> Result<Serving, String> {
    let mut command = rtsp_script();
    command.arg("--h264").arg(&lab.media.video);
    command.arg("--ogg").arg(&lab.media.audio);
    let log = lab.log(server.name(), place);
    let running = Running::start(&command, &place.server, &log)?;
    Ok(Serving {
        url: running.wait_for("ready ", PATIENCE)?,
        transport: Some(transport),
        process: running.id(),
        running: vec![running],
    })
}

fn rtsp_script() -> Command {
    let mut command = Command::new(install::system_python());
    command.arg(install::peers_folder().join("rtsp-server.py"));
    command
}

/// Starts live555, which serves the files of its folder at port 554, or at 8554 without the right
/// to use 554.
fn live555(lab: &Lab, place: &Placement) -> Result<Serving, String> {
    let file = lab.media.repeated(lab.duration)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let mut command = Command::new(install::live555()?);
    if let Some(folder) = file.parent() {
        command.current_dir(folder);
    }
    let ports = [554, 8554];
    if let Some(port) = ports.iter().find(|port| rtsp_answers(**port, "", "")) {
        return Err(format!("something else serves RTSP at port {port}"));
    }
    let mut running = Running::start(&command, &place.server, &lab.log("live555", place))?;
    let serving = || ports.into_iter().find(|port| is_described(*port, &name));
    running.wait_until(PATIENCE, || serving().is_some())?;
    let port = serving().ok_or("live555MediaServer is gone")?;
    Ok(Serving {
        url: format!("rtsp://127.0.0.1:{port}/{name}"),
        transport: Some("tcp"),
        process: running.id(),
        running: vec![running],
    })
}

fn mediamtx(server: Server, lab: &Lab, place: &Placement) -> Result<Serving, String> {
    let [rtsp, http, media] = free_ports()?;
    let path = lab.folder.join("mediamtx.yml");
    let configuration = format!(
        "logLevel: warn\nrtmp: no\nhls: no\nsrt: no\n\
         rtspAddress: 127.0.0.1:{rtsp}\nrtspTransports: [tcp]\n\
         webrtcAddress: 127.0.0.1:{http}\nwebrtcLocalUDPAddress: 127.0.0.1:{media}\n\
         webrtcIPsFromInterfaces: no\nwebrtcAdditionalHosts: [127.0.0.1]\n\
         paths:\n  reference:\n"
    );
    fs::write(&path, configuration).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut command = Command::new(install::mediamtx()?);
    // The program writes certificates into its working directory.
    command.arg(&path).current_dir(&lab.folder);
    let mut running = Running::start(&command, &place.server, &lab.log(server.name(), place))?;
    let publisher = publish_to_mediamtx(lab, place, &mut running, rtsp)?;
    let (url, transport) = match server {
        Server::MediaMtxRtsp => (format!("rtsp://127.0.0.1:{rtsp}/reference"), Some("tcp")),
        _ => (format!("http://127.0.0.1:{http}/reference/whep"), None),
    };
    Ok(Serving {
        url,
        transport,
        process: running.id(),
        running: vec![publisher, running],
    })
}

/// Waits until MediaMTX serves at the port `rtsp`, and publishes the stream to it.
pub(super) fn publish_to_mediamtx(
    lab: &Lab,
    place: &Placement,
    mediamtx: &mut Running,
    rtsp: u16,
) -> Result<Running, String> {
    mediamtx.wait_until(PATIENCE, || rtsp_answers(rtsp, "", ""))?;
    let mut publisher = Command::new("ffmpeg");
    publisher.args("-hide_banner -loglevel warning -nostdin -re -stream_loop -1 -i".split(' '));
    publisher.arg(lab.media.muxed()?).args(["-c", "copy"]);
    publisher.args(["-f", "rtsp", "-rtsp_transport", "tcp"]);
    publisher.arg(format!("rtsp://127.0.0.1:{rtsp}/reference"));
    let log = lab.log("mediamtx-publisher", place);
    let publisher = Running::start(&publisher, &place.generator, &log)?;
    mediamtx.wait_until(PATIENCE, || is_described(rtsp, "reference"))?;
    Ok(publisher)
}

/// Starts Glassline for WebRTC, or for RTSP over `transport`.
fn glassline(
    server: Server,
    lab: &Lab,
    place: &Placement,
    transport: Option<&'static str>,
) -> Result<Serving, String> {
    let path = lab.folder.join("glassline.yml");
    fs::write(&path, LIMITS).map_err(|error| format!("{}: {error}", path.display()))?;
    let [http, media, rtsp, admin] = free_ports()?;
    let files = (lab.media.video.display(), lab.media.audio.display());
    let mut command = Command::new(&lab.glassline);
    command.arg("serve").arg(&path);
    command.args(["--source", &format!("reference={},{}", files.0, files.1)]);
    for (flag, port) in [
        ("--http", http),
        ("--media", media),
        ("--rtsp", rtsp),
        ("--quic", 0),
        ("--admin", admin),
    ] {
        command.args([flag, &port.to_string()]);
    }
    if place.server.is_single() {
        command.args(["--shards", "1"]);
    }
    let log = lab.log(server.name(), place);
    let mut running = Running::start(&command, &place.server, &log)?;
    running.wait_until(PATIENCE, || is_live(admin))?;
    Ok(Serving {
        url: match transport {
            Some(_) => format!("rtsp://127.0.0.1:{rtsp}/reference"),
            None => format!("http://127.0.0.1:{http}/reference/whep"),
        },
        transport,
        process: running.id(),
        running: vec![running],
    })
}

/// Whether our API reports the stream as live.
pub(super) fn is_live(admin: u16) -> bool {
    let request = "GET /api/v1/streams/reference HTTP/1.1\r\nHost: localhost\r\n\
                   Connection: close\r\n\r\n";
    let state = ask(admin, request).and_then(|answer| {
        let (_, body) = answer.split_once("\r\n\r\n")?;
        serde_json::from_str::<serde_json::Value>(body).ok()
    });
    state.is_some_and(|entry| entry["state"] == "live")
}

fn is_described(port: u16, name: &str) -> bool {
    rtsp_answers(port, &format!("rtsp://127.0.0.1:{port}/{name}"), " 200 ")
}

/// Whether an RTSP server answers with `status`: to DESCRIBE, or to OPTIONS without a URL.
fn rtsp_answers(port: u16, url: &str, status: &str) -> bool {
    let (method, url) = match url {
        "" => ("OPTIONS", "*"),
        url => ("DESCRIBE", url),
    };
    let request = format!("{method} {url} RTSP/1.0\r\nCSeq: 1\r\n\r\n");
    ask(port, &request).is_some_and(|answer| {
        let line = answer.lines().next().unwrap_or_default();
        line.starts_with("RTSP/") && line.contains(status)
    })
}

/// Sends `request`, and reads until the end of the answer, or for a second.
fn ask(port: u16, request: &str) -> Option<String> {
    const ANSWER_BYTES_MAX: u64 = 64 * 1024;
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let patience = Some(Duration::from_secs(1));
    stream.set_read_timeout(patience).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    // An RTSP server keeps the connection open: the timeout ends the read.
    let _ = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer);
    Some(String::from_utf8_lossy(&answer).into_owned())
}

/// Ports that are free for TCP at this moment, and very likely for UDP.
pub(super) fn free_ports<const COUNT: usize>() -> Result<[u16; COUNT], String> {
    let mut held = Vec::new();
    let mut ports = [0; COUNT];
    for port in &mut ports {
        let listener = TcpListener::bind(("127.0.0.1", 0));
        let listener = listener.map_err(|error| format!("no free port: {error}"))?;
        let address = listener.local_addr();
        *port = address
            .map_err(|error| format!("no free port: {error}"))?
            .port();
        // All are held at the same time, so that they differ.
        held.push(listener);
    }
    Ok(ports)
}
