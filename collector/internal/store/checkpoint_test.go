// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"os"
	"testing"
	"time"
)

// The log of a file is moved into its tables by the writer when it is large, and by nothing else: no transaction of
// another thread does so.
func TestCheckpoint(t *testing.T) {
	t.Parallel()
	s, _ := opened(t, Options{Directory: t.TempDir(), byHand: true})
	log := func() int64 {
		info, err := os.Stat(s.path(s.file.entry.Name) + ".wal")
		if errors.Is(err, os.ErrNotExist) {
			return 0
		}
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	at, written := time.Now().Add(-time.Minute), 0
	for before := int64(0); log() <= mostOfLog+1<<20; before = log() {
		if err := s.file.write(t.Context(), some(10_000, at)); err != nil {
			t.Fatal(err)
		}
		if written += 10_000; log() < before {
			t.Fatalf("the log had %d octets, and has %d after another transaction", before, log())
		}
	}
	before := log()
	s.writing.Lock()
	s.rollUp(t.Context())
	s.writing.Unlock()
	if log() < before {
		t.Errorf("the log had %d octets, and has %d after rollups", before, log())
	}
	put(t, s, some(1, at))
	if log() != 0 {
		t.Errorf("the log has %d octets", log())
	}
	if got := ask(t, s, countPackets); got != float64(written+1) {
		t.Errorf("%v packets of %d", got, written+1)
	}
}
