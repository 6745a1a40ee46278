// Pion as a WHIP publisher: an H.264 file and an Ogg/Opus file, looped to a WHIP
// endpoint until the program is stopped or `-seconds` are over.
//
// Prints `publishing URL` once it is connected, with the URL of the session, and
// `left STATUS` after the DELETE.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pion/webrtc/v4"
	"github.com/pion/webrtc/v4/pkg/media"

	"glassline/peers/loop"
)

type options struct {
	endpoint string
	token    string
	video    string
	audio    string
	fps      int
	seconds  int
}

func main() {
	var options options
	flag.StringVar(&options.endpoint, "url", "", "WHIP endpoint")
	flag.StringVar(&options.token, "token", "", "bearer token")
	flag.StringVar(&options.video, "video", "", "H.264 file in Annex-B form")
	flag.StringVar(&options.audio, "audio", "", "Ogg/Opus file; none without it")
	flag.IntVar(&options.fps, "fps", 30, "frames per second of the video file")
	flag.IntVar(&options.seconds, "seconds", 10, "time from the connection to the end")
	flag.Parse()
	if err := run(options); err != nil {
		log.Fatal(err)
	}
}

func run(options options) error {
	var settings webrtc.SettingEngine
	settings.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4})
	settings.SetIncludeLoopbackCandidate(true)
	api := webrtc.NewAPI(webrtc.WithSettingEngine(settings))
	connection, err := api.NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		return err
	}
	defer connection.Close()
	connected := make(chan struct{})
	connection.OnConnectionStateChange(func(state webrtc.PeerConnectionState) {
		if state == webrtc.PeerConnectionStateConnected {
			close(connected)
		}
	})
	play, err := addTracks(connection, options)
	if err != nil {
		return err
	}
	session, err := signal(connection, options)
	if err != nil {
		return err
	}
	select {
	case <-connected:
	case <-time.After(30 * time.Second):
		return errors.New("not connected within 30 s")
	}
	fmt.Println("publishing", session)
	play()
	time.Sleep(time.Duration(options.seconds) * time.Second)
	status, _, _, err := exchange("DELETE", session, options.token, "")
	if err != nil {
		return err
	}
	fmt.Println("left", status)
	return nil
}

// addTracks adds the tracks of the files; the result starts to play them.
func addTracks(connection *webrtc.PeerConnection, options options) (func(), error) {
	frames, err := loop.VideoFrames(options.video, options.fps)
	if err != nil {
		return nil, err
	}
	video, err := add(connection, webrtc.MimeTypeH264, "video")
	if err != nil {
		return nil, err
	}
	if options.audio == "" {
		return func() { go loop.Play(frames, writer(video)) }, nil
	}
	packets, err := loop.AudioPackets(options.audio)
	if err != nil {
		return nil, err
	}
	audio, err := add(connection, webrtc.MimeTypeOpus, "audio")
	if err != nil {
		return nil, err
	}
	return func() {
		go loop.Play(frames, writer(video))
		go loop.Play(packets, writer(audio))
	}, nil
}

func add(connection *webrtc.PeerConnection, codec, id string) (*webrtc.TrackLocalStaticSample, error) {
	capability := webrtc.RTPCodecCapability{MimeType: codec}
	track, err := webrtc.NewTrackLocalStaticSample(capability, id, "glassline")
	if err != nil {
		return nil, err
	}
	direction := webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionSendonly}
	transceiver, err := connection.AddTransceiverFromTrack(track, direction)
	if err != nil {
		return nil, err
	}
	// Reading makes the interceptors answer NACKs.
	go func() {
		buffer := make([]byte, 1500)
		for {
			if _, _, err := transceiver.Sender().Read(buffer); err != nil {
				return
			}
		}
	}()
	return track, nil
}

// signal makes the session and returns its URL.
func signal(connection *webrtc.PeerConnection, options options) (string, error) {
	offer, err := connection.CreateOffer(nil)
	if err != nil {
		return "", err
	}
	gathered := webrtc.GatheringCompletePromise(connection)
	if err := connection.SetLocalDescription(offer); err != nil {
		return "", err
	}
	<-gathered
	sdp := connection.LocalDescription().SDP
	status, header, answer, err := exchange("POST", options.endpoint, options.token, sdp)
	if err != nil {
		return "", err
	}
	if status != http.StatusCreated {
		return "", fmt.Errorf("%d: %s", status, answer)
	}
	endpoint, err := url.Parse(options.endpoint)
	if err != nil {
		return "", err
	}
	location, err := endpoint.Parse(header.Get("Location"))
	if err != nil {
		return "", err
	}
	description := webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: answer}
	return location.String(), connection.SetRemoteDescription(description)
}

func exchange(method, address, token, body string) (int, http.Header, string, error) {
	request, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/sdp")
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, response.Header, string(text), err
}

// writer ignores errors: those of a session that has just ended.
func writer(track *webrtc.TrackLocalStaticSample) func(loop.Sample) {
	return func(sample loop.Sample) {
		_ = track.WriteSample(media.Sample{Data: sample.Data, Duration: sample.Duration})
	}
}
