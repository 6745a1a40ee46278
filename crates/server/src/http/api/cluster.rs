//! The API for operators about the cluster that agrees through NATS.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use glassline_access::auth::Role;
use glassline_cluster_member::{Member, MemberView, NodesView};
use schemars::JsonSchema;
use serde::Deserialize;

use super::super::extract::Query;
use super::super::openapi::{Operation, Routes};
use super::super::problem::Problem;
use crate::app::App;

/// Longest time that a drain may take, in seconds.
const WITHIN_MAX_S: u64 = 24 * 3600;

/// Query of a drain.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct DrainQuery {
    /// Seconds after which publishers that are left must go.
    #[serde(default = "within_s")]
    within_s: u64,
}

/// Returns the routes about the cluster.
pub(super) fn routes() -> Routes {
    let alone = "The server is in no cluster that agrees through NATS";
    Routes::default()
        .get(
            "/api/v1/cluster",
            Operation::new("getCluster", "Returns what the server knows of its cluster")
                .problem(404, alone),
            cluster,
        )
        .get(
            "/api/v1/cluster/nodes",
            Operation::new(
                "getNodes",
                "Returns the servers of the cluster without its streams",
            )
            .problem(404, alone),
            nodes,
        )
        .on(
            Method::POST,
            "/api/v1/cluster/drain",
            Operation::new("drain", "Sends publishers and sources to other servers")
                .problem(404, alone)
                .needs(Role::Operator),
            drain,
        )
        .on(
            Method::DELETE,
            "/api/v1/cluster/drain",
            Operation::new("resume", "Takes a drain back")
                .problem(404, alone)
                .needs(Role::Operator),
            resume,
        )
}

const fn within_s() -> u64 {
    30
}

fn member(app: &App) -> Result<&Arc<Member>, Problem> {
    let member = app.sessions.directory().and_then(|it| it.member());
    member.ok_or_else(|| {
        let detail = "this server is in no cluster that agrees through NATS: `cluster.nats` in its \
                      configuration";
        Problem::new(StatusCode::NOT_FOUND, "No cluster", detail)
    })
}

/// Returns what this server knows of its cluster: `GET /api/v1/cluster`.
pub(super) async fn cluster(State(app): State<App>) -> Result<Json<MemberView>, Problem> {
    member(&app).map(|member| Json(member.view()))
}

/// Returns the servers of the cluster as this one knows them: `GET /api/v1/cluster/nodes`.
pub(super) async fn nodes(State(app): State<App>) -> Result<Json<NodesView>, Problem> {
    member(&app).map(|member| Json(member.nodes_view()))
}

/// Takes no new publishers from now on, and sends those that are left away at the deadline:
/// `POST /api/v1/cluster/drain?within_s=30`.
pub(super) async fn drain(
    State(app): State<App>,
    Query(query): Query<DrainQuery>,
) -> Result<Json<MemberView>, Problem> {
    if query.within_s > WITHIN_MAX_S {
        let detail = format!("within_s is at most {WITHIN_MAX_S}, a day");
        return Err(Problem::bad_request(detail));
    }
    let member = member(&app)?;
    member.drain(Duration::from_secs(query.within_s));
    Ok(Json(member.view()))
}

/// Serves again as before the drain: `DELETE /api/v1/cluster/drain`.
pub(super) async fn resume(State(app): State<App>) -> Result<Json<MemberView>, Problem> {
    let member = member(&app)?;
    member.resume();
    Ok(Json(member.view()))
}
