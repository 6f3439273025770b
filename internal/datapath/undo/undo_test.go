// SPDX-License-Identifier: Apache-2.0

package undo

import (
	"errors"
	"slices"
	"testing"
)

// TestStack checks that steps are taken back in reverse, all of them, and only where a change
// fails.
func TestStack(t *testing.T) {
	first, second, failed := errors.New("first"), errors.New("second"), errors.New("failed")
	change := func(fails error, keep bool, back int) (taken []int, err error) {
		var s Stack
		defer s.OnError(&err)
		s.Add(func() error { taken = append(taken, 1); return first })
		s.AddClose(func() { taken = append(taken, 2) })
		done := s.Done()
		s.Add(func() error { taken = append(taken, 3); return second })
		if back > 0 {
			return taken, errors.Join(fails, s.BackTo(done))
		}
		if keep {
			s.Keep()
		}
		return taken, fails
	}
	for _, tt := range []struct {
		name  string
		fails error
		keep  bool
		back  int
		taken []int
		errs  []error
	}{
		{name: "succeeds"},
		{name: "fails", fails: failed, taken: []int{3, 2, 1}, errs: []error{failed, second, first}},
		{name: "fails after it was kept", fails: failed, keep: true, errs: []error{failed}},
		{name: "fails late", fails: failed, back: 1, taken: []int{3, 2, 1}, errs: []error{failed, second, first}},
	} {
		taken, err := change(tt.fails, tt.keep, tt.back)
		if !slices.Equal(taken, tt.taken) {
			t.Errorf("%s: took back %v, want %v", tt.name, taken, tt.taken)
		}
		for _, e := range []error{failed, first, second} {
			if errors.Is(err, e) != slices.Contains(tt.errs, e) {
				t.Errorf("%s: %v, want %v", tt.name, err, tt.errs)
			}
		}
	}
}
