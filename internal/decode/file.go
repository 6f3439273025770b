// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// Summary is the content of a whole capture.
type Summary struct {
	Packets int
	Records int
	Others  map[ioam.IOAMType]int // IOAM options that are neither traces nor Direct Exports
	Unknown map[LinkType]int      // packets of link layers that are not understood
	Times   Times                 // how the timestamps agree with their times
}

// Capture reads a capture to its end, or to where it cannot be read further. It passes
// each record to emit, whose error stops it, and each error to report; complete is
// false when there was one.
func Capture(r io.Reader, clock record.Clock, emit func(record.Record) error, report func(error)) (s Summary, complete bool, err error) {
	s = Summary{Others: map[ioam.IOAMType]int{}, Unknown: map[LinkType]int{}, Times: newTimes(clock)}
	complete = true
	fail := func(err error) { report(err); complete = false }
	reader, err := NewReader(r)
	if err != nil {
		fail(err)
		return s, false, nil
	}
	for {
		p, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fail(err)
			break
		}
		s.Packets++
		if !p.Link.Known() {
			s.Unknown[p.Link]++
			continue
		}
		found := Find(p, clock)
		for _, r := range found.Records {
			if err := emit(r); err != nil {
				return s, complete, err
			}
			s.Records++
			if trace, ok := r.(*record.Trace); ok {
				s.Times.add(p.Time, trace.Raw)
			}
		}
		for kind, n := range found.Others {
			s.Others[kind] += n
		}
		for _, err := range found.Faults {
			fail(fmt.Errorf("packet %d: %w", p.Number, err))
		}
	}
	for _, link := range slices.Sorted(maps.Keys(s.Unknown)) {
		fail(problem.New(
			fmt.Sprintf("link type %d is not supported: %d packets skipped", link, s.Unknown[link]),
			"capture on Ethernet, raw IP or Linux cooked",
		))
	}
	return s, complete, nil
}
