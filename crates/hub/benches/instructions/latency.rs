//! The server's registry of delays, without the types of the WebRTC crate.

#[path = "../../../server/src/latency/account.rs"]
mod account;
#[path = "../../../server/src/latency/accounts.rs"]
mod accounts;
#[path = "../../../server/src/latency/distribution.rs"]
mod distribution;
#[path = "../../../server/src/latency/everyone.rs"]
mod everyone;
#[path = "../../../server/src/latency/frame_stamps.rs"]
mod frame_stamps;
#[path = "../../../server/src/latency/report.rs"]
mod report;
#[path = "../../../server/src/latency/view.rs"]
mod view;

pub(crate) use account::Joined;
pub(crate) use frame_stamps::FrameStamps;
pub(crate) use report::{Origins, Report, join};
pub(crate) use view::ViewerLatency;

use std::time::Instant;

use glassline_runtime::SessionId;

/// The accounts of the viewers of one stream.
#[derive(Default)]
pub(crate) struct Registry(accounts::Accounts);

impl Registry {
    /// Returns the answer to a viewer's report, as the server's registry does.
    pub(crate) fn report(
        &self,
        viewer: &SessionId,
        joined: &Joined,
        now: Instant,
    ) -> ViewerLatency {
        let window = self.0.report(viewer, joined, now);
        window.latency()
    }
}

/// The state of a path, of which reports tell nothing.
mod path {
    #[derive(Clone, Debug, PartialEq, serde::Serialize, schemars::JsonSchema)]
    pub(crate) struct PathView;
    #[derive(Clone, Debug, PartialEq, serde::Serialize, schemars::JsonSchema)]
    pub(crate) struct SelectedPath;
}

/// The statistics of data channels, of which reports tell nothing.
mod data {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
    pub(crate) struct DataView;
}
