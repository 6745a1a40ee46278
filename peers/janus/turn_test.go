package main

import (
	"strings"
	"testing"
)

const viewerOffer = "v=0\r\na=group:BUNDLE 0 1\r\n" +
	"m=video 9 UDP/TLS/RTP/SAVPF 98 99 102 103\r\na=mid:0\r\na=recvonly\r\n" +
	"a=ice-ufrag:viewer\r\na=ice-pwd:secret\r\na=fingerprint:sha-256 AA\r\na=setup:actpass\r\n" +
	"a=rtpmap:98 H264/90000\r\na=fmtp:98 packetization-mode=0;profile-level-id=42e01f\r\n" +
	"a=rtpmap:99 H264/90000\r\na=fmtp:99 packetization-mode=1;profile-level-id=64001f\r\n" +
	"a=rtpmap:102 H264/90000\r\na=fmtp:102 packetization-mode=1;profile-level-id=42e01f\r\n" +
	"a=rtpmap:103 rtx/90000\r\na=fmtp:103 apt=102\r\n" +
	"a=candidate:1 1 udp 1 127.0.0.1 4000 typ host\r\n" +
	"m=audio 9 UDP/TLS/RTP/SAVPF 111 0\r\na=mid:1\r\n" +
	"a=ice-ufrag:viewer\r\na=ice-pwd:secret\r\na=fingerprint:sha-256 AA\r\n" +
	"a=rtpmap:0 PCMU/8000\r\na=rtpmap:111 opus/48000/2\r\n"

const janusOffer = "v=0\r\na=ice-lite\r\na=fingerprint:sha-256 BB\r\n" +
	"m=audio 9 UDP/TLS/RTP/SAVPF 111\r\na=mid:a\r\na=ice-ufrag:janus\r\na=ice-pwd:word\r\n" +
	"a=ssrc:1 cname:janus\r\na=candidate:1 1 udp 2 192.0.2.2 5000 typ host\r\n" +
	"m=video 9 UDP/TLS/RTP/SAVPF 102 103\r\na=mid:v\r\na=ice-ufrag:janus\r\na=ice-pwd:word\r\n" +
	"a=rtpmap:102 H264/90000\r\na=fmtp:103 apt=102\r\n" +
	"a=ssrc-group:FID 2 3\r\na=ssrc:2 cname:janus\r\na=ssrc:3 cname:janus\r\n"

func TestBaselineInFragmentsAndOpusArePicked(t *testing.T) {
	found, err := offeredFormats(parse(viewerOffer))
	if want := (formats{"102", "103", "111"}); err != nil || found != want {
		t.Errorf("%v, %v", found, err)
	}
	if _, err := offeredFormats(parse(strings.ReplaceAll(viewerOffer, "H264", "VP8"))); err == nil {
		t.Error("an offer of VP8 was taken")
	}
}

func TestEachSideIsToldWhatTheOtherOffered(t *testing.T) {
	viewer, janus := parse(viewerOffer), parse(janusOffer)
	chosen, err := offeredFormats(viewer)
	if err != nil {
		t.Fatal(err)
	}
	toViewer, err := answer(viewer, janus, chosen, "sendonly", "passive")
	if err != nil {
		t.Fatal(err)
	}
	for _, wanted := range []string{
		"a=group:BUNDLE 0 1\r\na=ice-lite\r\nm=video 9 UDP/TLS/RTP/SAVPF 102 103\r\n",
		"a=ice-ufrag:janus\r\na=ice-pwd:word\r\na=fingerprint:sha-256 BB\r\na=setup:passive\r\n",
		"a=ssrc-group:FID 2 3\r\n", "5000 typ host",
	} {
		if !strings.Contains(toViewer, wanted) {
			t.Errorf("%q is missing in\n%s", wanted, toViewer)
		}
	}
	toJanus, err := answer(janus, viewer, chosen, "recvonly", "active")
	if err != nil {
		t.Fatal(err)
	}
	for _, wanted := range []string{"a=group:BUNDLE a v\r\nm=audio 9", "a=ice-ufrag:viewer", "a=setup:active", "4000 typ host"} {
		if !strings.Contains(toJanus, wanted) {
			t.Errorf("%q is missing in\n%s", wanted, toJanus)
		}
	}
	if strings.Contains(toJanus, "ice-lite") {
		t.Error("the viewer is no lite agent")
	}
}

func TestRetransmissionsNeedBothToNameThemAlike(t *testing.T) {
	janus := parse(strings.ReplaceAll(janusOffer, "103", "97"))
	sdp, err := answer(parse(viewerOffer), janus, formats{"102", "103", "111"}, "sendonly", "passive")
	if err != nil || strings.Contains(sdp, "rtx") || strings.Contains(sdp, "FID") {
		t.Errorf("%v: %s", err, sdp)
	}
}

func TestOfferWithoutFingerprintIsRefused(t *testing.T) {
	janus := parse(strings.ReplaceAll(janusOffer, "fingerprint", "print"))
	if _, err := answer(parse(viewerOffer), janus, formats{"102", "", "111"}, "sendonly", "passive"); err == nil {
		t.Error("answered")
	}
}
