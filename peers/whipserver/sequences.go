package main

// After so many later packets, a missing one does not come any more.
const givenUp = 1024

// sequences knows which sequence numbers of a track are missing.
type sequences struct {
	began   bool
	highest uint64
	first   uint64
	seen    map[uint64]struct{}
	// missing counts the numbers that were given up.
	missing uint64
}

func newSequences() *sequences {
	return &sequences{seen: map[uint64]struct{}{}}
}

// note takes the number of a packet, and returns whether a later one came before it.
func (s *sequences) note(number uint16) bool {
	if !s.began {
		s.began = true
		// Away from zero, so that earlier numbers stay above it.
		s.highest = 1<<32 | uint64(number)
		s.first = s.highest
		s.seen[s.highest] = struct{}{}
		return false
	}
	ahead := int64(int16(number - uint16(s.highest)))
	extended := uint64(int64(s.highest) + ahead)
	isLate := ahead < 0
	if !isLate {
		s.highest = extended
	}
	if extended >= s.first {
		s.seen[extended] = struct{}{}
	}
	for s.first+givenUp < s.highest {
		if _, arrived := s.seen[s.first]; !arrived {
			s.missing++
		}
		delete(s.seen, s.first)
		s.first++
	}
	return isLate
}

