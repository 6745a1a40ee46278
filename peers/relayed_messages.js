// Run in a page of the server: one connection publishes messages beside a stream, others
// watch it, and all of it goes through the server.
//
// `relayed.publish(stream)`, then `relayed.watch(stream)` as often as wanted;
// `relayed.exchange()` sends both ways and `relayed.report` tells how it went.
window.relayed = (() => {
  const report = { got: [], opened: [], commands: [], frames: [], state: [], error: null };
  let telemetry, snapshots;
  let publisher = null;
  const viewers = [];

  const snapshot = Uint8Array.from({ length: 200_000 }, (_, at) => (at * 31) % 251);

  async function negotiate(connection, url) {
    await connection.setLocalDescription();
    while (connection.iceGatheringState !== "complete") {
      await new Promise((resolve) => connection.addEventListener("icegatheringstatechange", resolve, { once: true }));
    }
    const response = await fetch(url, {
      method: "POST",
      headers: { "Content-Type": "application/sdp" },
      body: connection.localDescription.sdp,
    });
    const body = await response.text();
    if (response.status !== 201) throw new Error(`${url}: ${response.status} ${body}`);
    await connection.setRemoteDescription({ type: "answer", sdp: body });
  }

  const opened = (channel) =>
    channel.readyState === "open" ? null : new Promise((resolve) => (channel.onopen = resolve));

  async function publish(stream) {
    publisher?.close();
    publisher = new RTCPeerConnection();
    telemetry = publisher.createDataChannel("telemetry", { ordered: false, maxRetransmits: 0 });
    snapshots = publisher.createDataChannel("snapshots", { protocol: "bytes" });
    const commands = publisher.createDataChannel("commands");
    commands.onmessage = ({ data }) => report.commands.push(data);
    await negotiate(publisher, `/${stream}/whip`);
    await Promise.all([telemetry, snapshots, commands].map(opened));
  }

  async function watch(stream) {
    const connection = new RTCPeerConnection();
    const place = viewers.length;
    const viewer = { connection, commands: connection.createDataChannel("commands") };
    viewers.push(viewer);
    report.got[place] = [];
    report.opened[place] = [];
    for (const kind of ["video", "audio"]) connection.addTransceiver(kind, { direction: "recvonly" });
    connection.ondatachannel = ({ channel }) => {
      const { label, protocol, ordered, maxRetransmits } = channel;
      report.opened[place].push({ label, protocol, ordered, maxRetransmits });
      channel.binaryType = "arraybuffer";
      channel.onmessage = ({ data }) => {
        const whole = data.byteLength === snapshot.length;
        const same = whole && new Uint8Array(data).every((byte, at) => byte === snapshot[at]);
        report.got[place].push(typeof data === "string" ? data : same ? "snapshot" : `${data.byteLength} other bytes`);
      };
    };
    await negotiate(connection, `/${stream}/whep`);
    await opened(viewer.commands);
    viewer.limit = connection.sctp.maxMessageSize;
  }

  const say = (text) => telemetry.send(text);
  const show = () => snapshots.send(snapshot);

  function command(place) {
    viewers[place].commands.send(`stop, says ${place}`);
    viewers[place].commands.send(new Uint8Array([1, 2, place]));
  }

  async function measure() {
    for (const [place, { connection }] of viewers.entries()) {
      const stats = [...(await connection.getStats()).values()];
      const video = stats.find(({ type, kind }) => type === "inbound-rtp" && kind === "video");
      report.frames[place] = video?.framesDecoded ?? 0;
      report.state[place] = connection.connectionState;
    }
  }

  // Calls one of the above; what goes wrong later is in the report.
  const begin = (what) => void Promise.resolve(what()).catch((error) => (report.error = String(error)));
  return {
    report,
    viewers,
    publish: (stream) => begin(() => publish(stream)),
    watch: (stream) => begin(() => watch(stream)),
    ready: (count) =>
      telemetry?.readyState === "open" &&
      snapshots.readyState === "open" &&
      viewers.length === count &&
      viewers.every(({ limit }) => limit > 0),
    say,
    show,
    command,
    measure: () => begin(measure),
  };
})();
