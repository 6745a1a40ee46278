//! `glassline user`: makes users with passwords and rights.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use glassline_access::auth::{Account, Name, Role, StreamRights};
use glassline_config::users_in;
use glassline_runtime::small_file;

use crate::exit::Failure;
use crate::output;
use crate::password;
use crate::right_flags::RightFlags;

/// Largest file of users that is read, as the server reads it.
const BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Create a user: asks for the password, and prints an entry for `auth.users`.
    ///
    /// The password is read from the terminal without showing it, or from stdin if that is no
    /// terminal. The printed entry is as secret as the password: with it, a client can log in
    /// over RTSP.
    Add {
        /// Name of the user.
        name: Name,
        #[command(flatten)]
        streams: RightFlags,
        /// Role on the admin port: viewer (see), operator (also end viewers and the like), or admin
        /// (also create, change and delete).
        #[arg(long, value_name = "ROLE")]
        role: Option<Role>,
        /// Add the user to this file (`auth.users_file`), readable by its owner only, instead of
        /// printing.
        #[arg(long, value_name = "PATH")]
        file: Option<PathBuf>,
    },
}

pub(crate) fn run(action: Action, quiet: bool) -> Result<ExitCode, Failure> {
    let Action::Add {
        name,
        streams,
        role,
        file,
    } = action;
    let rights = StreamRights::from(streams);
    if rights.is_empty() && role.is_none() {
        return Err(Failure::usage(
            "this user would have no rights: add --read PATTERN or --publish PATTERN, '**' for all streams, or --role ROLE for the admin port",
        ));
    }
    let list = file.as_deref().map(UserList::open).transpose()?;
    if let Some(list) = &list {
        list.has_room_for(&name)?;
    }
    let password = password::choose(&name)?;
    let account = Account {
        role,
        ..Account::new(name, &password, &glassline_access::auth::salt())
    };
    let account = account.with_rights(rights);
    match list {
        Some(list) => {
            list.add(&account)?;
            if !quiet {
                eprintln!("{}: user '{}' added", list.path.display(), account.name);
            }
        }
        None => {
            if !quiet {
                eprintln!("add this to the configuration, under `auth: users:`");
            }
            output::print(&account.to_yaml())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A file of users, and its text when it was read.
struct UserList<'a> {
    path: &'a Path,
    text: String,
}

impl<'a> UserList<'a> {
    fn open(path: &'a Path) -> Result<Self, Failure> {
        match small_file::read_text(path, BYTES_MAX) {
            Ok(text) => Ok(Self { path, text }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let text = String::new();
                Ok(Self { path, text })
            }
            Err(error) => Err(Failure::runtime(format_args!(
                "{}: {error}",
                path.display()
            ))),
        }
    }

    /// Fails if the user exists already, before anybody types a password.
    fn has_room_for(&self, name: &Name) -> Result<(), Failure> {
        let shown = self.path.display();
        let users = users_in(&self.text, &shown.to_string()).map_err(Failure::usage)?;
        if users.iter().any(|user| user.name == *name) {
            return Err(Failure::usage(format_args!(
                "{shown}: there is a user '{name}' already; for another password delete that entry first"
            )));
        }
        Ok(())
    }

    /// Writes the file with the new user: all of it, or nothing if that fails.
    fn add(&self, account: &Account) -> Result<(), Failure> {
        let shown = self.path.display();
        let mut text = self.text.clone();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text += &account.to_yaml();
        // A list in brackets, for example, takes no entry below it.
        if let Err(error) = users_in(&text, &shown.to_string()) {
            return Err(Failure::usage(format_args!(
                "a user cannot be added below what the file has: {error}; write the file as a list of '- name: …'"
            )));
        }
        let failed = |error| Failure::runtime(format_args!("{shown}: {error}"));
        let mut beside = self.path.as_os_str().to_owned();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        let written = output::write_for_owner(&beside, text.as_bytes())
            .and_then(|()| std::fs::rename(&beside, self.path));
        written.map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_added_below_what_the_file_has() {
        let folder = std::env::temp_dir().join(format!("glassline-user-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("users.yml");
        std::fs::write(&path, "# the night shift").expect("a file");
        let add = |name: &str| {
            let name = Name::parse(name).expect("a good name");
            let list = UserList::open(&path).expect("readable");
            list.has_room_for(&name)?;
            list.add(&Account::new(name, "pw", &[1; 16]))
        };
        let (ann, bob, twice) = (add("ann"), add("bob"), add("ann"));
        let text = std::fs::read_to_string(&path).expect("readable");
        std::fs::write(&path, "[]\n").expect("a file");
        let brackets = add("eve");
        std::fs::remove_dir_all(&folder).expect("cleaned up");
        assert!(ann.is_ok() && bob.is_ok(), "{ann:?} {bob:?}");
        assert!(
            text.starts_with("# the night shift\n- name: 'ann'\n"),
            "{text}"
        );
        assert_eq!(users_in(&text, "t").expect("a list").len(), 2);
        assert!(matches!(twice, Err(Failure::Usage(text)) if text.contains("'ann' already")));
        assert!(matches!(brackets, Err(Failure::Usage(text)) if text.contains("cannot be added")));
    }
}
