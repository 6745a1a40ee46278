package loop

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"
)

const (
	// Bytes of an Ogg page's header before its segment table (RFC 3533 §6).
	pageHeader = 27
	// A segment of this length goes on in the next.
	fullSegment = 255
)

// AudioPackets reads the packets of an Ogg/Opus file with one stream.
func AudioPackets(path string) ([]Sample, error) {
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	packets, err := oggPackets(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	// The head and the tags (RFC 7845 §3).
	const headers = 2
	if len(packets) <= headers || !bytes.HasPrefix(packets[0], []byte("OpusHead")) {
		return nil, fmt.Errorf("%s: no Opus in it", path)
	}
	var samples []Sample
	for _, packet := range packets[headers:] {
		duration := opusDuration(packet)
		if duration == 0 {
			return nil, fmt.Errorf("%s: a packet of no duration", path)
		}
		samples = append(samples, Sample{Data: packet, Duration: duration})
	}
	return samples, nil
}

func oggPackets(file []byte) ([][]byte, error) {
	var packets [][]byte
	var packet []byte
	for len(file) > 0 {
		if len(file) < pageHeader || !bytes.HasPrefix(file, []byte("OggS")) {
			return nil, errors.New("no Ogg page where one should begin")
		}
		segments := int(file[pageHeader-1])
		if len(file) < pageHeader+segments {
			return nil, errors.New("a page is cut off")
		}
		table := file[pageHeader : pageHeader+segments]
		file = file[pageHeader+segments:]
		for _, length := range table {
			if len(file) < int(length) {
				return nil, errors.New("a page is cut off")
			}
			packet = append(packet, file[:length]...)
			file = file[length:]
			if length < fullSegment {
				packets = append(packets, packet)
				packet = nil
			}
		}
	}
	return packets, nil
}

// opusDuration reads the first bytes of a packet (RFC 6716 §3.1); 0 if they make
// no sense.
func opusDuration(packet []byte) time.Duration {
	if len(packet) == 0 {
		return 0
	}
	configuration := packet[0] >> 3
	var frame time.Duration
	switch {
	case configuration < 12:
		frame = []time.Duration{10, 20, 40, 60}[configuration%4] * time.Millisecond
	case configuration < 16:
		frame = []time.Duration{10, 20}[configuration%2] * time.Millisecond
	default:
		frame = 2500 * time.Microsecond << (configuration % 4)
	}
	switch packet[0] & 3 {
	case 0:
		return frame
	case 1, 2:
		return 2 * frame
	}
	if len(packet) < 2 {
		return 0
	}
	return time.Duration(packet[1]&63) * frame
}
