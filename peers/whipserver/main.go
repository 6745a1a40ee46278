// Pion as a WHIP server that takes what a publisher sends, and counts it.
//
// As many servers do, it accepts H.264 and Opus with NACK and transport-wide feedback
// (TWCC), but without retransmissions of their own (RTX): lost packets come again under
// their first numbers. With `-loss` a share of the datagrams that arrive is dropped.
//
// Prints `ready URL` once it listens, and each second a line of JSON with what all
// publishers have sent so far.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/pion/interceptor"
	"github.com/pion/webrtc/v4"
)

// An offer is a few kilobytes.
const offerBytesMax = 256 << 10

// track counts the packets of one kind.
type track struct {
	Packets  uint64 `json:"packets"`
	Bytes    uint64 `json:"bytes"`
	Repeated uint64 `json:"repeated"`
	Missing  uint64 `json:"missing"`
}

// server holds the tracks by kind, "video" and "audio".
type server struct {
	api    *webrtc.API
	mutex  sync.Mutex
	tracks map[string]*track
}

func main() {
	address := flag.String("addr", "127.0.0.1:8080", "TCP address of the signalling, port 0 for a free one")
	loss := flag.Float64("loss", 0, "share of the datagrams that are dropped when they arrive")
	flag.Parse()
	if err := run(*address, *loss); err != nil {
		log.Fatal(err)
	}
}

func run(address string, loss float64) error {
	api, err := newAPI(loss)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &server{api: api, tracks: map[string]*track{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /whip", server.whip)
	// The only session is the process's own: it ends with the program.
	mux.HandleFunc("DELETE /whip/session", func(http.ResponseWriter, *http.Request) {})
	go server.report()
	fmt.Printf("ready http://%s/whip\n", listener.Addr())
	return http.Serve(listener, mux)
}

// newAPI has Pion's default interceptors, which send NACKs, reports and TWCC.
func newAPI(loss float64) (*webrtc.API, error) {
	media := &webrtc.MediaEngine{}
	feedback := []webrtc.RTCPFeedback{{Type: "nack"}, {Type: "nack", Parameter: "pli"}}
	video := webrtc.RTPCodecCapability{
		MimeType:     webrtc.MimeTypeH264,
		ClockRate:    90000,
		SDPFmtpLine:  "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f",
		RTCPFeedback: feedback,
	}
	audio := webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeOpus, ClockRate: 48000, Channels: 2}
	parameters := webrtc.RTPCodecParameters{RTPCodecCapability: video, PayloadType: 102}
	if err := media.RegisterCodec(parameters, webrtc.RTPCodecTypeVideo); err != nil {
		return nil, err
	}
	parameters = webrtc.RTPCodecParameters{RTPCodecCapability: audio, PayloadType: 111}
	if err := media.RegisterCodec(parameters, webrtc.RTPCodecTypeAudio); err != nil {
		return nil, err
	}
	interceptors := &interceptor.Registry{}
	if err := webrtc.RegisterDefaultInterceptors(media, interceptors); err != nil {
		return nil, err
	}
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	var settings webrtc.SettingEngine
	settings.SetICEUDPMux(webrtc.NewICEUDPMux(nil, &lossyConn{UDPConn: socket, loss: loss}))
	settings.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4})
	settings.SetIncludeLoopbackCandidate(true)
	// A packet comes again after a keyframe of more packets than the usual window has.
	settings.SetSRTPReplayProtectionWindow(1024)
	return webrtc.NewAPI(
		webrtc.WithMediaEngine(media),
		webrtc.WithInterceptorRegistry(interceptors),
		webrtc.WithSettingEngine(settings),
	), nil
}

// lossyConn drops a share of what it receives; RTP and RTCP alone, so that a publisher
// connects at once.
type lossyConn struct {
	*net.UDPConn
	loss float64
}

func (c *lossyConn) ReadFrom(buffer []byte) (int, net.Addr, error) {
	for {
		count, from, err := c.UDPConn.ReadFrom(buffer)
		// First bytes from 128 to 191 are RTP's and RTCP's (RFC 7983).
		isMedia := count > 0 && buffer[0]>>6 == 2
		if err == nil && isMedia && rand.Float64() < c.loss {
			continue
		}
		return count, from, err
	}
}

func (s *server) whip(w http.ResponseWriter, r *http.Request) {
	offer, err := io.ReadAll(io.LimitReader(r.Body, offerBytesMax))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := s.accept(string(offer))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/sdp")
	w.Header().Set("Location", "/whip/session")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, answer)
}

func (s *server) accept(offer string) (string, error) {
	publisher, err := s.api.NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		return "", err
	}
	publisher.OnTrack(func(remote *webrtc.TrackRemote, _ *webrtc.RTPReceiver) { s.count(remote) })
	description := webrtc.SessionDescription{Type: webrtc.SDPTypeOffer, SDP: offer}
	if err := publisher.SetRemoteDescription(description); err != nil {
		return "", err
	}
	answer, err := publisher.CreateAnswer(nil)
	if err != nil {
		return "", err
	}
	gathered := webrtc.GatheringCompletePromise(publisher)
	if err := publisher.SetLocalDescription(answer); err != nil {
		return "", err
	}
	<-gathered
	return publisher.LocalDescription().SDP, nil
}

// count reads a track to its end.
func (s *server) count(remote *webrtc.TrackRemote) {
	counts := &track{}
	s.mutex.Lock()
	s.tracks[remote.Kind().String()] = counts
	s.mutex.Unlock()
	seen := newSequences()
	for {
		packet, _, err := remote.ReadRTP()
		if err != nil {
			return
		}
		s.mutex.Lock()
		counts.Packets++
		counts.Bytes += uint64(len(packet.Payload))
		isLate := seen.note(packet.SequenceNumber)
		if isLate {
			counts.Repeated++
		}
		counts.Missing = seen.missing
		s.mutex.Unlock()
	}
}

// report prints the counts once a second.
func (s *server) report() {
	for range time.Tick(time.Second) {
		s.mutex.Lock()
		line, err := json.Marshal(s.tracks)
		s.mutex.Unlock()
		if err == nil {
			fmt.Println(string(line))
		}
	}
}
