//! What attackers cost a server, and its viewers.

use crate::figures::recipe::{Recipe, Value, Work};

/// The fields that the recipes have in common.
const BASE: Recipe = Recipe {
    page: "hardening",
    ..Recipe::BASE
};

pub(super) const ATTACKS: Recipe = Recipe {
    name: "attacks",
    about: "floods of 50,000 a second, and a kill",
    work: Work::Program(
        "bench chaos --media-folder assets --rate 50000 --time 30s --only flood-stun --only flood-dtls --only flood-quic --only kill-server",
    ),
    minutes: (4.0, 4.0),
    values: &[
        Value::less(
            "STUN: server",
            "/actions/name=flood-stun/server_cpu_percent",
            "% of a core",
        ),
        Value::less(
            "DTLS: server",
            "/actions/name=flood-dtls/server_cpu_percent",
            "% of a core",
        ),
        Value::less(
            "QUIC: server",
            "/actions/name=flood-quic/server_cpu_percent",
            "% of a core",
        ),
        longer(
            "STUN: p99 gap longer by",
            "/actions/name=flood-stun/gap_p99_more_ms",
        ),
        longer(
            "DTLS: p99 gap longer by",
            "/actions/name=flood-dtls/gap_p99_more_ms",
        ),
        longer(
            "QUIC: p99 gap longer by",
            "/actions/name=flood-quic/gap_p99_more_ms",
        ),
        Value::less(
            "killed: video is back after",
            "/actions/name=kill-server/back_s",
            "s",
        )
        .within(0.2, 0.3),
    ],
    ..BASE
};

const fn longer(name: &'static str, path: &'static str) -> Value {
    Value::less(name, path, "ms").within(0.0, 3.0)
}

pub(super) const FORGED: Recipe = Recipe {
    name: "forged",
    about: "first packets of QUIC from 1,000 addresses, 50,000 a second",
    work: Work::Program(
        "bench chaos --media-folder assets --rate 50000 --count 1000 --time 30s --only flood-quic",
    ),
    minutes: (1.5, 1.5),
    values: &[
        Value::less(
            "server",
            "/actions/name=flood-quic/server_cpu_percent",
            "% of a core",
        ),
        longer(
            "p99 gap longer by",
            "/actions/name=flood-quic/gap_p99_more_ms",
        ),
    ],
    ..BASE
};

pub(super) const LOGINS: Recipe = Recipe {
    name: "logins",
    about: "1,000 wrong logins a second for half a minute",
    work: Work::Program("bench chaos --media-folder assets --rate 1000 --time 30s --only logins"),
    minutes: (2.0, 2.0),
    values: &[
        Value::less(
            "server, with viewers",
            "/actions/name=logins/server_cpu_percent",
            "% of a core",
        ),
        longer("p99 gap longer by", "/actions/name=logins/gap_p99_more_ms"),
    ],
    ..BASE
};
