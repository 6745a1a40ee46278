// What Janus needs around it to be load tested like any other server: a sender that
// feeds its streaming plugin by RTP from files, and a bridge from POST /doSignaling
// and WHEP to Janus's own API.
//
//	file ─► feed ─ RTP ─► Janus ─ SRTP ─► viewer
//	                        ▲ HTTP           │ offer
//	                        └─── bridge ◄────┘
//
// Media goes from Janus to the viewer directly; what runs here costs Janus nothing.
// Prints `ready URL` once Janus answers; the feed starts with the first viewer.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"
)

func main() {
	address := flag.String("addr", "127.0.0.1:8080", "TCP address of the signalling, port 0 for a free one")
	api := flag.String("janus", "http://127.0.0.1:8088/janus", "Janus's HTTP API")
	var feed feed
	flag.StringVar(&feed.video, "video", "", "H.264 file in Annex-B form")
	flag.StringVar(&feed.audio, "audio", "", "Ogg/Opus file")
	flag.IntVar(&feed.fps, "fps", 30, "frames per second of the video file")
	flag.Parse()
	if err := run(*address, newBridge(*api, feed)); err != nil {
		log.Fatal(err)
	}
}

func run(address string, bridge *bridge) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	if err := bridge.waitForJanus(20 * time.Second); err != nil {
		return err
	}
	fmt.Printf("ready http://%s/doSignaling\n", listener.Addr())
	return http.Serve(listener, bridge.handler())
}
