//! Simulations: their values do not depend on the processor, so a change is one of the code.

use crate::figures::recipe::{Recipe, TENTH, Tolerance, Value, Work};

/// Values of the same seed are equal, up to sums of floating point.
const EXACT: Tolerance = Tolerance {
    relative: 0.005,
    absolute: 0.0,
};

/// The recipe from which others differ.
const BASE: Recipe = Recipe {
    page: "jitter-buffer",
    minutes: (0.5, 0.5),
    needs: &[],
    noise: EXACT,
    ..Recipe::BASE
};

const WAITS: &[Value] = &[
    Value::less("mean wait", "/wait_ms/mean", "ms")
        .beside(
            "NetEq M98",
            "/contenders/name=NetEq M98 (model)/wait_ms/mean",
        )
        .within(0.005, 0.0),
    Value::less("p95 of waits", "/wait_ms/p95", "ms")
        .beside(
            "NetEq M98",
            "/contenders/name=NetEq M98 (model)/wait_ms/p95",
        )
        .within(0.005, 0.0),
    Value::less("concealed", "/concealed_ratio", "%")
        .beside(
            "NetEq M98",
            "/contenders/name=NetEq M98 (model)/concealed_ratio",
        )
        .times(100.0)
        .within(0.005, 0.0),
];

pub(super) const JITTER_AR98: Recipe = Recipe {
    name: "jitter-ar98",
    about: "waits and concealment, delays as the study has them",
    work: Work::Program("bench jitter ar98:1 --quiet"),
    quick: Some(Work::Program("bench jitter ar98:1 --quiet")),
    values: WAITS,
    ..BASE
};

pub(super) const JITTER_MIXED: Recipe = Recipe {
    name: "jitter-mixed",
    about: "the same, a fifth of the variance from packet to packet",
    work: Work::Program("bench jitter mixed:1 --quiet"),
    values: WAITS,
    ..BASE
};

pub(super) const JITTER_AR90: Recipe = Recipe {
    name: "jitter-ar90",
    about: "the same, with delays that follow less from each other",
    work: Work::Program("bench jitter ar90:1 --quiet"),
    values: WAITS,
    ..BASE
};

pub(super) const SCTP_PATHS: Recipe = Recipe {
    name: "sctp-paths",
    page: "data-channels",
    about: "SCTP alone through 1 Gbit/s with delay and loss",
    work: Work::Bench {
        package: "glassline-sctp",
        target: "memory",
        arguments: "paths ours",
    },
    minutes: (2.0, 2.0),
    ..BASE
};

pub(super) const CLUSTER: Recipe = Recipe {
    name: "cluster",
    page: "cluster",
    about: "what a node has to do in clusters of 3 to 1,000 nodes",
    work: Work::Program("bench cluster --nodes 3,10,30,100,300,1000 --chaos 0 --quiet"),
    quick: Some(Work::Program(
        "bench cluster --nodes 3,100 --chaos 0 --quiet",
    )),
    minutes: (2.0, 0.2),
    values: &[
        messages(
            "100 nodes: messages, median",
            "/sizes/nodes=100/messages/p50",
        ),
        messages(
            "100 nodes: messages, busiest",
            "/sizes/nodes=100/messages/max",
        ),
        messages(
            "largest cluster: messages, median",
            "/sizes/-1/messages/p50",
        ),
        messages(
            "largest cluster: messages, busiest",
            "/sizes/-1/messages/max",
        ),
    ],
    ..BASE
};

const fn messages(name: &'static str, path: &'static str) -> Value {
    Value::less(name, path, "/s").within(0.005, 0.0)
}

pub(super) const CONGESTION: Recipe = Recipe {
    name: "congestion",
    page: "congestion",
    about: "300 live uploads under Glide and others, beside CUBIC",
    work: Work::Program(
        "bench congestion --arms cubic,bbr-study,copa,glide,glide-coupled --sessions 300 --quiet",
    ),
    minutes: (5.0, 5.0),
    needs: &[crate::figures::recipe::Need::Quiet],
    values: &[
        glide(
            "glide: transport RTT, P75",
            [
                "/arms/glide/transport_rtt_ms/P75",
                "/arms/cubic/transport_rtt_ms/P75",
            ],
        ),
        glide(
            "glide: transport RTT, P95",
            [
                "/arms/glide/transport_rtt_ms/P95",
                "/arms/cubic/transport_rtt_ms/P95",
            ],
        ),
        glide(
            "glide: app RTT, P50",
            ["/arms/glide/app_rtt_ms/P50", "/arms/cubic/app_rtt_ms/P50"],
        ),
        glide(
            "glide: app RTT, P90",
            ["/arms/glide/app_rtt_ms/P90", "/arms/cubic/app_rtt_ms/P90"],
        ),
        glide(
            "glide-coupled: app RTT, P50",
            [
                "/arms/glide-coupled/app_rtt_ms/P50",
                "/arms/cubic/app_rtt_ms/P50",
            ],
        ),
        Value::more(
            "glide: goodput, P50",
            "/arms/glide/goodput_mbps/P50",
            "Mbit/s",
        )
        .beside("CUBIC", "/arms/cubic/goodput_mbps/P50")
        .within(0.005, 0.0),
        Value::more(
            "glide-coupled: goodput, P50",
            "/arms/glide-coupled/goodput_mbps/P50",
            "Mbit/s",
        )
        .beside("CUBIC", "/arms/cubic/goodput_mbps/P50")
        .within(0.005, 0.0),
        Value::more(
            "virtual time by processor time",
            "/virtual_s_per_cpu_s",
            "s/s",
        )
        .within(TENTH.relative, 0.0),
    ],
    on_page: &["RTT", "goodput"],
    ..BASE
};

const fn glide(name: &'static str, [ours, cubic]: [&'static str; 2]) -> Value {
    Value::less(name, ours, "ms")
        .beside("CUBIC", cubic)
        .within(0.005, 0.0)
}
