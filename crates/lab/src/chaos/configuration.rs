//! The generated configuration of the server: ports, tokens, a user, a certificate, files.

use std::fs;
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::Error;
use super::plan::Plan;

/// Name of the one user.
const USER: &str = "anna";

/// Addresses, secrets and files of the server under attack.
#[derive(Clone, Debug)]
pub(super) struct Configuration {
    pub(super) http: SocketAddr,
    pub(super) media: SocketAddr,
    pub(super) rtsp: SocketAddr,
    pub(super) rtsps: SocketAddr,
    pub(super) quic: SocketAddr,
    pub(super) admin: SocketAddr,
    pub(super) read_token: String,
    pub(super) publish_token: String,
    pub(super) password: String,
    /// Path of the YAML file.
    pub(super) file: PathBuf,
    /// Path of the users file.
    pub(super) users: PathBuf,
    /// Path of the certificate of RTSPS and QUIC.
    pub(super) certificate: PathBuf,
    media_folder: Option<PathBuf>,
}

/// Number of ports that are tried until one is free for both UDP and TCP.
const ATTEMPTS: usize = 100;

/// Binds a free port of UDP and of TCP: media comes over both.
pub(super) fn udp_and_tcp() -> io::Result<(UdpSocket, TcpListener)> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..ATTEMPTS {
        let tcp = TcpListener::bind(("127.0.0.1", 0))?;
        match UdpSocket::bind(tcp.local_addr()?) {
            Ok(udp) => return Ok((udp, tcp)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Configuration {
    /// Chooses free ports, and writes all files into the plan's folder.
    pub(super) fn write(plan: &Plan) -> Result<Self, Error> {
        let folder = &plan.folder;
        fs::create_dir_all(folder).map_err(at(folder))?;
        // All are held at the same time, so that they differ.
        let tcp = || TcpListener::bind(("127.0.0.1", 0));
        let udp = || UdpSocket::bind(("127.0.0.1", 0));
        let (http, rtsp, rtsps, admin) = (tcp()?, tcp()?, tcp()?, tcp()?);
        let ((media, _media_tcp), quic) = (udp_and_tcp()?, udp()?);
        let secret = || format!("{:032x}", rand::random::<u128>());
        let configuration = Self {
            http: http.local_addr()?,
            media: media.local_addr()?,
            rtsp: rtsp.local_addr()?,
            rtsps: rtsps.local_addr()?,
            quic: quic.local_addr()?,
            admin: admin.local_addr()?,
            read_token: secret(),
            publish_token: secret(),
            password: secret(),
            file: folder.join("glassline.yml"),
            users: folder.join("users.yml"),
            certificate: folder.join("certificate.pem"),
            media_folder: plan.media_folder.clone(),
        };
        configuration.write_certificate(&folder.join("key.pem"))?;
        configuration.add_user(&plan.program)?;
        write(&configuration.file, &configuration.yaml())?;
        Ok(configuration)
    }

    fn write_certificate(&self, key: &Path) -> Result<(), Error> {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names)?;
        write(&self.certificate, &made.cert.pem())?;
        write(key, &made.signing_key.serialize_pem())
    }

    fn add_user(&self, program: &Path) -> Result<(), Error> {
        let wrong = |reason: String| Error::User(reason);
        // The folder may be that of an earlier run.
        let _ = fs::remove_file(&self.users);
        let mut command = Command::new(program);
        command.args([
            "user",
            "add",
            USER,
            "--read",
            "*",
            "--publish",
            "*",
            "--file",
        ]);
        let mut child = command
            .arg(&self.users)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| wrong(error.to_string()))?;
        if let Some(mut input) = child.stdin.take() {
            writeln!(input, "{}", self.password).map_err(|error| wrong(error.to_string()))?;
        }
        let output = child.wait_with_output();
        let output = output.map_err(|error| wrong(error.to_string()))?;
        if output.status.success() {
            Ok(())
        } else {
            Err(wrong(String::from_utf8_lossy(&output.stderr).into_owned()))
        }
    }

    /// Text of the configuration file.
    pub(super) fn yaml(&self) -> String {
        let media_folder = match &self.media_folder {
            Some(folder) => format!("'{}'", folder.display()),
            None => "null".to_owned(),
        };
        format!(
            "shards: 2\nhttp: {{address: '{}'}}\nmedia: {{address: '{}'}}\nadmin: {{address: \
             '{}'}}\nquic: {{address: '{}', certificate: certificate.pem, key: key.pem}}\nrtsp:\n  address: '{}'\n  media_folder: \
             {media_folder}\n  tls: {{address: '{}', certificate: certificate.pem, key: \
             key.pem}}\nwebrtc: {{data: {{viewers: write}}}}\nauth: {{read_token: '{}', publish_token: '{}', users_file: \
             users.yml}}\nsources: {{demo: demo}}\n",
            self.http,
            self.media,
            self.admin,
            self.quic,
            self.rtsp,
            self.rtsps,
            self.read_token,
            self.publish_token
        )
    }

    /// URL of a stream's WHEP endpoint.
    pub(super) fn whep(&self, stream: &str) -> String {
        format!("http://{}/{stream}/whep", self.http)
    }

    /// URL of a room for voice calls.
    pub(super) fn room(&self, name: &str) -> String {
        format!("http://{}/call/{name}?name=stranger", self.http)
    }

    /// URL of a stream for RTSP clients, with user and password.
    pub(super) fn rtsp_url(&self, stream: &str) -> String {
        format!("rtsp://{USER}:{}@{}/{stream}", self.password, self.rtsp)
    }

    /// URL of a stream for RTSP clients inside TLS, with user and password.
    pub(super) fn rtsps_url(&self, stream: &str) -> String {
        format!("rtsps://{USER}:{}@{}/{stream}", self.password, self.rtsps)
    }

    /// URL to publish a stream to by QUIC; the token comes from the environment.
    pub(super) fn moq_url(&self, stream: &str) -> String {
        format!("moq://{}/{stream}", self.quic)
    }

    /// Value of `Authorization` for HTTP Basic with this password.
    pub(super) fn basic(password: &str) -> String {
        use base64::Engine as _;
        let text = format!("{USER}:{password}");
        let encoded = base64::engine::general_purpose::STANDARD.encode(text);
        format!("Basic {encoded}")
    }
}

/// Writes a file of the run.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(at(path))
}

/// Reads a file of the run.
pub(super) fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(at(path))
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { path, source }
}
