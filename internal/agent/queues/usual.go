// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/waymark-net/waymark/internal/insight"
	"github.com/waymark-net/waymark/internal/replacefile"
)

// usualFile keeps what is usual in the queues, so that the next agent need not learn it again: otherwise, a queue that
// is slow when the agent begins would count as usual.
type usualFile struct {
	saved   time.Time
	content []byte
}

const (
	// saveEvery is the time between two looks at whether the file must change.
	saveEvery = 10 * time.Second
	// mostSaved is the greatest file that is read, in octets.
	mostSaved = 1 << 20
)

// open takes over what an earlier agent kept. A file that cannot be read is no reason not to begin.
func (f *usualFile) open(d *Dependencies, watch *insight.QueueWatch, now time.Time) {
	info, err := os.Stat(d.File)
	if errors.Is(err, fs.ErrNotExist) || d.File == "" {
		return
	}
	if err == nil && info.Size() > mostSaved {
		err = errors.New("it is larger than such a file")
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(d.File)
	}
	if err == nil {
		err = watch.Restore(b, now)
	}
	if err != nil {
		d.Log.Warn("what was usual in queues could not be read; it is learned anew", "file", d.File, "error", err)
	}
}

// save brings the file up to date.
func (f *usualFile) save(d *Dependencies, watch *insight.QueueWatch, now time.Time) {
	if d.File == "" || now.Sub(f.saved).Abs() < saveEvery {
		return
	}
	f.saved = now
	b := watch.Save(now)
	if b == nil || bytes.Equal(b, f.content) {
		return
	}
	f.content = b
	if err := replacefile.Write(d.File, b, 0o600); err != nil {
		d.Log.Warn("what is usual in queues could not be kept for the next agent", "error", err)
	}
}
