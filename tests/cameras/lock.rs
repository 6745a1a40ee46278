//! The fake camera's password, asked for by Digest or Basic.

use std::sync::atomic::{AtomicU32, Ordering};

use glassline_rtsp::auth::digest::secret;
use glassline_rtsp::auth::{Authorization, User};
use glassline_rtsp::message::Request;

use super::device::Device;
use super::quirk::{Answer, Quirk};

/// User of every camera that has a password.
const USER: &str = "u";

/// The field that asks for the password, unless a row says otherwise.
const USUAL: &[&str] = &["Digest realm=\"camera\", nonce=\"{nonce}\""];

/// The credential that a request must show before it is answered.
pub(crate) struct Lock {
    is_needed: bool,
    password: &'static str,
    nonce: String,
    /// The fields that ask for the password, if they are not the usual one.
    lines: Option<&'static [&'static str]>,
}

impl Lock {
    pub(crate) fn new(device: &Device) -> Lock {
        let mut lock = Lock {
            is_needed: device.has_password(),
            password: device.password().0,
            nonce: "0".repeat(16),
            lines: device.row.quirks.iter().find_map(|quirk| match quirk {
                Quirk::Challenges(lines) => Some(*lines),
                _ => None,
            }),
        };
        // A camera that closes the connection after its challenge means it for the next one.
        if !device.row.has(Quirk::ClosesAfterChallenge) {
            lock.renew();
        }
        lock
    }

    /// Makes a nonce that was never seen before.
    pub(crate) fn renew(&mut self) {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        self.nonce = format!("{:016x}", NEXT.fetch_add(1, Ordering::Relaxed));
    }

    /// The fields that ask for the password.
    pub(crate) fn challenges(&self) -> Vec<(&'static str, String)> {
        let lines = self.lines.unwrap_or(USUAL).iter();
        lines
            .map(|line| ("WWW-Authenticate", line.replace("{nonce}", &self.nonce)))
            .collect()
    }

    /// Whether `request` has the credentials for the present nonce, or none are needed.
    pub(crate) fn opens(&self, request: &Request) -> bool {
        let user = User {
            name: USER.to_owned(),
            password: self.password.to_owned(),
        };
        let shown = request.headers.get("Authorization");
        match shown.and_then(Authorization::parse) {
            None => !self.is_needed,
            Some(Authorization::Basic(shown)) => shown == user,
            Some(Authorization::Digest(shown)) => {
                let secret = secret(shown.algorithm, &user, &shown.realm);
                let realm = shown.realm.replace('\\', "\\\\").replace('"', "\\\"");
                let asks = |line: &&str| {
                    let line = line.replace("REALM", "realm");
                    line.contains(&format!("realm=\"{realm}\""))
                };
                shown.nonce == self.nonce
                    && self.lines.unwrap_or(USUAL).iter().any(asks)
                    && shown.verify(&secret, request.method.as_str(), b"")
            }
        }
    }
}

impl Device {
    /// Returns user and password as URLs have them in front of the host; nothing without a password.
    pub(crate) fn user_in_url(&self) -> String {
        match self.has_password() {
            true => format!("{USER}:{}@", self.password().1),
            false => String::new(),
        }
    }

    /// Returns the password, as it is and as URLs have it.
    fn password(&self) -> (&'static str, &'static str) {
        match self.row.has(Quirk::PasswordOfSigns) {
            true => ("p@s#s/1?^%:", "p%40s%23s%2F1%3F%5E%25%3A"),
            false => ("p", "p"),
        }
    }

    pub(crate) fn has_password(&self) -> bool {
        self.row.quirks.iter().any(|quirk| {
            matches!(
                quirk,
                Quirk::Password
                    | Quirk::Challenges(_)
                    | Quirk::PasswordOfSigns
                    | Quirk::ClosesAfterChallenge
                    | Quirk::KeepAlive(Answer::FreshNonce)
            )
        })
    }
}
