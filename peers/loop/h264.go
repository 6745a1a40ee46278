package loop

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"
)

// NAL unit types (ITU-T H.264, table 7-1).
const (
	slice        = 1
	slicePartA   = 2
	sliceIDR     = 5
	sei          = 6
	accessUnit   = 9
	prefix       = 14
	reservedLast = 18
)

var startCode = []byte{0, 0, 1}

// VideoFrames cuts an Annex-B file into its access units, each 1/fps long.
func VideoFrames(path string, fps int) ([]Sample, error) {
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if fps <= 0 {
		return nil, fmt.Errorf("%s: %d frames per second", path, fps)
	}
	units := accessUnits(file)
	if len(units) == 0 {
		return nil, fmt.Errorf("%s: %w", path, errors.New("no video frame in Annex B form"))
	}
	samples := make([]Sample, len(units))
	for i, unit := range units {
		// Differences of exact instants: their sum has no rounding error.
		samples[i] = Sample{Data: unit, Duration: instant(i+1, fps) - instant(i, fps)}
	}
	return samples, nil
}

func instant(frame, fps int) time.Duration {
	return time.Duration(frame) * time.Second / time.Duration(fps)
}

// accessUnits follows ITU-T H.264 §7.4.1.2.3 as far as baseline needs it: what may
// only stand before a frame, or the first slice of the next, begins a new unit.
func accessUnits(file []byte) [][]byte {
	var units [][]byte
	begin, hasFrame := -1, false
	for at := next(file, 0); at >= 0; at = next(file, at+len(startCode)) {
		header := at + len(startCode)
		if header >= len(file) {
			break
		}
		kind := file[header] & 31
		isSlice := kind == slice || kind == slicePartA || kind == sliceIDR
		// first_mb_in_slice is 0, which Exp-Golomb writes as a lone 1.
		isFirstSlice := isSlice && header+1 < len(file) && file[header+1]&0x80 != 0
		isBefore := kind >= sei && kind <= accessUnit || kind >= prefix && kind <= reservedLast
		if begin < 0 {
			begin = at
		} else if hasFrame && (isFirstSlice || isBefore) {
			units = append(units, file[begin:at])
			begin, hasFrame = at, false
		}
		hasFrame = hasFrame || isSlice
	}
	if hasFrame {
		units = append(units, file[begin:])
	}
	return units
}

// next finds the next start code; -1 if there is none.
func next(file []byte, from int) int {
	if from > len(file) {
		return -1
	}
	at := bytes.Index(file[from:], startCode)
	if at < 0 {
		return -1
	}
	return from + at
}
