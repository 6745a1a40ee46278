package loop

import (
	"bytes"
	"testing"
	"time"
)

func nal(header byte, payload ...byte) []byte {
	return append([]byte{0, 0, 0, 1, header}, payload...)
}

func TestParameterSetsBelongToTheFrameAfterThem(t *testing.T) {
	file := bytes.Join([][]byte{
		nal(0x67, 1), nal(0x68, 2), nal(0x65, 0x88), nal(0x65, 0x40), // two slices
		nal(0x41, 0x9a), nal(0x41, 0x9b),
		nal(0x67, 1), nal(0x68, 2), nal(0x65, 0x88),
	}, nil)
	units := accessUnits(file)
	if len(units) != 4 {
		t.Fatalf("%d access units, not 4: %x", len(units), units)
	}
	if !bytes.Equal(units[1][3:5], []byte{0x41, 0x9a}) {
		t.Errorf("the second begins with %x", units[1])
	}
	if units[3][3] != 0x67 {
		t.Errorf("the last begins with %x", units[3])
	}
}

func TestFileWithoutFramesHasNoUnits(t *testing.T) {
	for _, file := range [][]byte{nil, {0, 0, 1}, nal(0x67, 1), []byte("no video")} {
		if units := accessUnits(file); len(units) != 0 {
			t.Errorf("%x: %x", file, units)
		}
	}
}

func TestThirtiethsAddUpToASecond(t *testing.T) {
	var sum time.Duration
	for i := range 30 {
		sum += instant(i+1, 30) - instant(i, 30)
	}
	if sum != time.Second {
		t.Errorf("30 frames take %v", sum)
	}
}

func page(table []byte, payload []byte) []byte {
	header := append([]byte("OggS"), make([]byte, pageHeader-5)...)
	header = append(header, byte(len(table)))
	return append(append(header, table...), payload...)
}

func TestPacketsAreJoinedAcrossPagesAndCutInsideThem(t *testing.T) {
	long := bytes.Repeat([]byte{7}, 300)
	file := append(page([]byte{2, 255}, append([]byte{1, 2}, long[:255]...)),
		page([]byte{45, 1}, append(long[255:], 9))...)
	packets, err := oggPackets(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(packets) != 3 || len(packets[1]) != 300 || packets[2][0] != 9 {
		t.Errorf("%x", packets)
	}
	if _, err := oggPackets(file[:40]); err == nil {
		t.Error("half a page was taken for one")
	}
}

func TestDurationsOfOpus(t *testing.T) {
	for packet, want := range map[string]time.Duration{
		"\xfc":     20 * time.Millisecond, // CELT, one frame
		"\xe0":     2500 * time.Microsecond,
		"\xfd":     40 * time.Millisecond,
		"\xff\x03": 60 * time.Millisecond,
		"\x18":     60 * time.Millisecond, // SILK
		"\x68":     20 * time.Millisecond, // hybrid
		"\xff":     0,
		"":         0,
	} {
		if got := opusDuration([]byte(packet)); got != want {
			t.Errorf("%x: %v, not %v", packet, got, want)
		}
	}
}
