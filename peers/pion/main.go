// Pion as a file server: an H.264 file and an Ogg/Opus file, looped to any number
// of viewers, by POST /doSignaling (an offer and an answer in JSON) and by WHEP.
//
// Two paces. `-pace=frame` is how one would write it: whole access units with their
// own timestamps, and audio beside them. `-pace=nal` behaves as the well-known
// benchmark does that sends a file: one NAL unit at each tick of a clock in whole
// milliseconds, timestamps a second apart, video only. Parameter sets use up
// ticks there, so it plays slower than real time.
//
// Prints `ready URL` once it listens.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/pion/webrtc/v4"
	"github.com/pion/webrtc/v4/pkg/media"
	"github.com/pion/webrtc/v4/pkg/media/h264reader"

	"glassline/peers/loop"
)

type options struct {
	address      string
	video        string
	audio        string
	fps          int
	interceptors string
	pace         string
}

func main() {
	var options options
	flag.StringVar(&options.address, "addr", "127.0.0.1:8080", "TCP address of the signalling, port 0 for a free one")
	flag.StringVar(&options.video, "video", "", "H.264 file in Annex-B form")
	flag.StringVar(&options.audio, "audio", "", "Ogg/Opus file; none without it, or with -pace=nal")
	flag.IntVar(&options.fps, "fps", 30, "frames per second of the video file")
	flag.StringVar(&options.interceptors, "interceptors", "default", "default (NACK, reports, TWCC) or none")
	flag.StringVar(&options.pace, "pace", "frame", "frame (access units in real time) or nal (one NAL unit a tick)")
	version := flag.Bool("version", false, "print Pion's version")
	flag.Parse()
	if *version {
		fmt.Println(pionVersion())
		return
	}
	if err := run(options); err != nil {
		log.Fatal(err)
	}
}

func pionVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/pion/webrtc/v4" {
				return module.Version
			}
		}
	}
	return "unknown"
}

func run(options options) error {
	listener, err := net.Listen("tcp", options.address)
	if err != nil {
		return err
	}
	tracks, err := start(options)
	if err != nil {
		return err
	}
	api, err := newAPI(options, listener.Addr())
	if err != nil {
		return err
	}
	server := newServer(api, tracks)
	fmt.Printf("ready http://%s/doSignaling\n", listener.Addr())
	return http.Serve(listener, server.handler())
}

// newAPI keeps Pion's defaults for DTLS and SRTP. Candidates are cut down to what
// a server with one address offers: a socket per viewer, not one per interface.
func newAPI(options options, address net.Addr) (*webrtc.API, error) {
	var settings webrtc.SettingEngine
	settings.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4})
	settings.SetIncludeLoopbackCandidate(true)
	if tcp, ok := address.(*net.TCPAddr); ok && !tcp.IP.IsUnspecified() {
		settings.SetIPFilter(tcp.IP.Equal)
	}
	switch options.interceptors {
	case "default":
		// What an API has that is told nothing.
		return webrtc.NewAPI(webrtc.WithSettingEngine(settings)), nil
	case "none":
		var codecs webrtc.MediaEngine
		if err := codecs.RegisterDefaultCodecs(); err != nil {
			return nil, err
		}
		return webrtc.NewAPI(
			webrtc.WithSettingEngine(settings),
			webrtc.WithMediaEngine(&codecs),
			webrtc.WithInterceptorRegistry(nil),
		), nil
	default:
		return nil, fmt.Errorf("-interceptors=%s: default or none", options.interceptors)
	}
}

// start loads the files and plays them; the same tracks go to all viewers.
func start(options options) ([]webrtc.TrackLocal, error) {
	video, err := newTrack(webrtc.MimeTypeH264, "video")
	if err != nil {
		return nil, err
	}
	switch options.pace {
	case "nal":
		if _, err := os.Stat(options.video); err != nil {
			return nil, err
		}
		go func() { log.Fatal(playByNAL(video, options.video, options.fps)) }()
		return []webrtc.TrackLocal{video}, nil
	case "frame":
	default:
		return nil, fmt.Errorf("-pace=%s: frame or nal", options.pace)
	}
	frames, err := loop.VideoFrames(options.video, options.fps)
	if err != nil {
		return nil, err
	}
	go loop.Play(frames, writer(video))
	tracks := []webrtc.TrackLocal{video}
	if options.audio != "" {
		packets, err := loop.AudioPackets(options.audio)
		if err != nil {
			return nil, err
		}
		audio, err := newTrack(webrtc.MimeTypeOpus, "audio")
		if err != nil {
			return nil, err
		}
		go loop.Play(packets, writer(audio))
		tracks = append(tracks, audio)
	}
	return tracks, nil
}

func newTrack(codec, name string) (*webrtc.TrackLocalStaticSample, error) {
	capability := webrtc.RTPCodecCapability{MimeType: codec}
	return webrtc.NewTrackLocalStaticSample(capability, name, "pion")
}

func writer(track *webrtc.TrackLocalStaticSample) func(loop.Sample) {
	return func(sample loop.Sample) {
		write(track, media.Sample{Data: sample.Data, Duration: sample.Duration})
	}
}

// write goes on after an error: it is that of a viewer who has just left.
func write(track *webrtc.TrackLocalStaticSample, sample media.Sample) {
	if err := track.WriteSample(sample); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		log.Printf("a viewer missed a sample: %v", err)
	}
}

// playByNAL sends one NAL unit a tick, and begins the file anew at its end.
func playByNAL(track *webrtc.TrackLocalStaticSample, path string, fps int) error {
	tick := time.Duration(1000/fps) * time.Millisecond
	for {
		if err := playOnceByNAL(track, path, tick); err != nil {
			return err
		}
	}
}

func playOnceByNAL(track *webrtc.TrackLocalStaticSample, path string, tick time.Duration) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	reader, err := h264reader.NewReader(file)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for ; ; <-ticker.C {
		nal, err := reader.NextNAL()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		write(track, media.Sample{Data: nal.Data, Duration: time.Second})
	}
}
