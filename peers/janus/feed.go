package main

import (
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"

	"glassline/peers/loop"
)

const (
	// Bytes of an RTP packet, header included; Pion's own.
	packetBytesMax = 1200
	// Janus puts its own in its place.
	payloadType = 96
	videoClock  = 90_000
	audioClock  = 48_000

	// A keyframe in one go would overrun the socket that Janus reads: such losses
	// would be the feed's, for all viewers at once.
	chunk       = 8
	chunkPeriod = 500 * time.Microsecond
)

// feed sends files as RTP.
type feed struct {
	video, audio string
	fps          int
}

// start sends to these UDP ports of loopback from now on.
func (f feed) start(videoPort, audioPort int) error {
	frames, err := loop.VideoFrames(f.video, f.fps)
	if err != nil {
		return err
	}
	packets, err := loop.AudioPackets(f.audio)
	if err != nil {
		return err
	}
	video, err := newSender(videoPort, videoClock, &codecs.H264Payloader{})
	if err != nil {
		return err
	}
	audio, err := newSender(audioPort, audioClock, &codecs.OpusPayloader{})
	if err != nil {
		return err
	}
	go loop.Play(frames, video.send)
	go loop.Play(packets, audio.send)
	return nil
}

// sender packetises one track.
type sender struct {
	socket     net.Conn
	packetizer rtp.Packetizer
	clockRate  uint64
	// Time sent so far; timestamps come from it, so that they do not drift.
	elapsed time.Duration
}

func newSender(port int, clockRate uint32, payloader rtp.Payloader) (*sender, error) {
	socket, err := net.Dial("udp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	sequencer := rtp.NewRandomSequencer()
	packetizer := rtp.NewPacketizer(packetBytesMax, payloadType, rand.Uint32(), payloader, sequencer, clockRate)
	return &sender{socket: socket, packetizer: packetizer, clockRate: uint64(clockRate)}, nil
}

func (s *sender) send(sample loop.Sample) {
	before := s.ticks()
	s.elapsed += sample.Duration
	packets := s.packetizer.Packetize(sample.Data, uint32(s.ticks()-before))
	for i, packet := range packets {
		if i > 0 && i%chunk == 0 {
			time.Sleep(chunkPeriod)
		}
		bytes, err := packet.Marshal()
		if err == nil {
			_, err = s.socket.Write(bytes)
		}
		if err != nil {
			log.Printf("Janus takes no packet: %v", err)
		}
	}
}

func (s *sender) ticks() uint64 {
	// Rounded: an instant may lie a nanosecond before its tick.
	const second = uint64(time.Second)
	return (uint64(s.elapsed)/second)*s.clockRate + (uint64(s.elapsed)%second*s.clockRate+second/2)/second
}
