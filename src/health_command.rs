//! `glassline health`: asks a running server whether it is well, for health checks of containers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use glassline_config::Config;

use crate::exit::Failure;
use crate::output;

/// Time that the server has to answer. Threads that are stuck are found within five seconds, and
/// the listener for operators answers in any case.
const PATIENCE: Duration = Duration::from_secs(3);

/// Most bytes of an answer that are shown.
const ANSWER_BYTES_MAX: u64 = 4 << 10;

/// Flags of `glassline health`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Configuration file with the address of the admin port; without one, the default.
    #[arg(value_name = "CONFIG.yml")]
    config: Option<PathBuf>,
    /// URL of the admin port instead.
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    admin: Option<url::Url>,
    /// A source must be live, too (`/readyz`).
    #[arg(long)]
    ready: bool,
}

/// Asks the server, and prints its answer. An unwell server, or one that does not answer, is a
/// failure while running: exit code 1, as health checks of containers expect it.
pub(crate) fn run(options: &Options, quiet: bool) -> Result<ExitCode, Failure> {
    let base = match (&options.admin, &options.config) {
        (Some(url), _) => url.clone(),
        (None, Some(file)) => url_of(&Config::load(file).map_err(Failure::usage)?)?,
        (None, None) => url_of(&Config::of_environment().map_err(Failure::usage)?)?,
    };
    let path = if options.ready { "readyz" } else { "healthz" };
    let url = base.join(path).map_err(|error| {
        Failure::usage(format_args!(
            "--admin: {base} is no URL of a server: {error}"
        ))
    })?;
    let agent = ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .http_status_as_error(false)
        .build()
        .new_agent();
    let unanswered = |error: ureq::Error| Failure::runtime(format_args!("{url}: {error}"));
    let mut answer = agent.get(url.as_str()).call().map_err(unanswered)?;
    let status = answer.status();
    let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
    let text = body.lossy_utf8(true).read_to_string().map_err(unanswered)?;
    if !status.is_success() {
        return Err(Failure::runtime(format_args!("{url}: {}", text.trim())));
    }
    if !quiet {
        output::print(&format!("{}\n", text.trim()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the URL under which this machine reaches the listener for operators.
fn url_of(config: &Config) -> Result<url::Url, Failure> {
    let mut address: SocketAddr = config.admin.address;
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    format!("http://{address}/").parse().map_err(Failure::usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listener_is_asked_where_this_machine_reaches_it() {
        let url = |yaml: &str| {
            let config = Config::from_yaml(yaml, "test.yml").expect("a good file");
            url_of(&config).expect("a URL").to_string()
        };
        assert_eq!(url(""), "http://127.0.0.1:9997/");
        let everywhere = "admin: {address: '0.0.0.0:1234'}";
        assert_eq!(url(everywhere), "http://127.0.0.1:1234/");
        assert_eq!(url("admin: {address: '[::]:80'}"), "http://[::1]/");
        let one = "admin: {address: '192.0.2.7:1'}";
        assert_eq!(url(one), "http://192.0.2.7:1/");
    }
}
