// The browser's end of `glassline call listen`: one m=audio line both ways, offered by
// POST /call as application/sdp and answered in the same form.

const byId = (id) => document.getElementById(id);
const dial = byId("dial");
const mute = byId("mute");
const microphones = byId("microphone");

const GATHER_MS = 3000;
const STATS_MS = 500;
const LEVELS_MS = 80;
const SILENCE_DB = -60;

/** The current call; null while there is none. */
let current = null;
window.call = { state: "idle" }; // Read by tests, and handy in the console.

byId("call").addEventListener("submit", (event) => {
  event.preventDefault();
  if (current) current.end("You ended the call");
  else start();
});

mute.addEventListener("click", () => current?.setMuted(mute.getAttribute("aria-pressed") !== "true"));

async function start() {
  dial.disabled = true;
  say("Asking for the microphone…");
  const call = new Call();
  current = call;
  try {
    await call.open(microphones.value);
    dial.textContent = "Hang up";
    dial.classList.add("live");
    mute.disabled = false;
    await listMicrophones();
  } catch (error) {
    call.end(`Failed: ${error.message}`);
  } finally {
    dial.disabled = false;
  }
}

function say(text) {
  byId("state").textContent = text;
}

/** Lists the microphones. Browsers reveal their names only once one is allowed. */
async function listMicrophones() {
  const all = await navigator.mediaDevices.enumerateDevices();
  const chosen = microphones.value;
  const options = all
    .filter((device) => device.kind === "audioinput" && device.deviceId !== "default")
    .map((device) => new Option(device.label || "Microphone", device.deviceId));
  microphones.replaceChildren(microphones.options[0], ...options);
  microphones.value = chosen;
}

class Call {
  constructor() {
    this.peer = new RTCPeerConnection();
    this.state = "connecting";
    window.call = this;
    this.peer.addEventListener("connectionstatechange", () => this.changed());
    this.peer.addEventListener("track", ({ track }) => {
      this.remote = new MediaStream([track]);
      byId("sound").srcObject = this.remote;
      this.theirs = this.level(this.remote, byId("theirs"));
    });
  }

  async open(deviceId) {
    if (!navigator.mediaDevices) {
      throw new Error("this browser allows microphones only to pages from localhost or https: open the page there");
    }
    const audio = deviceId ? { deviceId: { exact: deviceId } } : true;
    this.local = await navigator.mediaDevices.getUserMedia({ audio });
    this.context = new AudioContext();
    this.own = this.level(this.local, byId("own"));
    for (const track of this.local.getAudioTracks()) this.peer.addTrack(track, this.local);
    say("Calling…");
    await this.peer.setLocalDescription(await this.peer.createOffer());
    await this.gathered();
    const response = await fetch("/call", {
      method: "POST",
      headers: { "content-type": "application/sdp" },
      body: this.peer.localDescription.sdp,
    });
    const text = await response.text();
    if (!response.ok) throw new Error(text.trim());
    await this.peer.setRemoteDescription({ type: "answer", sdp: text });
    this.timer = setInterval(() => this.report(), STATS_MS);
    this.levels = setInterval(() => {
      this.own?.();
      this.theirs?.();
    }, LEVELS_MS);
  }

  /** Resolves when all candidates are gathered, or after GATHER_MS with those found so far. */
  gathered() {
    return new Promise((resolve) => {
      const check = () => this.peer.iceGatheringState === "complete" && resolve();
      this.peer.addEventListener("icegatheringstatechange", check);
      setTimeout(resolve, GATHER_MS);
      check();
    });
  }

  changed() {
    const state = this.peer.connectionState;
    if (this.state === "ended") return;
    if (state === "connected") {
      this.state = "live";
      say("Connected");
    }
    if (state === "failed") this.end("Failed: no connection to the other end. Check that no firewall blocks UDP.");
    // The other end says goodbye by closing DTLS.
    if (state === "closed") this.end("The other end hung up");
    if (state === "disconnected") say("Nothing arrives from the other end; waiting…");
  }

  setMuted(muted) {
    for (const track of this.local?.getAudioTracks() ?? []) track.enabled = !muted;
    mute.setAttribute("aria-pressed", String(muted));
    mute.textContent = muted ? "Unmute" : "Mute";
  }

  /** Shows the level of `stream` in `meter`, in dB below full scale. */
  level(stream, meter) {
    const analyser = this.context.createAnalyser();
    analyser.fftSize = 1024;
    this.context.createMediaStreamSource(stream).connect(analyser);
    const samples = new Float32Array(analyser.fftSize);
    return () => {
      analyser.getFloatTimeDomainData(samples);
      const power = samples.reduce((sum, it) => sum + it * it, 0) / samples.length;
      meter.value = Math.max(SILENCE_DB, 10 * Math.log10(power + 1e-12));
    };
  }

  async report() {
    const stats = await this.peer.getStats();
    const found = {};
    stats.forEach((it) => {
      if (it.type === "inbound-rtp" && it.kind === "audio") found.in = it;
      if (it.type === "outbound-rtp" && it.kind === "audio") found.out = it;
      if (it.type === "remote-inbound-rtp" && it.kind === "audio") found.remote = it;
      if (it.type === "candidate-pair" && it.nominated) found.pair = it;
      if (it.type === "transport") this.leftBy = it.dtlsState;
    });
    // Chromium reports a DTLS close_notify in no other way.
    if (this.leftBy === "closed") return this.end("The other end hung up");
    const before = this.stats ?? {};
    this.stats = found;
    const rtt = found.remote?.roundTripTime ?? found.pair?.currentRoundTripTime;
    show("rtt", rtt, (s) => `${(s * 1e3).toFixed(1)} ms`);
    const since = (name) => (found.in?.[name] ?? 0) - (before.in?.[name] ?? 0);
    const emitted = since("jitterBufferEmittedCount");
    show("buffer", emitted > 0 ? since("jitterBufferDelay") / emitted : null,
      (s) => `${(s * 1e3).toFixed(0)} ms`);
    const total = found.in?.totalSamplesReceived;
    show("concealed", total > 0 ? found.in.concealedSamples / total : null, percent);
    const packets = (found.in?.packetsReceived ?? 0) + (found.in?.packetsLost ?? 0);
    show("lost", packets > 0 ? found.in.packetsLost / packets : null, percent);
    const rate = (now, then, name) =>
      now && then ? (now[name] - then[name]) * 8 / (now.timestamp - then.timestamp) : null;
    const up = rate(found.out, before.out, "bytesSent");
    const down = rate(found.in, before.in, "bytesReceived");
    show("rate", up ?? down, () => `${(up ?? 0).toFixed(0)}, ${(down ?? 0).toFixed(0)} kbit/s`);
    const codec = found.in && stats.get(found.in.codecId);
    show("codec", codec?.mimeType, (type) => type.replace("audio/", ""));
    return undefined;
  }

  end(why) {
    if (this.state === "ended") return;
    this.state = "ended";
    clearInterval(this.timer);
    clearInterval(this.levels);
    this.peer.close();
    for (const track of this.local?.getTracks() ?? []) track.stop();
    this.context?.close();
    current = null;
    say(why);
    this.why = why;
    dial.textContent = "Call";
    dial.classList.remove("live");
    mute.disabled = true;
    mute.setAttribute("aria-pressed", "false");
    mute.textContent = "Mute";
    for (const id of ["own", "theirs"]) byId(id).value = SILENCE_DB;
  }
}

function show(id, value, text) {
  byId(id).textContent = value === null || value === undefined ? "–" : text(value);
}

function percent(share) {
  return `${(share * 100).toFixed(2)} %`;
}
