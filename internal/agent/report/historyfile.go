// SPDX-License-Identifier: Apache-2.0

package report

import (
	"os"
	"sync"

	"github.com/waymark-net/waymark/internal/insight"
	"github.com/waymark-net/waymark/internal/replacefile"
)

// historyFile is the file of the history. Intervals are appended, each as a member of gzip, so that what is
// written is what is new, and an agent that is killed at any moment loses at most the one that it writes. The
// whole file is written again when half of it is too old.
type historyFile struct {
	mu     sync.Mutex
	engine *insight.Engine // whose intervals are in it; nil: they are unknown
	mark   insight.Mark    // how many of them
	octets int
}

// spareHistory is what may be too old in a small file, in octets.
const spareHistory = 64 << 10

// save brings the file up to date.
func (f *historyFile) save(path string, e *insight.Engine) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.mark
	if f.engine != e {
		before = insight.Mark{}
	}
	more, mark, all := e.SaveSince(before)
	if !all && f.octets+len(more) > 2*e.Totals().Octets+spareHistory {
		more, mark, all = e.SaveSince(insight.Mark{})
	}
	f.engine = nil // until it is known to be right
	var err error
	if all {
		f.octets, err = 0, replacefile.Write(path, more, 0o600)
	} else {
		err = appendTo(path, more)
	}
	if err == nil {
		f.engine, f.mark, f.octets = e, mark, f.octets+len(more)
	}
	return err
}

// appendTo adds to a file that exists.
func appendTo(path string, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(b)
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}
