// Run in a page: a peer connection with data channels and nothing else.
//
// `peer.offer()` or `peer.answer(sdp)`, then `peer.accept(sdp)` or nothing; the other
// end gives every message back, and has a channel of its own, "own", on which this
// page does. `peer.report` tells how it went.
window.peer = (() => {
  const sizes = [1, 16 << 10, 256 << 10, 1 << 20];
  const connection = new RTCPeerConnection();
  const report = { channels: {}, givenBack: 0, closed: 0, done: false, error: null };

  connection.ondatachannel = ({ channel }) => {
    channel.binaryType = "arraybuffer";
    channel.onmessage = ({ data }) => {
      report.givenBack += data.byteLength ?? data.length;
      channel.send(data);
    };
  };

  const pattern = (size, seed) =>
    Uint8Array.from({ length: size }, (_, at) => (at * 31 + seed) % 251);

  const equal = (sent, got) =>
    typeof sent === "string"
      ? sent === got
      : got.byteLength === sent.length && new Uint8Array(got).every((byte, at) => byte === sent[at]);

  function exercise(label, options) {
    const channel = connection.createDataChannel(label, options);
    channel.binaryType = "arraybuffer";
    const got = [];
    let wake = () => {};
    channel.onmessage = ({ data }) => {
      got.push(data);
      wake();
    };
    const opened = new Promise((resolve, reject) => {
      channel.onopen = resolve;
      channel.onerror = ({ error }) => reject(error);
    });
    const closed = new Promise((resolve) => (channel.onclose = resolve));
    const next = async () => {
      while (got.length === 0) await new Promise((resolve) => (wake = resolve));
      return got.shift();
    };
    return async () => {
      await opened;
      const piece = connection.sctp.maxMessageSize;
      const counted = (report.channels[label] = { messages: 0, bytes: 0, piece });
      for (const size of sizes) {
        const whole = pattern(size, label.length);
        const parts = [];
        for (let at = 0; at < size; at += piece) parts.push(whole.subarray(at, at + piece));
        if (size === 1) parts.push("ö", "", new Uint8Array(0));
        // Without an order there is one at a time.
        const rounds = channel.ordered ? [parts] : parts.map((part) => [part]);
        for (const round of rounds) {
          for (const part of round) channel.send(part);
          for (const part of round) {
            if (!equal(part, await next())) throw new Error(`${label}: ${size} bytes came back changed`);
            counted.messages += 1;
            counted.bytes += part.length;
          }
        }
      }
      channel.close();
      await closed;
      report.closed += 1;
    };
  }

  const exercises = [
    exercise("ordered", {}),
    exercise("unordered", { ordered: false }),
    exercise("negotiated", { negotiated: true, id: 100 }),
  ];
  const ran = Promise.all(exercises.map((run) => run()));
  ran.then(() => (report.done = true)).catch((error) => (report.error = String(error)));

  const described = async (description) => {
    await connection.setLocalDescription(description);
    while (connection.iceGatheringState !== "complete") {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return connection.localDescription.sdp;
  };
  return {
    connection,
    report,
    offer: async () => described(await connection.createOffer()),
    accept: (sdp) => connection.setRemoteDescription({ type: "answer", sdp }),
    answer: async (sdp) => {
      await connection.setRemoteDescription({ type: "offer", sdp });
      return described(await connection.createAnswer());
    },
  };
})();
