// Package loop reads elementary media files once and plays them for ever.
//
// The peers of the load test share it, so that all of them send the same video
// and the same audio, at the same pace.
package loop

import "time"

// Sample is what is sent at one instant: an access unit in Annex-B form, or one
// packet of Opus.
type Sample struct {
	Data     []byte
	Duration time.Duration
}

// Play hands out samples when they are due, without end. What is due counts from
// the start, so that neither ticks nor rounds add up to a drift; a receiver that
// holds it up gets what is overdue at once, as a live source would deliver it.
func Play(samples []Sample, each func(Sample)) {
	start := time.Now()
	var elapsed time.Duration
	for {
		for _, sample := range samples {
			time.Sleep(time.Until(start.Add(elapsed)))
			each(sample)
			elapsed += sample.Duration
		}
	}
}
