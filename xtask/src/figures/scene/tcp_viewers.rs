//! A viewer over TCP (ICE-TCP) beside an RTSP client and a viewer over UDP, in turns.

use serde_json::{Value as Json, json};

use super::serving::Serving;
use super::{Setting, median, number};
use crate::bench_peers;

/// Turns of each way.
const TURNS: usize = 5;

const LIMITS: &str = "limits: {half_open_per_address: 1000}\n";

pub(super) fn run(setting: &Setting) -> Result<Json, String> {
    let (video, audio) = bench_peers::reference()?;
    let source = format!("reference={},{}", video.display(), audio.display());
    let arguments = ["--shards", "1", "--source", &source];
    let serving = Serving::start(setting, LIMITS, &arguments, "reference")?;
    let whep = format!("http://127.0.0.1:{}/reference/whep", serving.http);
    let rtsp = format!("rtsp://127.0.0.1:{}/reference", serving.rtsp);
    let process = serving.id();
    let load = ["--ramp", "100", "--hold", "8s", "--server-pid", &process];
    let ways = [
        [&whep[..], "--transport", "tcp"],
        [&whep[..], "--transport", "udp"],
        [&rtsp[..], "--transport", "tcp"],
    ];
    let mut costs = [const { Vec::new() }; 3];
    let mut ratios = Vec::new();
    for _ in 0..TURNS {
        for (way, costs) in ways.iter().zip(&mut costs) {
            let report = setting.viewers(&[&way[..], &load].concat())?;
            let delivered = number(&report, "/steps/-1/delivered_ratio")?;
            if delivered < DELIVERED_MIN {
                return Err(format!(
                    "{}: delivered {delivered:.3} of the stream",
                    way.join(" ")
                ));
            }
            costs.push(number(
                &report,
                "/steps/-1/server_cpu_ms_per_viewer_second",
            )?);
        }
        let last = |way: usize| costs[way].last().copied().unwrap_or(f64::NAN);
        ratios.push(last(0) / last(2));
    }
    Ok(json!({
        "tcp_ms_per_viewer_second": median(&costs[0]),
        "udp_ms_per_viewer_second": median(&costs[1]),
        "rtsp_ms_per_client_second": median(&costs[2]),
        "tcp_to_rtsp_ratios": ratios,
    }))
}

/// Costs are compared only where this share of the stream arrived.
const DELIVERED_MIN: f64 = 0.99;
