//! Commands: a program without a shell, killed with all that it has started when its time is over.

use std::io;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::event::Event;

/// Interval at which a running command is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Where programs that the command starts are looked for. The server's own environment, which may
/// hold tokens, is not passed on.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The reason why a command did not do its work.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    #[error("cannot start it: {0}")]
    Start(#[source] io::Error),
    #[error("it ended with {0}")]
    Status(std::process::ExitStatus),
    #[error("it ran for longer than {} s and was killed", .0.as_secs())]
    TimedOut(Duration),
    #[error("it was killed, because the server stops")]
    Stopped,
    #[error("its thread ended")]
    NoThread,
}

/// Runs `command` as [`run_here`] does, on a thread of its own. The command is killed if the caller
/// waits no longer. A thread of tokio would hold up the end of the server.
///
/// # Errors
/// Returns [`CommandError`].
pub(super) async fn run(
    command: Vec<String>,
    event: Arc<Event>,
    timeout: Duration,
) -> Result<(), CommandError> {
    let (done, ended) = oneshot::channel();
    let is_stopped = Arc::new(AtomicBool::new(false));
    let _guard = StopOnDrop(Arc::clone(&is_stopped));
    let work = move || {
        let ran = run_here(&command, &event, timeout, &is_stopped);
        // An error means that nobody waits.
        let _ = done.send(ran);
    };
    let thread = std::thread::Builder::new().name("hook".to_owned());
    thread.spawn(work).map_err(CommandError::Start)?;
    ended.await.unwrap_or(Err(CommandError::NoThread))
}

/// Tells the thread of a command that nobody waits for it any more.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `command` with the event behind its arguments and in its environment, and waits for its end.
/// Blocks its thread.
///
/// # Errors
/// Returns [`CommandError`] if it does not start, fails, takes longer than `timeout`, or is stopped.
fn run_here(
    command: &[String],
    event: &Event,
    timeout: Duration,
    is_stopped: &AtomicBool,
) -> Result<(), CommandError> {
    let Some((program, arguments)) = command.split_first() else {
        return Ok(());
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .args([event.kind.as_str(), &event.stream])
        .env_clear()
        .env("PATH", PATH)
        .env("GLASSLINE_EVENT", event.kind.as_str())
        .env("GLASSLINE_STREAM", &event.stream)
        .env("GLASSLINE_REASON", without_nul(event.reason.as_deref()))
        .env("GLASSLINE_VIEWERS", event.viewers.to_string())
        .env("GLASSLINE_TIME_MS", event.time_ms.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // A group of its own, so that nothing that it starts outlives it.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn().map_err(CommandError::Start)?;
    wait(&mut child, timeout, is_stopped)
}

fn wait(child: &mut Child, timeout: Duration, is_stopped: &AtomicBool) -> Result<(), CommandError> {
    let end = Instant::now() + timeout;
    let why = loop {
        match child.try_wait().map_err(CommandError::Start)? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(CommandError::Status(status)),
            None if is_stopped.load(Ordering::Relaxed) => break CommandError::Stopped,
            None if Instant::now() < end => std::thread::sleep(LOOK),
            None => break CommandError::TimedOut(timeout),
        }
    };
    // Errors mean that it has just ended.
    let _ = glassline_net::kill_process_group(child.id());
    let _ = child.kill();
    let _ = child.wait();
    Err(why)
}

fn without_nul(text: Option<&str>) -> String {
    text.unwrap_or_default().replace('\0', " ")
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::SystemTime;

    use super::super::event::EventKind;
    use super::*;

    fn run(command: &[String], event: &Event, timeout: Duration) -> Result<(), CommandError> {
        run_here(command, event, timeout, &AtomicBool::new(false))
    }

    fn event() -> Event {
        Event {
            reason: Some("no route;\0$(reboot)".to_owned()),
            viewers: 2,
            ..Event::new(EventKind::SourceDown, "cam 1;`id`", SystemTime::UNIX_EPOCH)
        }
    }

    fn folder() -> std::path::PathBuf {
        let number: u64 = rand::random();
        let folder = std::env::temp_dir().join(format!("glassline-hook-{number:x}"));
        std::fs::create_dir(&folder).expect("a folder");
        folder
    }

    /// Returns a command that runs `script`, with `$0` for the file `out`.
    fn script(script: &str, out: &std::path::Path) -> Vec<String> {
        let out = out.display().to_string();
        ["/bin/sh", "-c", script, &out].map(str::to_owned).to_vec()
    }

    #[test]
    fn a_command_gets_the_event_as_arguments_and_environment_and_nothing_of_the_server() {
        let folder = folder();
        let out = folder.join("out");
        let text =
            "printf '%s|' \"$@\" \"$GLASSLINE_REASON\" $GLASSLINE_VIEWERS > \"$0\"; env >> \"$0\"";
        run(&script(text, &out), &event(), Duration::from_secs(60)).expect("it works");
        let written = std::fs::read_to_string(&out).expect("a file");
        let expected = "source_down|cam 1;`id`|no route; $(reboot)|2|";
        assert!(written.starts_with(expected), "{written}");
        let own = std::env::var("HOME").is_ok() && written.contains("\nHOME=");
        assert!(!own && !written.contains("CARGO"), "{written}");
        std::fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn a_command_that_fails_or_is_not_there_is_an_error() {
        let long = Duration::from_secs(60);
        let failed = run(&["/bin/false".to_owned()], &event(), long);
        assert!(matches!(failed, Err(CommandError::Status(_))), "{failed:?}");
        let absent = run(&["/no/such/program".to_owned()], &event(), long);
        assert!(matches!(absent, Err(CommandError::Start(_))), "{absent:?}");
    }

    #[test]
    fn a_command_that_takes_too_long_is_killed_with_what_it_started() {
        let folder = folder();
        let out = folder.join("pid");
        // The shell's child would write after a second, and outlive the shell.
        let text = "(sleep 3; echo late > \"$0.late\") & echo $! > \"$0\"; wait";
        let begun = Instant::now();
        let ran = run(&script(text, &out), &event(), Duration::from_millis(500));
        assert!(matches!(ran, Err(CommandError::TimedOut(_))), "{ran:?}");
        assert!(begun.elapsed() < Duration::from_secs(60));
        // The group is gone, not only its leader: the process of this number is dead, or a zombie
        // that nobody has waited for.
        let pid = std::fs::read_to_string(&out).expect("it began");
        let end = Instant::now() + Duration::from_secs(20);
        while is_alive(&pid) {
            assert!(Instant::now() < end, "what it started lives on");
            std::thread::sleep(LOOK);
        }
        assert!(!folder.join("pid.late").exists());
        std::fs::remove_dir_all(folder).expect("removed");
    }

    #[tokio::test]
    async fn a_command_that_nobody_waits_for_is_killed() {
        let folder = folder();
        let out = folder.join("pid");
        let command = script(
            "echo $$ > \"$0.new\"; mv \"$0.new\" \"$0\"; sleep 600",
            &out,
        );
        let running = super::run(command, Arc::new(event()), Duration::from_secs(300));
        let begun = async {
            while !out.exists() {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::select! {
            ran = running => panic!("{ran:?}"),
            () = begun => {}
        }
        let pid = std::fs::read_to_string(&out).expect("it began");
        let end = Instant::now() + Duration::from_secs(20);
        while is_alive(&pid) {
            assert!(Instant::now() < end, "it lives on");
            std::thread::sleep(LOOK);
        }
        std::fs::remove_dir_all(folder).expect("removed");
    }

    /// Returns whether a process runs: it is there, and no zombie that nobody has waited for.
    fn is_alive(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        let stat = stat.unwrap_or_default();
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
        !matches!(state, None | Some(None | Some('Z' | 'X')))
    }
}
