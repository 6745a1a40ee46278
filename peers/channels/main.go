// Pion as a peer with data channels and nothing else: `channels FOLDER offer|answer [large]`.
//
// With `large` it has the receive buffer that its users are told to ask for, and sends
// whole messages of a mebibyte beside eight channels of 256 KiB at once.
//
// Gives its description as FOLDER/local.sdp and takes the other end's from
// FOLDER/remote.sdp. The other end gives every message back, and has a channel of its
// own, "own", on which this one does. Prints one JSON object of how it went.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/pion/webrtc/v4"
)

const (
	patience   = 200 * time.Second
	negotiated = 100
	// largeBuffer holds all that comes at once with `large`.
	largeBuffer = 32 << 20
	parallel    = 8
)

// work is what is sent on a channel: these sizes, split into pieces.
type work struct {
	sizes []int
	piece int
}

var (
	// Pion's receive buffer is a megabyte unless told otherwise, its usual piece this.
	usual  = work{sizes: []int{1, 16 << 10, 256 << 10, 1 << 20}, piece: 64 << 10}
	whole  = work{sizes: []int{1 << 20, 1 << 20, 1 << 20, 1 << 20}, piece: 1 << 20}
	beside = work{sizes: []int{2 << 20}, piece: 256 << 10}
)

// plan is what is opened, by label, and what is sent there.
type plan map[string]struct {
	init *webrtc.DataChannelInit
	work
}

func planOf(large bool) plan {
	no, yes, number := false, true, uint16(negotiated)
	if !large {
		return plan{
			"ordered":    {work: usual},
			"unordered":  {&webrtc.DataChannelInit{Ordered: &no}, usual},
			"negotiated": {&webrtc.DataChannelInit{Negotiated: &yes, ID: &number}, usual},
		}
	}
	all := plan{"whole": {work: whole}}
	for index := range parallel {
		all[fmt.Sprint("beside ", index)] = struct {
			init *webrtc.DataChannelInit
			work
		}{work: beside}
	}
	return all
}

type channelReport struct {
	Messages int `json:"messages"`
	Bytes    int `json:"bytes"`
}

type report struct {
	Channels  map[string]channelReport `json:"channels"`
	GivenBack int64                    `json:"givenBack"`
	Closed    int                      `json:"closed"`
	Done      bool                     `json:"done"`
}

func main() {
	large := len(os.Args) == 4 && os.Args[3] == "large"
	if len(os.Args) != 3 && !large {
		log.Fatal("usage: channels FOLDER offer|answer [large]")
	}
	if err := run(os.Args[1], os.Args[2], large); err != nil {
		log.Fatal(err)
	}
}

func run(folder, role string, large bool) error {
	var settings webrtc.SettingEngine
	if large {
		settings.SetSCTPMaxReceiveBufferSize(largeBuffer)
	}
	settings.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4})
	settings.SetIncludeLoopbackCandidate(true)
	settings.SetIPFilter(func(ip net.IP) bool { return ip.IsLoopback() })
	api := webrtc.NewAPI(webrtc.WithSettingEngine(settings))
	connection, err := api.NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		return err
	}
	var givenBack atomic.Int64
	connection.OnDataChannel(func(channel *webrtc.DataChannel) {
		channel.OnMessage(func(message webrtc.DataChannelMessage) {
			givenBack.Add(int64(len(message.Data)))
			if err := send(channel, message); err != nil {
				log.Print("give back: ", err)
			}
		})
	})
	all := planOf(large)
	results := make(chan result)
	for label, planned := range all {
		channel, err := connection.CreateDataChannel(label, planned.init)
		if err != nil {
			return err
		}
		exercise(channel, planned.work, results)
	}
	if err := signal(folder, role, connection); err != nil {
		return err
	}
	out := report{Channels: map[string]channelReport{}}
	deadline := time.After(patience)
	for range all {
		select {
		case result := <-results:
			if result.err != nil {
				return result.err
			}
			out.Channels[result.label] = result.channelReport
			out.Closed++
		case <-deadline:
			return fmt.Errorf("after %v: %+v", patience, out)
		}
	}
	for givenBack.Load() < total() {
		time.Sleep(20 * time.Millisecond)
	}
	out.GivenBack, out.Done = givenBack.Load(), true
	if err := connection.Close(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

func total() int64 {
	sum := 0
	for _, size := range usual.sizes {
		sum += size
	}
	return int64(sum)
}

type result struct {
	channelReport
	label string
	err   error
}

// exercise sends on a channel once it is open, and expects back what it sent.
func exercise(channel *webrtc.DataChannel, work work, results chan<- result) {
	got := make(chan webrtc.DataChannelMessage, 64)
	closed := make(chan struct{})
	channel.OnMessage(func(message webrtc.DataChannelMessage) { got <- message })
	channel.OnClose(func() { close(closed) })
	channel.OnOpen(func() {
		go func() {
			counted, err := exchangeAll(channel, work, got)
			if err == nil {
				err = channel.Close()
			}
			if err == nil {
				<-closed
			}
			results <- result{channelReport: counted, label: channel.Label(), err: err}
		}()
	})
}

func exchangeAll(channel *webrtc.DataChannel, work work, got <-chan webrtc.DataChannelMessage) (channelReport, error) {
	var counted channelReport
	for _, size := range work.sizes {
		parts := split(pattern(size, len(channel.Label())), work.piece)
		if size == 1 {
			parts = append(parts,
				webrtc.DataChannelMessage{IsString: true, Data: []byte("ö")},
				webrtc.DataChannelMessage{IsString: true},
				webrtc.DataChannelMessage{})
		}
		// Without an order there is one at a time.
		round := len(parts)
		if !channel.Ordered() {
			round = 1
		}
		for ; len(parts) > 0; parts = parts[round:] {
			if err := exchange(channel, got, parts[:round]); err != nil {
				return counted, fmt.Errorf("%s, %d bytes: %w", channel.Label(), size, err)
			}
			for _, part := range parts[:round] {
				counted.Messages++
				counted.Bytes += len(part.Data)
			}
		}
	}
	return counted, nil
}

func exchange(channel *webrtc.DataChannel, got <-chan webrtc.DataChannelMessage, parts []webrtc.DataChannelMessage) error {
	for _, part := range parts {
		if err := send(channel, part); err != nil {
			return err
		}
	}
	for _, part := range parts {
		select {
		case message := <-got:
			if message.IsString != part.IsString || !bytes.Equal(message.Data, part.Data) {
				return fmt.Errorf("%d bytes came back as %d others", len(part.Data), len(message.Data))
			}
		case <-time.After(patience):
			return fmt.Errorf("%d bytes did not come back", len(part.Data))
		}
	}
	return nil
}

func send(channel *webrtc.DataChannel, message webrtc.DataChannelMessage) error {
	if message.IsString {
		return channel.SendText(string(message.Data))
	}
	return channel.Send(message.Data)
}

func pattern(size, seed int) []byte {
	data := make([]byte, size)
	for at := range data {
		data[at] = byte((at*31 + seed) % 251)
	}
	return data
}

func split(data []byte, piece int) []webrtc.DataChannelMessage {
	var parts []webrtc.DataChannelMessage
	for ; len(data) > piece; data = data[piece:] {
		parts = append(parts, webrtc.DataChannelMessage{Data: data[:piece]})
	}
	return append(parts, webrtc.DataChannelMessage{Data: data})
}

func signal(folder, role string, connection *webrtc.PeerConnection) error {
	if role == "offer" {
		offer, err := connection.CreateOffer(nil)
		if err != nil {
			return err
		}
		if err := publish(folder, connection, offer); err != nil {
			return err
		}
		return remote(folder, connection, webrtc.SDPTypeAnswer)
	}
	if err := remote(folder, connection, webrtc.SDPTypeOffer); err != nil {
		return err
	}
	answer, err := connection.CreateAnswer(nil)
	if err != nil {
		return err
	}
	return publish(folder, connection, answer)
}

func publish(folder string, connection *webrtc.PeerConnection, local webrtc.SessionDescription) error {
	gathered := webrtc.GatheringCompletePromise(connection)
	if err := connection.SetLocalDescription(local); err != nil {
		return err
	}
	<-gathered
	part := filepath.Join(folder, "local.part")
	if err := os.WriteFile(part, []byte(connection.LocalDescription().SDP), 0o600); err != nil {
		return err
	}
	return os.Rename(part, filepath.Join(folder, "local.sdp"))
}

func remote(folder string, connection *webrtc.PeerConnection, kind webrtc.SDPType) error {
	path := filepath.Join(folder, "remote.sdp")
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		sdp, err := os.ReadFile(path)
		if err == nil {
			return connection.SetRemoteDescription(webrtc.SessionDescription{Type: kind, SDP: string(sdp)})
		}
	}
	return fmt.Errorf("no %s within %v", path, patience)
}
