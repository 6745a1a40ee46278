//! coturn, the TURN server of Debian.

use std::process::Command;

use crate::browser::PATIENCE;
use crate::peers;
use crate::ports::free_port;
use crate::process::Running;

/// The address of coturn where nothing else is asked for.
const LOOPBACK: &str = "127.0.0.1";

/// A coturn process on free ports.
pub(crate) struct Coturn {
    _running: Running,
    pub(crate) plain: u16,
    pub(crate) tls: u16,
}

impl Coturn {
    /// Starts coturn for a user with a password, `NAME:PASSWORD`, with more `flags`.
    pub(crate) fn for_user(user: &str, flags: &[&str]) -> Result<Self, String> {
        let user = ["--lt-cred-mech", "--user", user];
        Self::start(LOOPBACK, &[&user, flags].concat())
    }

    /// Starts coturn for everybody whose credentials are made from `secret`.
    pub(crate) fn with_secret(secret: &str) -> Result<Self, String> {
        Self::at(LOOPBACK, secret)
    }

    /// Starts coturn as [`with_secret`](Self::with_secret) at another address of this machine.
    pub(crate) fn at(ip: &str, secret: &str) -> Result<Self, String> {
        Self::start(ip, &["--use-auth-secret", "--static-auth-secret", secret])
    }

    fn start(ip: &str, flags: &[&str]) -> Result<Self, String> {
        let [plain, tls] = [free_port()?, free_port()?];
        let data = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/server/tests/data/");
        let (certificate, key) = (
            format!("{data}localhost.pem"),
            format!("{data}localhost.key.pem"),
        );
        let (plain_flag, tls_flag) = (plain.to_string(), tls.to_string());
        let mut command = Command::new(peers::installed("turnserver")?);
        command.args(["-n", "--listening-ip", ip, "--relay-ip", ip]);
        command.args([
            "--listening-port",
            &plain_flag,
            "--tls-listening-port",
            &tls_flag,
        ]);
        command.args([
            "--allow-loopback-peers",
            "--cli-password",
            "unused",
            "--no-cli",
        ]);
        command.args(["--realm", "test.example"]);
        command.args([
            "--cert",
            &certificate,
            "--pkey",
            &key,
            "--log-file",
            "stdout",
        ]);
        // Nonces change during a test.
        command.args(["--stale-nonce", "1", "--verbose"]);
        command.args(flags);
        let running = Running::start("coturn", command)?;
        let address = format!("{ip}:{plain}");
        crate::process::eventually(PATIENCE, || {
            std::net::TcpStream::connect(&address)
                .map(drop)
                .map_err(|error| error.to_string())
        })?;
        Ok(Self {
            _running: running,
            plain,
            tls,
        })
    }
}
