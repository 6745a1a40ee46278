//! Passwords that people type, or pipe in.

use std::fmt::Display;
use std::io::{IsTerminal as _, Read as _};

use crate::exit::Failure;

/// Longest password, in bytes. Longer input was probably piped in by mistake.
const BYTES_MAX: usize = 1024;

/// Asks for a new password of `user`: twice on a terminal, since it is not shown there.
pub(crate) fn choose(user: impl Display) -> Result<String, Failure> {
    if !std::io::stdin().is_terminal() {
        return checked(from_stdin()?);
    }
    let password = from_terminal(&format!("Password for {user}: "))?;
    if from_terminal("Once more: ")? != password {
        return Err(Failure::usage(
            "the two passwords differ; nothing was changed",
        ));
    }
    checked(password)
}

/// Asks for the password that `user` has elsewhere.
pub(crate) fn ask(user: impl Display) -> Result<String, Failure> {
    checked(match std::io::stdin().is_terminal() {
        true => from_terminal(&format!("Password of {user}: "))?,
        false => from_stdin()?,
    })
}

fn from_terminal(prompt: &str) -> Result<String, Failure> {
    let terminal = console::Term::stderr();
    let asked = terminal.write_str(prompt);
    let answer = asked.and_then(|()| terminal.read_secure_line());
    answer.map_err(|error| {
        Failure::runtime(format_args!(
            "cannot read the password from the terminal: {error}"
        ))
    })
}

/// Reads the first line of stdin.
fn from_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    let mut bounded = std::io::stdin().lock().take(BYTES_MAX as u64 + 2);
    let read = bounded.read_to_string(&mut text);
    read.map_err(|error| {
        Failure::runtime(format_args!("cannot read the password from stdin: {error}"))
    })?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn checked(password: String) -> Result<String, Failure> {
    match password.len() {
        0 => Err(Failure::usage(
            "the password is empty: type one, or pipe it in",
        )),
        1..=BYTES_MAX => Ok(password),
        _ => Err(Failure::usage(format_args!(
            "a password has at most {BYTES_MAX} bytes"
        ))),
    }
}
