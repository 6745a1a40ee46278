// The browser's end of `glassline bench data`: the same plan, the same channels, the
// same control messages as the command's. See crates/lab/src/data/control.rs.

const form = document.getElementById("plan");
const verdict = document.getElementById("verdict");
const chart = document.getElementById("chart");
const rows = document.getElementById("rows");

const INTERVAL_MS = 1000;
const SETUP_MS = 15000;
const REPORT_MS = 10000;

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = form.querySelector("button");
  button.disabled = true;
  rows.replaceChildren();
  say("Connecting…");
  try {
    const run = new Run(planOf(new FormData(form)));
    window.run = run; // For tests and the curious.
    say((await run.go()).verdict);
  } catch (error) {
    say(`Failed: ${error.message}`);
    window.run = { failure: error.message };
  } finally {
    button.disabled = false;
  }
});

function say(text) {
  verdict.textContent = text;
}

function planOf(data) {
  const [high, low] = data.get("water").split(",").map(Number);
  return {
    direction: data.get("direction"),
    time_ms: Number(data.get("time")) * 1000,
    interval_ms: INTERVAL_MS,
    message_size: Number(data.get("message_size")),
    high_water: high,
    low_water: low,
    channels: Number(data.get("channels")),
    unordered: data.has("unordered"),
  };
}

/** Rejects when `promise` takes longer than `ms`. */
function within(ms, what, promise) {
  const late = new Promise((_, reject) =>
    setTimeout(() => reject(new Error(`${what} took longer than ${ms / 1000} s`)), ms));
  return Promise.race([promise, late]);
}

class Run {
  constructor(plan) {
    this.plan = plan;
    this.samples = []; // ours
    this.server = []; // the server's
    this.received = { bytes: 0, messages: 0 };
    this.sent = 0;
    this.rtt = null;
    this.done = null;
  }

  async go() {
    const peer = new RTCPeerConnection();
    this.peer = peer;
    try {
      this.control = peer.createDataChannel("control");
      const options = { ordered: !this.plan.unordered };
      this.channels = Array.from({ length: this.plan.channels }, (_, index) =>
        peer.createDataChannel(`data-${index}`, options));
      const opened = Promise.all([this.control, ...this.channels].map(open));
      const told = this.listen();
      await this.signal(peer);
      await within(SETUP_MS, "opening the channels", opened);
      const fits = peer.sctp?.maxMessageSize ?? 65536;
      if (this.plan.direction !== "down" && this.plan.message_size > fits) {
        throw new Error(`this browser sends at most ${fits} bytes to this server`);
      }
      this.tell({ type: "start" });
      await within(SETUP_MS, "the server's start", told.ready);
      await this.measure(told.report);
      return this.conclude();
    } finally {
      peer.close();
    }
  }

  async signal(peer) {
    await peer.setLocalDescription(await peer.createOffer());
    await within(SETUP_MS, "gathering addresses", new Promise((resolve) => {
      const check = () => peer.iceGatheringState === "complete" && resolve();
      peer.addEventListener("icegatheringstatechange", check);
      check();
    }));
    const response = await fetch("/data", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ plan: this.plan, sdp: peer.localDescription.sdp }),
    });
    if (!response.ok) throw new Error(await response.text());
    const { sdp } = await response.json();
    await peer.setRemoteDescription({ type: "answer", sdp });
  }

  listen() {
    for (const channel of this.channels) {
      channel.binaryType = "arraybuffer";
      channel.bufferedAmountLowThreshold = this.plan.low_water;
      channel.onmessage = ({ data }) => {
        this.received.bytes += data.byteLength ?? data.length;
        this.received.messages += 1;
      };
      channel.onbufferedamountlow = () => this.fill(channel);
    }
    return {
      ready: new Promise((resolve) => { this.onready = resolve; }),
      report: new Promise((resolve) => {
        this.control.onmessage = ({ data }) => {
          const message = JSON.parse(data);
          if (message.type === "ready") this.onready();
          if (message.type === "sample" || message.type === "report") this.server.push(message);
          if (message.type === "report") resolve();
        };
      }),
    };
  }

  tell(message) {
    this.control.send(JSON.stringify(message));
  }

  /** Hands messages over until the high mark; goes on at the low one. */
  fill(channel) {
    if (!this.running || this.plan.direction === "down") return;
    while (channel.readyState === "open" && channel.bufferedAmount < this.plan.high_water) {
      channel.send(this.payload);
      this.sent += this.payload.byteLength;
    }
  }

  async measure(report) {
    const { time_ms, interval_ms, message_size } = this.plan;
    this.payload = new Uint8Array(message_size);
    for (let at = 0; at < message_size; at += 65536) {
      crypto.getRandomValues(this.payload.subarray(at, Math.min(at + 65536, message_size)));
    }
    this.received = { bytes: 0, messages: 0 };
    this.running = true;
    say("Measuring…");
    const start = performance.now();
    this.channels.forEach((channel) => this.fill(channel));
    for (let next = interval_ms; ; next = Math.min(next + interval_ms, time_ms)) {
      next = Math.min(next, time_ms);
      await sleep(start + next - performance.now());
      await this.sample(performance.now() - start);
      if (next >= time_ms) break;
    }
    this.running = false;
    await Promise.race([report, sleep(REPORT_MS)]);
    this.draw();
  }

  async sample(at_ms) {
    const stats = await this.peer.getStats();
    for (const stat of stats.values()) {
      if (stat.type === "candidate-pair" && stat.nominated && stat.currentRoundTripTime != null) {
        this.rtt = stat.currentRoundTripTime * 1000;
        this.pair = stat;
      }
    }
    const of = (id) => id && stats.get(id);
    this.path = { local: of(this.pair?.localCandidateId), remote: of(this.pair?.remoteCandidateId) };
    const buffered = this.channels.reduce((sum, channel) => sum + channel.bufferedAmount, 0);
    const sample = {
      type: "sample",
      at_ms,
      sent_bytes: this.sent - buffered,
      received_bytes: this.received.bytes,
      received_messages: this.received.messages,
      rtt_ms: this.rtt,
      buffered_bytes: buffered,
    };
    this.samples.push(sample);
    if (this.control.readyState === "open") this.tell(sample);
    this.draw();
  }

  /** Goodput of each interval, by the receiving end's count. */
  intervals() {
    const rate = (now, before, name) =>
      now && before && now.at_ms > before.at_ms
        ? ((now[name] - before[name]) * scale[name]) / (now.at_ms - before.at_ms)
        : null;
    const zero = { at_ms: 0, received_bytes: 0, received_messages: 0, cpu_s: 0 };
    return this.samples.map((sample, index) => {
      const before = this.samples[index - 1] ?? zero;
      const server = this.server[index];
      const served = this.server[index - 1] ?? zero;
      const down = rate(sample, before, "received_bytes");
      const up = rate(server, served, "received_bytes");
      const gigabits = ((sample.received_bytes - before.received_bytes)
        + ((server?.received_bytes ?? 0) - served.received_bytes)) * 8e-9;
      return {
        to_s: sample.at_ms / 1000,
        down,
        up,
        messages: (rate(sample, before, "received_messages") ?? 0)
          + (rate(server, served, "received_messages") ?? 0),
        rtt: sample.rtt_ms,
        buffered: sample.buffered_bytes + (server?.buffered_bytes ?? 0),
        cpu: server && gigabits > 0 ? (server.cpu_s - served.cpu_s) / gigabits : null,
      };
    });
  }

  draw() {
    const intervals = this.intervals();
    rows.replaceChildren(...intervals.map((it) => {
      const row = document.createElement("tr");
      const cells = [it.to_s.toFixed(1), number(it.down, 1), number(it.up, 1),
        number(it.messages, 0), number(it.rtt, 1), number(it.buffered / 1024, 0), number(it.cpu, 3)];
      row.append(...cells.map((text) => {
        const cell = document.createElement("td");
        cell.textContent = text;
        return cell;
      }));
      return row;
    }));
    plot(intervals, this.plan.time_ms / 1000);
  }

  conclude() {
    const down = goodput(this.samples.at(-1));
    const up = goodput(this.server.at(-1));
    const parts = [];
    if (this.plan.direction !== "up") parts.push(`${down.toFixed(0)} Mbit/s down`);
    if (this.plan.direction !== "down") parts.push(`${up.toFixed(0)} Mbit/s up`);
    const { local, remote } = this.path ?? {};
    const relay = [local, remote].find((it) => it?.candidateType === "relay");
    const how = relay ? `relayed (${relay.relayProtocol ?? "by the other end"}${relay.url ? `, ${relay.url}` : ""})` : "direct";
    const path = local && remote
      ? `${local.candidateType} → ${remote.candidateType}, ${local.protocol}, ${how}` : "path unknown";
    const rtt = this.rtt == null ? "" : `, ${this.rtt.toFixed(1)} ms`;
    this.done = { down_mbps: down, up_mbps: up, verdict: `${parts.join(", ")}; ${path}${rtt}.` };
    return this.done;
  }
}

const scale = { received_bytes: 8e-3, received_messages: 1000 };

function goodput(sample) {
  return sample?.at_ms ? (sample.received_bytes * 8e-3) / sample.at_ms : 0;
}

function number(value, digits) {
  return value == null || !Number.isFinite(value) ? "–" : value.toFixed(digits);
}

function sleep(ms) {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)));
}

function open(channel) {
  return new Promise((resolve, reject) => {
    channel.onopen = resolve;
    channel.onerror = ({ error }) => reject(new Error(error?.message ?? "a channel failed"));
  });
}

function plot(intervals, seconds) {
  const [left, right, top, bottom] = [58, 848, 14, 232];
  const most = Math.max(1, ...intervals.flatMap((it) => [it.down ?? 0, it.up ?? 0])) * 1.08;
  const x = (s) => left + ((right - left) * s) / seconds;
  const y = (mbps) => bottom - ((bottom - top) * mbps) / most;
  const parts = [];
  for (let step = 0; step <= 4; step += 1) {
    const value = (most * step) / 4;
    parts.push(`<line x1="${left}" x2="${right}" y1="${y(value)}" y2="${y(value)}" stroke="var(--line)"/>`);
    parts.push(`<text x="${left - 6}" y="${y(value) + 4}" text-anchor="end" font-size="12" fill="var(--soft)">${value.toFixed(value < 10 ? 1 : 0)}</text>`);
  }
  for (const [name, color] of [["down", "--one"], ["up", "--two"]]) {
    const points = intervals.filter((it) => it[name] != null).map((it) => `${x(it.to_s)},${y(it[name])}`);
    parts.push(`<polyline points="${points.join(" ")}" fill="none" stroke="var(${color})" stroke-width="2.4"/>`);
  }
  parts.push(`<text x="${right}" y="252" text-anchor="end" font-size="12" fill="var(--soft)">${seconds} s</text>`);
  chart.innerHTML = parts.join("");
}

// `?direction=up&time=5` fills in the form, and runs it at once.
const asked = new URLSearchParams(location.search);
for (const [name, value] of asked) {
  const field = form.elements.namedItem(name);
  if (field?.type === "checkbox") field.checked = value !== "false";
  else if (field) field.value = value;
}
if (asked.size > 0) form.requestSubmit();
