//! `glassline api user` and `glassline api token`: who may use streams and the admin port.

use clap::{Args, Subcommand};
use glassline_access::auth::{Name, Pattern, Role};
use serde_json::{Value, json};

use super::{Api, Target, text};
use crate::exit::Failure;
use crate::output;
use crate::password;

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

/// What a user is to be.
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

/// What a token is to be for.
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
    /// Streams to read: a name, 'cam*', 'site/**' for a folder, or '**'. Repeatable.
    #[arg(long, value_name = "PATTERN")]
    read: Vec<Pattern>,
    /// Streams to publish: patterns as of --read. Repeatable.
    #[arg(long, value_name = "PATTERN")]
    publish: Vec<Pattern>,
}

impl Rights {
    fn to_json(&self) -> Value {
        json!({ "role": self.role, "read": self.read, "publish": self.publish })
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
        (false, false) => format!(
            "{}: set; role {}, read {}, publish {}\n",
            text(&set["name"]),
            text(&set["role"]),
            text(&set["read"]),
            text(&set["publish"])
        ),
    }
}
