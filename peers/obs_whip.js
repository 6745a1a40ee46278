// OBS Studio's WHIP publisher, as far as its stack goes: libdatachannel's offer and RTP
// packets as OBS 32 sends them. The offer has no candidates, the packets have no TWCC, and
// simulcast layers are told apart by RID alone.
//
// node obs_whip.js ENDPOINT KEY FILE.h264 LAYERS SECONDS, with NODE_PATH set to the folder
// of node-datachannel. Prints one JSON object.
'use strict';

const fs = require('fs');
const rtc = require('node-datachannel');

const [endpoint, key, file, layers, seconds] = process.argv.slice(2);
const FPS = 30;
const FRAGMENT_BYTES = 1200;
const AUDIO_SSRC = 1000;
const VIDEO_SSRC = 2000;
const BEARER = { Authorization: `Bearer ${key}` };

/// Splits a file in Annex-B form into access units: lists of NAL units without start codes.
function accessUnits(bytes) {
  const nals = [];
  let start = -1;
  for (let at = 0; at + 3 <= bytes.length; at += 1) {
    if (bytes[at] === 0 && bytes[at + 1] === 0 && bytes[at + 2] === 1) {
      if (start >= 0) nals.push(bytes.subarray(start, bytes[at - 1] === 0 ? at - 1 : at));
      start = at + 3;
      at += 2;
    }
  }
  nals.push(bytes.subarray(start));
  const units = [];
  let unit = [];
  for (const nal of nals) {
    unit.push(nal);
    const kind = nal[0] & 31;
    // The demo has one slice in a picture.
    if (kind === 1 || kind === 5) {
      units.push(unit);
      unit = [];
    }
  }
  return units;
}

/// One RTP stream.
class Stream {
  constructor(track, ssrc, payloadType, extensions) {
    Object.assign(this, { track, ssrc, payloadType, extensions, sequence: 0 });
  }

  send(payload, timestamp, marker) {
    const header = Buffer.alloc(12);
    header[0] = this.extensions.length ? 0x90 : 0x80;
    header[1] = this.payloadType | (marker ? 0x80 : 0);
    header.writeUInt16BE(this.sequence & 0xffff, 2);
    header.writeUInt32BE(timestamp >>> 0, 4);
    header.writeUInt32BE(this.ssrc, 8);
    this.sequence += 1;
    this.track.sendMessageBinary(Buffer.concat([header, this.extensions, payload]));
  }

  sendUnit(nals, timestamp) {
    nals.forEach((nal, index) => this.sendNal(nal, timestamp, index === nals.length - 1));
  }

  sendNal(nal, timestamp, isLast) {
    if (nal.length <= FRAGMENT_BYTES) {
      this.send(nal, timestamp, isLast);
      return;
    }
    for (let at = 1; at < nal.length; at += FRAGMENT_BYTES) {
      const end = Math.min(at + FRAGMENT_BYTES, nal.length);
      const flags = (at === 1 ? 0x80 : 0) | (end === nal.length ? 0x40 : 0);
      const fu = Buffer.from([(nal[0] & 0xe0) | 28, flags | (nal[0] & 31)]);
      this.send(Buffer.concat([fu, nal.subarray(at, end)]), timestamp, isLast && end === nal.length);
    }
  }
}

/// Returns MID and RID as header extensions of one byte (RFC 8285).
function extensions(mid, rid) {
  const elements = [0x10 | (mid.length - 1), ...Buffer.from(mid)];
  elements.push(0x20 | (rid.length - 1), ...Buffer.from(rid));
  while (elements.length % 4) elements.push(0);
  return Buffer.from([0xbe, 0xde, 0, elements.length / 4, ...elements]);
}

async function publish() {
  const connection = new rtc.PeerConnection('obs', { iceServers: [], disableAutoNegotiation: true });
  const audio = new rtc.Audio('0', 'SendOnly');
  audio.addOpusCodec(111, 'minptime=10;maxaveragebitrate=96000;stereo=1;sprop-stereo=1;useinbandfec=1');
  audio.addSSRC(AUDIO_SSRC, 'obs', 'obs', 'obs-audio');
  const video = new rtc.Video('1', 'SendOnly');
  video.addH264Codec(96, 'profile-level-id=42e01f;packetization-mode=1;level-asymmetry-allowed=1');
  video.addSSRC(VIDEO_SSRC, 'obs', 'obs', 'obs-video');
  const rids = Number(layers) > 1 ? ['0', '1', '2'] : [];
  if (rids.length) {
    video.parseSdpLine('a=extmap:1 urn:ietf:params:rtp-hdrext:sdes:mid');
    video.parseSdpLine('a=extmap:2 urn:ietf:params:rtp-hdrext:sdes:rtp-stream-id');
    for (const rid of rids) video.parseSdpLine(`a=rid:${rid} send`);
    video.parseSdpLine(`a=simulcast:send ${rids.join(';')}`);
  }
  const audioTrack = connection.addTrack(audio);
  const videoTrack = connection.addTrack(video);
  const connected = new Promise((resolve, reject) => {
    connection.onStateChange((state) => {
      if (state === 'connected') resolve();
      if (state === 'failed') reject(new Error('the connection failed'));
    });
  });
  const described = new Promise((resolve) => connection.onLocalDescription((sdp) => resolve(sdp)));
  connection.setLocalDescription('offer');
  const headers = { 'Content-Type': 'application/sdp', ...BEARER };
  const answer = await fetch(endpoint, { method: 'POST', headers, body: await described });
  const sdp = await answer.text();
  if (answer.status !== 201) throw new Error(`${answer.status}: ${sdp}`);
  if (rids.length && !sdp.includes(`a=simulcast:recv ${rids.join(';')}\r\n`)) {
    throw new Error(`not all layers are in the answer: ${sdp}`);
  }
  connection.setRemoteDescription(sdp, 'answer');
  await connected;

  const units = accessUnits(fs.readFileSync(file));
  const streams = (rids.length ? rids : [null]).map((rid, index) => {
    const elements = rid === null ? Buffer.alloc(0) : extensions('1', rid);
    return new Stream(videoTrack, VIDEO_SSRC + index, 96, elements);
  });
  const voice = new Stream(audioTrack, AUDIO_SSRC, 111, Buffer.alloc(0));
  const start = Date.now();
  let frames = 0;
  let packets = 0;
  while (Date.now() - start < Number(seconds) * 1000) {
    const passed = Date.now() - start;
    for (; (frames * 1000) / FPS <= passed; frames += 1) {
      const unit = units[frames % units.length];
      const isKey = unit.some((nal) => (nal[0] & 31) === 5);
      streams.forEach((stream, index) => {
        // The lower layers have fewer frames here: a stream of keyframes plays, too.
        if (index === 0 || isKey) stream.sendUnit(unit, frames * 3000);
      });
    }
    // 20 ms of silence in stereo.
    for (; packets * 20 <= passed; packets += 1) {
      voice.send(Buffer.from([0xfc, 0xff, 0xfe]), packets * 960, false);
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const session = new URL(answer.headers.get('location'), endpoint);
  const left = await fetch(session, { method: 'DELETE', headers: BEARER });
  console.log(JSON.stringify({ post: answer.status, delete: left.status, frames }));
  connection.close();
}

publish()
  .catch((error) => {
    console.error(`obs_whip.js: ${error.stack}`);
    process.exitCode = 1;
  })
  .finally(() => setTimeout(() => process.exit(), 200));
