// libdatachannel as one end of a bulk transfer over a data channel:
// `node goodput.js FOLDER send|receive SECONDS MESSAGE_BYTES`.
//
// As peers/goodput of Pion: the sending end offers, descriptions go through
// FOLDER/local.sdp and FOLDER/remote.sdp, and one JSON object tells bytes, seconds and
// processor time. NODE_PATH says where node-datachannel is.
const fs = require("node:fs");
const path = require("node:path");
const { PeerConnection } = require("node-datachannel");

const PATIENCE_MS = 30_000;
const WARM_UP_MS = 1_000;
const HIGH = 1 << 20;
const LOW = 256 << 10;

const [folder, role, seconds, size] = process.argv.slice(2);
const sends = role === "send";

const connection = new PeerConnection(role, {
  iceServers: [],
  bindAddress: "127.0.0.1",
  maxMessageSize: 1 << 20,
});
let bytes = 0;
let begin;
const begun = new Promise((resolve) => (begin = resolve));
let count = () => bytes;
let received;

function fill(channel) {
  const message = Buffer.from(Uint8Array.from({ length: Number(size) }, (_, at) => at * 31));
  channel.setBufferedAmountLowThreshold(LOW);
  const more = () => {
    while (channel.isOpen() && channel.bufferedAmount() < HIGH) {
      channel.sendMessageBinary(message);
      bytes += message.length;
    }
  };
  channel.onBufferedAmountLow(more);
  count = () => bytes - channel.bufferedAmount();
  more();
}

if (sends) {
  const channel = connection.createDataChannel("bulk");
  channel.onOpen(() => {
    begin();
    fill(channel);
  });
} else {
  connection.onDataChannel((channel) => {
    // One that nobody holds is collected, and closed.
    received = channel;
    channel.onMessage((message) => {
      if (bytes === 0) begin();
      bytes += message.length;
    });
  });
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function publish() {
  const part = path.join(folder, "local.part");
  fs.writeFileSync(part, connection.localDescription().sdp);
  fs.renameSync(part, path.join(folder, "local.sdp"));
}

async function remote(type) {
  const from = path.join(folder, "remote.sdp");
  for (let waited = 0; waited < PATIENCE_MS; waited += 20) {
    if (fs.existsSync(from)) return connection.setRemoteDescription(fs.readFileSync(from, "utf8"), type);
    await sleep(20);
  }
  throw new Error(`no ${from} within ${PATIENCE_MS} ms`);
}

(async () => {
  if (!sends) await remote("offer");
  // It may have been done before anybody could listen.
  while (connection.gatheringState() !== "complete") await sleep(10);
  publish();
  if (sends) await remote("answer");
  const late = sleep(PATIENCE_MS).then(() => {
    throw new Error(`nothing within ${PATIENCE_MS} ms`);
  });
  await Promise.race([begun, late]);
  late.catch(() => {});
  await sleep(WARM_UP_MS);
  const [start, before, cpu] = [process.hrtime.bigint(), count(), process.cpuUsage()];
  await sleep(1000 * seconds);
  const used = process.cpuUsage(cpu);
  console.log(JSON.stringify({
    bytes: count() - before,
    seconds: Number(process.hrtime.bigint() - start) / 1e9,
    cpu_s: (used.user + used.system) / 1e6,
  }));
  // The other end still counts.
  await sleep(WARM_UP_MS);
  process.exit(0);
})().catch((error) => {
  console.error(String(error));
  process.exit(1);
});
