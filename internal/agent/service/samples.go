// SPDX-License-Identifier: Apache-2.0

package service

import (
	"sync"
	"time"
)

// Samples are the values of a counter in about the last minute, which tell how much it grew.
type Samples struct {
	mu      sync.Mutex
	samples []sample // at most KeptSamples, oldest first
}

type sample struct {
	at    time.Time
	total uint64
}

// samplesPeriod is how far samples go back.
const samplesPeriod = time.Minute

// KeptSamples is how many there are at most.
const KeptSamples = 12

// Add notes the counter's value.
func (s *Samples) Add(at time.Time, total uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.samples = append(s.samples, sample{at, total})
	for len(s.samples) > KeptSamples || len(s.samples) > 1 && at.Sub(s.samples[0].at) > samplesPeriod {
		s.samples = s.samples[1:]
	}
}

// Full reports whether the samples go back as far as they are kept.
func (s *Samples) Full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.samples) == KeptSamples
}

// Growth is how much the counter grew since the oldest sample.
func (s *Samples) Growth(total uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.samples) == 0 || total < s.samples[0].total {
		return 0
	}
	return total - s.samples[0].total
}
