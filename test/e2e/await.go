// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
)

// Transcript collects what a process writes, and can be waited for.
type Transcript struct {
	lock sync.Mutex
	text bytes.Buffer
}

func (o *Transcript) Write(b []byte) (int, error) {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.text.Write(b)
}

func (o *Transcript) String() string {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.text.String()
}

// sideBySide is how much longer a test waits because other tests run at the same
// time.
const sideBySide = 4

// Await waits until something holds; limit is for a machine that runs nothing
// else.
func Await(t *testing.T, what string, limit time.Duration, holds func() bool) {
	t.Helper()
	limit = patience.Of(sideBySide * limit)
	for deadline := time.Now().Add(limit); !holds(); time.Sleep(patience.Of(10 * time.Millisecond)) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, limit)
		}
	}
}
