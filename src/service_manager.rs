//! Tells the service manager how the server is: started, reading again, alive, ending.
//!
//! The protocol is that of systemd (sd_notify(3)): lines in a datagram to the Unix socket that
//! `NOTIFY_SOCKET` names. Without the variable nothing is sent.

use std::time::Duration;

#[cfg(target_os = "linux")]
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::exit::Failure;

/// The connection to the service manager that started this process, if there is one.
#[derive(Debug)]
pub(crate) struct ServiceManager {
    #[cfg(target_os = "linux")]
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// Time without a sign of life after which the service manager ends this process.
    watchdog: Option<Duration>,
}

/// The variables of the environment that a service manager sets.
#[derive(Debug, Default)]
struct Variables {
    /// `NOTIFY_SOCKET`: path of the socket; a name that begins with `@` is an abstract one.
    socket: Option<String>,
    /// `WATCHDOG_USEC`: most microseconds between two signs of life.
    watchdog_usec: Option<String>,
    /// `WATCHDOG_PID`: process that the watchdog is meant for.
    watchdog_pid: Option<String>,
}

impl ServiceManager {
    /// Finds the service manager by the environment.
    ///
    /// # Errors
    /// Returns a usage error if a variable is there and makes no sense: a unit of `Type=notify` would
    /// wait for a sign that never comes.
    pub(crate) fn of_environment() -> Result<Self, Failure> {
        let read = |name| std::env::var(name).ok().filter(|it| !it.is_empty());
        Self::new(&Variables {
            socket: read("NOTIFY_SOCKET"),
            watchdog_usec: read("WATCHDOG_USEC"),
            watchdog_pid: read("WATCHDOG_PID"),
        })
    }

    fn new(variables: &Variables) -> Result<Self, Failure> {
        let is_ours = |pid: &String| *pid == std::process::id().to_string();
        let is_watched = variables.watchdog_pid.as_ref().is_none_or(is_ours);
        let watchdog = variables.watchdog_usec.as_ref().filter(|_| is_watched);
        let watchdog = watchdog.map(|text| {
            let number = text.parse().ok().filter(|usec| *usec > 0);
            let wrong = || Failure::usage(format_args!("WATCHDOG_USEC: {text} is no time"));
            number.map(Duration::from_micros).ok_or_else(wrong)
        });
        Ok(Self {
            #[cfg(target_os = "linux")]
            socket: variables.socket.as_deref().map(open).transpose()?,
            watchdog: watchdog.transpose()?,
        })
    }

    /// Returns the interval at which [`Self::alive`] should be called: half of the time that the
    /// service manager allows. `None` if it watches nothing.
    pub(crate) fn watchdog_interval(&self) -> Option<Duration> {
        self.watchdog.map(|most| most / 2)
    }

    /// Says that all listeners are open; `status` is a line for people.
    pub(crate) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// Says that files are read again; [`Self::ready`] ends it.
    pub(crate) fn reloading(&self) {
        self.send("RELOADING=1\nSTATUS=reading users and certificates again");
    }

    /// Says that every thread makes progress.
    pub(crate) fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// Says what keeps [`Self::alive`] from being called.
    pub(crate) fn stuck(&self, reason: &str) {
        self.send(&format!("STATUS={reason}"));
    }

    /// Says that the server leaves its cluster and then ends, which takes `within` at most.
    pub(crate) fn draining(&self, within: Duration) {
        let usec = within.as_micros();
        let status = "leaving the cluster: other servers take over";
        self.send(&format!("EXTEND_TIMEOUT_USEC={usec}\nSTATUS={status}"));
    }

    /// Says that the server ends, and that viewers are told.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=shutting down: viewers are told");
    }

    #[cfg(target_os = "linux")]
    fn send(&self, lines: &str) {
        let Some((socket, address)) = &self.socket else {
            return;
        };
        // The service manager may be gone, or busy; media goes on in any case.
        if let Err(error) = socket.send_to_addr(lines.as_bytes(), address) {
            tracing::warn!(%error, "the service manager was not told (NOTIFY_SOCKET)");
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn send(&self, _lines: &str) {}
}

/// Opens a socket for sending to `name`, as `NOTIFY_SOCKET` has it.
#[cfg(target_os = "linux")]
fn open(name: &str) -> Result<(UnixDatagram, SocketAddr), Failure> {
    use std::os::linux::net::SocketAddrExt as _;
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(name),
    };
    let open = || {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok((socket, address?))
    };
    open().map_err(|error: std::io::Error| {
        Failure::usage(format_args!(
            "NOTIFY_SOCKET: cannot send to '{name}': {error}"
        ))
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt as _;

    /// The messages to the service manager from a server that was started with `socket`.
    fn heard(socket: &UnixDatagram, name: &str, say: impl FnOnce(&ServiceManager)) -> String {
        let manager = ServiceManager::new(&Variables {
            socket: Some(name.to_owned()),
            ..Variables::default()
        });
        say(&manager.expect("a socket"));
        let mut text = [0; 512];
        let length = socket.recv(&mut text).expect("a datagram");
        String::from_utf8_lossy(&text[..length]).into_owned()
    }

    #[test]
    fn a_service_manager_hears_of_the_start_at_a_path_and_at_an_abstract_name() {
        let name = format!("glassline-notify-{}", std::process::id());
        let path = std::env::temp_dir().join(&name);
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).expect("a socket");
        let shown = path.display().to_string();
        let text = heard(&socket, &shown, |it| it.ready("serving"));
        assert_eq!(text, "READY=1\nSTATUS=serving");
        std::fs::remove_file(&path).expect("it is there");
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let socket = UnixDatagram::bind_addr(&address).expect("a socket");
        let text = heard(&socket, &format!("@{name}"), ServiceManager::alive);
        assert_eq!(text, "WATCHDOG=1");
        let minute = Duration::from_secs(60);
        let text = heard(&socket, &format!("@{name}"), |it| it.draining(minute));
        assert!(text.starts_with("EXTEND_TIMEOUT_USEC=60000000\n"), "{text}");
    }

    #[test]
    fn the_watchdog_is_fed_twice_in_its_time_if_it_is_meant_for_this_process() {
        let interval = |usec: &str, pid: Option<u32>| {
            let manager = ServiceManager::new(&Variables {
                watchdog_usec: Some(usec.to_owned()),
                watchdog_pid: pid.map(|pid| pid.to_string()),
                ..Variables::default()
            });
            manager.map(|it| it.watchdog_interval())
        };
        let ours = std::process::id();
        let second = Some(Duration::from_secs(1));
        assert_eq!(interval("2000000", Some(ours)).expect("a time"), second);
        assert_eq!(interval("2000000", None).expect("a time"), second);
        assert_eq!(interval("2000000", Some(ours + 1)).expect("a time"), None);
        assert!(interval("soon", None).is_err());
        assert!(interval("0", None).is_err());
    }

    #[test]
    fn a_service_manager_that_is_gone_costs_nothing() {
        let manager = ServiceManager::new(&Variables {
            socket: Some("/nowhere/notify".to_owned()),
            ..Variables::default()
        });
        manager.expect("a path").ready("serving");
        let none = ServiceManager::new(&Variables::default()).expect("no variables");
        none.ready("serving");
        assert_eq!(none.watchdog_interval(), None);
    }
}
