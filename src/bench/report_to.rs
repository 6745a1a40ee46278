//! Sends the report of a load test to the server that was tested, whose dashboard shows it.

use clap::Args;
use glassline_lab::viewers::report::Report;
use serde_json::{Value, json};
use url::Url;

use crate::api_command::{Api, Target};
use crate::exit::Failure;

/// The server that keeps the report.
#[derive(Debug, Args)]
pub(super) struct ReportTo {
    /// Give the figures to the server with this admin port, for its dashboard; needs the role
    /// `operator`.
    #[arg(long, value_name = "ADMIN_URL", requires = "server_pid")]
    report_to: Option<Url>,
    /// Token for the admin port.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "GLASSLINE_ADMIN_TOKEN",
        hide_env_values = true
    )]
    admin_token: Option<String>,
}

impl ReportTo {
    fn target(&self) -> Option<Target> {
        let url = self.report_to.clone()?;
        Some(Target::new(url, self.admin_token.clone()))
    }

    /// Asks the server whether it would take a report, so that a wrong URL or token is found before
    /// the load starts.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let Some(target) = self.target() else {
            return Ok(());
        };
        let told = |error: Failure| Failure::usage(format_args!("--report-to: {error}"));
        let session = Api::new(&target).send("GET", &["session"], &[], None);
        let role = session.map_err(told)?["role"].take();
        match role.as_str() {
            Some("operator" | "admin") => Ok(()),
            role => {
                let role = role.unwrap_or("without a role");
                let text = format!("--report-to needs the role operator, and the token is {role}");
                Err(Failure::usage(text))
            }
        }
    }

    /// Sends what the server keeps of `report`.
    pub(super) fn send(&self, report: &Report) -> Result<(), Failure> {
        let Some(target) = self.target() else {
            return Ok(());
        };
        let path = ["load-test"];
        let body = kept(report);
        let sent = Api::new(&target).send_json("PUT", &path, &body);
        sent.map(drop)
            .map_err(|error| Failure::runtime(format_args!("--report-to: {error}")))
    }
}

/// Returns the members of a report that a server keeps: the whole one may be larger than a request.
fn kept(report: &Report) -> Value {
    let steps = report.steps.iter().map(|step| {
        json!({
            "viewers": step.viewers,
            "server_cpu_percent": step.server_cpu_percent,
            "delivered_ratio": step.delivered_of_clock(),
        })
    });
    json!({
        "label": report.label,
        "protocol": report.protocol,
        "started": report.started,
        "verdict": report.verdict,
        "steps": steps.collect::<Vec<_>>(),
    })
}
