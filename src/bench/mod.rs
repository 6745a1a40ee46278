//! `glassline bench`: measurements of servers, connections and algorithms.

mod adaptive;
mod chaos;
mod cluster;
mod congestion;
mod data;
pub(crate) mod files;
pub(crate) mod interrupt;
mod jitter;
mod jitter_quality;
pub(crate) mod quantity;
mod report_to;
mod send;
mod terminal;
mod viewers;

use std::process::ExitCode;

use clap::Subcommand;

use crate::exit::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum Benchmark {
    /// Load a server with viewers, and measure their cost, what they receive, and the bottleneck.
    ///
    /// Viewers join in steps; each step becomes a line of figures. Nothing needs to be installed on
    /// the server. --csv writes a row every 3 s.
    #[command(after_help = EXAMPLES)]
    Viewers(Box<viewers::Options>),
    /// Compare ways to send the same frames to many TCP connections.
    ///
    /// One thread sends paced frames on loopback, another reads them. Figures are processor time and
    /// system calls per packet, bytes copied, and how late frames are.
    Send(send::Options),
    /// Measure data channels between two ends, as iperf measures TCP.
    ///
    /// `glassline bench data serve` prints the URL for the other end, a glassline or a browser. The
    /// last line names what limited the run. --csv writes a row for each interval, or for each run
    /// of a sweep or a staircase; with `serve`, --json writes a line for each test.
    #[command(after_help = DATA)]
    Data(Box<data::Options>),
    /// Compare congestion controls on the networks of a whole population.
    ///
    /// Simulates live uploads over QUIC in virtual time, each session under every arm. Figures are
    /// percentiles over sessions, and their change against CUBIC with 95 % intervals. --csv writes a
    /// row for each session and arm. A seed gives the same figures again.
    #[command(after_help = CONGESTION)]
    Congestion(Box<congestion::Options>),
    /// Judge how a server adapts a stream with layers to the path of a viewer.
    ///
    /// Runs the server's sender in virtual time over paths that change, lose and share: the cases of RFC
    /// 8867, and others. Beside it: a sender without congestion control, libwebrtc's, and an oracle.
    /// --out writes a picture of each case. A seed gives the same figures again.
    #[command(after_help = ADAPTIVE)]
    Adaptive(Box<adaptive::Options>),
    /// Compare jitter buffers on the delays of a voice call's packets.
    ///
    /// A file has one-way delays in ms, one line for each packet and `lost` for a lost one. Runs in
    /// virtual time: our buffer with real audio, models of NetEq's control logic, one fixed delay,
    /// and an oracle that knows all future delays. --svg takes longer, since each buffer runs at
    /// several settings.
    #[command(after_help = JITTER)]
    Jitter(Box<jitter::Options>),
    /// Simulate clusters: the load of each node as they grow, and the rules under random faults.
    ///
    /// Runs the server's code in virtual time. Figures are messages at the engine and pulls, by
    /// node. --csv writes a row for each size. A seed gives the same figures again.
    #[command(after_help = CLUSTER)]
    Cluster(Box<cluster::Options>),
    /// Attack a server of its own, and measure what good viewers lose meanwhile.
    ///
    /// Starts a server, publishers and viewers on this machine, and performs actions by seed: floods,
    /// half-open requests, garbage, killed and stopped processes, full disks, broken files. --csv
    /// writes a row for each second. Nothing is sent to another machine.
    #[command(after_help = CHAOS)]
    Chaos(Box<chaos::Options>),
    /// Good viewers of `bench chaos`.
    #[command(hide = true)]
    ChaosViewers(chaos::AudienceOptions),
}

const ADAPTIVE: &str = "\
Examples:
  glassline bench adaptive --out adaptive
  glassline bench adaptive --case drop --case rise --arm ours --seeds 40
  glassline bench adaptive --list

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.";

const CLUSTER: &str = "\
Examples:
  glassline bench cluster
  glassline bench cluster --nodes 3,30,300,1000 --chaos 0 --svg cluster.svg
  glassline bench cluster --nodes 0 --chaos 10000

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a rule was broken or a --fail-if condition was met,
130 interrupted.";

const CHAOS: &str = "\
Examples:
  glassline bench chaos --minutes 10 --seed 7 --svg chaos.svg --json chaos.json
  glassline bench chaos --smoke
  glassline bench chaos --only flood-stun --rate 50000 --time 30s
  glassline bench chaos --only half-open --count 1100 --descriptors 1024

Exit codes: 0 nothing was missed, 1 failed, 2 wrong usage, 3 a demand was missed, 130 interrupted.";

const JITTER: &str = "\
Examples:
  glassline bench jitter ar98
  glassline bench jitter mixed:3 --loss 1% --svg mixed.svg --json mixed.json
  glassline bench jitter call.txt --interval 10ms --pull 10ms
  glassline bench jitter ar98:9 mixed:9 --quality --fail-if 'beside_m98.pesq_wb_lacks>0.1'
  glassline bench jitter clean --loss 5% --interval 10ms --quality --coding low-delay --red
  glassline bench jitter ar98:9 --fail-if 'wait_ms.mean>30' --fail-if 'concealed_ratio>0.00093'

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a --fail-if condition was met, 130 interrupted.";

const DATA: &str = "\
Examples:
  glassline bench data serve --listen 10.0.0.1:8890
  glassline bench data http://10.0.0.1:8890/data --direction both --time 30s --svg run.svg
  glassline bench data --impair 'rtt=20ms loss=1% rate=1gbit' --congestion standard
  glassline bench data --sweep message-size=16K,64K,256K,window=256K,4M --time 5s --svg sweep.svg
  glassline bench data --staircase --time 5s

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.";

const CONGESTION: &str = "\
Examples:
  glassline bench congestion --sessions 300 --svg study.svg
  glassline bench congestion --sessions 4000 --at-least policed=1000 --hold-out --resume run.jsonl --json run.json
  glassline bench congestion --arms cubic,bbr,glide --dial --sessions 300 --svg dial.svg

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a --fail-if condition was met, 130 interrupted.";

const EXAMPLES: &str = "\
Examples:
  glassline bench viewers http://127.0.0.1:8889/demo/whep --ramp 0:300:25 --server-pid $(pidof glassline)
  glassline bench viewers rtsp://camera/stream1 --transport udp --ramp 0:10:1
  glassline bench viewers URL --ramp 100 --hold 30s --fail-if 'loss>0.1%' --fail-if 'gap_p99>50ms'
  glassline bench viewers URL --json new.json --svg both.svg --overlay old.json
  glassline bench viewers URL --server-pid $(pidof glassline) --report-to http://127.0.0.1:9997

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a --fail-if condition was met, 130 interrupted.";

pub(crate) fn run(benchmark: &Benchmark, quiet: bool) -> Result<ExitCode, Failure> {
    match benchmark {
        Benchmark::Viewers(options) => viewers::run(options, quiet),
        Benchmark::Send(options) => send::run(options, quiet),
        Benchmark::Data(options) => data::run(options, quiet),
        Benchmark::Congestion(options) => congestion::run(options, quiet),
        Benchmark::Adaptive(options) => adaptive::run(options, quiet),
        Benchmark::Cluster(options) => cluster::run(options, quiet),
        Benchmark::Jitter(options) => jitter::run(options, quiet),
        Benchmark::Chaos(options) => chaos::run(options, quiet),
        Benchmark::ChaosViewers(options) => chaos::watch(options),
    }
}
