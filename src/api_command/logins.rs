//! `glassline api user` and `glassline api token`: who may use streams and the admin port.

use clap::{Args, Subcommand};
use glassline_access::auth::{Name, Role, StreamRights};
use serde_json::{Value, json};

use super::{Api, Target, text};
use crate::exit::Failure;
use crate::output;
use crate::password;
use crate::right_flags::RightFlags;

#[derive(Debug, Subcommand)]
pub(crate) enum UserAction {
    /// Make a user, or give one other rights or another password.
    ///
    /// The password is read from the terminal without showing it, or from stdin if that is no
    /// terminal.
    Set(SetUser),
    /// Delete a user that was made over the API.
    Delete(NamedLogin),
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenAction {
    /// Make a token, and print it this once; or give one other rights.
    Set(SetToken),
    /// Delete a token that was made over the API.
    Delete(NamedLogin),
}

/// The wanted properties of a user.
#[derive(Debug, Args)]
pub(crate) struct SetUser {
    /// Name of the user.
    name: Name,
    #[command(flatten)]
    rights: Rights,
    /// Keep the password.
    #[arg(long)]
    keep_password: bool,
    #[command(flatten)]
    target: Target,
}

/// The wanted properties of a token.
#[derive(Debug, Args)]
pub(crate) struct SetToken {
    /// Name of the token.
    name: Name,
    #[command(flatten)]
    rights: Rights,
    #[command(flatten)]
    target: Target,
}

/// A user or token by name.
#[derive(Debug, Args)]
pub(crate) struct NamedLogin {
    /// Name of the user or token.
    name: Name,
    #[command(flatten)]
    target: Target,
}

/// Rights to streams, and on the admin port.
#[derive(Debug, Args)]
struct Rights {
    /// Role on the admin port: viewer (see), operator (also end viewers and the like), or admin
    /// (also create, change and delete).
    #[arg(long, value_name = "ROLE")]
    role: Option<Role>,
    #[command(flatten)]
    streams: RightFlags,
}

impl Rights {
    fn to_json(&self) -> Value {
        let streams = StreamRights::from(self.streams.clone());
        let mut body = serde_json::to_value(streams).expect("plain data");
        body["role"] = json!(self.role);
        body
    }
}

pub(crate) fn of_user(action: &UserAction, quiet: bool) -> Result<String, Failure> {
    match action {
        UserAction::Set(user) => {
            let mut body = user.rights.to_json();
            if !user.keep_password {
                body["password"] = password::choose(&user.name)?.into();
            }
            let path = ["users", user.name.as_str()];
            let set = Api::new(&user.target).send_json("PUT", &path, &body)?;
            Ok(told(&set, user.target.json, quiet))
        }
        UserAction::Delete(named) => delete("users", named, quiet),
    }
}

pub(crate) fn of_token(action: &TokenAction, quiet: bool) -> Result<String, Failure> {
    match action {
        TokenAction::Set(token) => {
            let path = ["tokens", token.name.as_str()];
            let body = token.rights.to_json();
            let set = Api::new(&token.target).send_json("PUT", &path, &body)?;
            match set["token"].as_str().filter(|_| !token.target.json) {
                // It is what the command is for, so that `--quiet` prints it, too.
                Some(drawn) => Ok(format!("{drawn}\n")),
                None => Ok(told(&set, token.target.json, quiet)),
            }
        }
        TokenAction::Delete(named) => delete("tokens", named, quiet),
    }
}

fn delete(
    list: &str,
    NamedLogin { name, target }: &NamedLogin,
    quiet: bool,
) -> Result<String, Failure> {
    let api = Api::new(target);
    api.send("DELETE", &[list, name.as_str()], &[], None)?;
    Ok(match quiet || target.json {
        true => String::new(),
        false => format!("{name}: deleted\n"),
    })
}

/// Returns what is printed of a user or token that was set.
fn told(set: &Value, json: bool, quiet: bool) -> String {
    match (json, quiet) {
        (true, _) => output::json(set),
        (false, true) => String::new(),
        (false, false) => format!("{}: set; {}\n", text(&set["name"]), rights(set)),
    }
}

/// Returns the rights of a user or token in words.
fn rights(set: &Value) -> String {
    let list = |key: &str| match set[key].as_array() {
        Some(streams) if !streams.is_empty() => Some(text(&set[key])),
        _ => None,
    };
    let role = set["role"].as_str().map(|role| format!("role {role}"));
    let read = list("read").map(|streams| format!("reads {streams}"));
    let publish = list("publish").map(|streams| format!("publishes {streams}"));
    let rights: Vec<_> = [role, read, publish].into_iter().flatten().collect();
    match rights.is_empty() {
        true => "no rights".to_owned(),
        false => rights.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_told_without_those_that_are_missing() {
        let operator = json!({"role": "operator", "read": [], "publish": []});
        assert_eq!(rights(&operator), "role operator");
        let ann = json!({"role": null, "read": ["cam*", "door"], "publish": ["cam1"]});
        assert_eq!(rights(&ann), "reads cam*,door, publishes cam1");
        assert_eq!(rights(&json!({})), "no rights");
    }
}
