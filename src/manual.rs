//! `glassline completions` and `glassline manual`: files for shells and for `man`, from the
//! definition of the command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::exit::Failure;
use crate::output;

/// Flags of `glassline completions`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Shell that reads the script.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Flags of `glassline manual`.
#[derive(Debug, Args)]
pub(crate) struct Manual {
    /// Folder that gets the pages, one for each command; it must exist.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

impl Completions {
    /// Prints the script that completes command lines of `program`.
    pub(crate) fn run(&self, mut program: Command) -> Result<ExitCode, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, "glassline", &mut script);
        output::print(&String::from_utf8_lossy(&script))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Manual {
    /// Writes the pages of `program` and of all its commands.
    pub(crate) fn run(&self, program: Command) -> Result<ExitCode, Failure> {
        let folder = &self.folder;
        clap_mangen::generate_to(program, folder)
            .map_err(|error| Failure::runtime(format_args!("{}: {error}", folder.display())))?;
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn every_command_has_a_page_and_every_option_is_on_it() {
        let folder = std::env::temp_dir().join(format!("glassline-manual-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let manual = Manual {
            folder: folder.clone(),
        };
        manual.run(crate::CommandLine::command()).expect("pages");
        let page = |name: &str| std::fs::read_to_string(folder.join(name)).expect("a page");
        let serve = page("glassline-serve.1");
        assert!(serve.contains("\\-\\-publish\\-token"), "{serve}");
        assert!(page("glassline-config-check.1").contains("\\-\\-try"));
        // The page is only made for packages.
        assert!(!folder.join("glassline-manual.1").exists());
        std::fs::remove_dir_all(&folder).expect("it is there");
    }

    #[test]
    fn every_shell_completes_every_command() {
        use clap::ValueEnum as _;
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            let mut program = crate::CommandLine::command();
            let names: Vec<String> = program
                .get_subcommands()
                .filter(|it| !it.is_hide_set())
                .map(|it| it.get_name().to_owned())
                .collect();
            clap_complete::generate(*shell, &mut program, "glassline", &mut script);
            let script = String::from_utf8(script).expect("text");
            for name in names {
                assert!(script.contains(&name), "{shell}: {name}");
            }
        }
    }
}
