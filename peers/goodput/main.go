// Pion as one end of a bulk transfer over a data channel:
// `goodput FOLDER send|receive SECONDS MESSAGE_BYTES`.
//
// The sending end offers. Gives its description as FOLDER/local.sdp and takes the other
// end's from FOLDER/remote.sdp. A second after the first message it counts for SECONDS,
// and prints one JSON object: bytes, seconds, and its own processor time over them.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pion/webrtc/v4"
)

const (
	patience = 30 * time.Second
	warmUp   = time.Second
	// Of what Pion was given, these were its best: see the research of its figures.
	receiveBuffer = 8 << 20
	high          = 8 << 20
	low           = 2 << 20
)

type result struct {
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu_s"`
}

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: goodput FOLDER send|receive SECONDS MESSAGE_BYTES")
	}
	seconds, err := strconv.Atoi(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	size, err := strconv.Atoi(os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	if err := run(os.Args[1], os.Args[2] == "send", time.Duration(seconds)*time.Second, size); err != nil {
		log.Fatal(err)
	}
}

func run(folder string, sends bool, hold time.Duration, size int) error {
	var settings webrtc.SettingEngine
	settings.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4})
	settings.SetIncludeLoopbackCandidate(true)
	settings.SetIPFilter(func(ip net.IP) bool { return ip.IsLoopback() })
	settings.SetSCTPMaxReceiveBufferSize(receiveBuffer)
	settings.EnableSCTPZeroChecksum(true)
	api := webrtc.NewAPI(webrtc.WithSettingEngine(settings))
	connection, err := api.NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		return err
	}
	begun := make(chan struct{}, 1)
	var count func() int64
	if sends {
		channel, err := connection.CreateDataChannel("bulk", nil)
		if err != nil {
			return err
		}
		var sent atomic.Int64
		count = func() int64 { return sent.Load() - int64(channel.BufferedAmount()) }
		channel.OnOpen(func() {
			begun <- struct{}{}
			go fill(channel, size, &sent)
		})
	} else {
		var received atomic.Int64
		count = received.Load
		connection.OnDataChannel(func(channel *webrtc.DataChannel) {
			channel.OnMessage(func(message webrtc.DataChannelMessage) {
				if received.Add(int64(len(message.Data))) == int64(len(message.Data)) {
					begun <- struct{}{}
				}
			})
		})
	}
	if err := signal(folder, sends, connection); err != nil {
		return err
	}
	select {
	case <-begun:
	case <-time.After(patience):
		return fmt.Errorf("nothing within %v", patience)
	}
	time.Sleep(warmUp)
	start, bytes, cpu := time.Now(), count(), processorTime()
	time.Sleep(hold)
	out := result{count() - bytes, time.Since(start).Seconds(), processorTime() - cpu}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		return err
	}
	// The other end still counts.
	time.Sleep(warmUp)
	return nil
}

func fill(channel *webrtc.DataChannel, size int, sent *atomic.Int64) {
	isLow := make(chan struct{}, 1)
	channel.SetBufferedAmountLowThreshold(low)
	channel.OnBufferedAmountLow(func() {
		select {
		case isLow <- struct{}{}:
		default:
		}
	})
	message := make([]byte, size)
	for at := range message {
		message[at] = byte(at * 31)
	}
	for {
		if channel.Send(message) != nil {
			return
		}
		sent.Add(int64(size))
		if channel.BufferedAmount() > high {
			<-isLow
		}
	}
}

// processorTime is that of this process, in seconds.
func processorTime() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

func signal(folder string, offers bool, connection *webrtc.PeerConnection) error {
	if offers {
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
