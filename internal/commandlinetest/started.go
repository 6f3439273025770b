// SPDX-License-Identifier: Apache-2.0

package commandlinetest

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
)

// Output is what a program has written while it runs.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

// String is all of it.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Await waits until an expression matches, and gives its first group.
func (o *Output) Await(t *testing.T, expression string) string {
	t.Helper()
	wanted := regexp.MustCompile(expression)
	for deadline := time.Now().Add(patience.Of(10 * time.Second)); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if m := wanted.FindStringSubmatch(o.String()); m != nil {
			return m[len(m)-1]
		}
	}
	t.Fatalf("no %q in %q", expression, o)
	return ""
}

// Started is a command that runs.
type Started struct {
	Out, Errs Output
	Interrupt context.CancelFunc
	code      chan int
}

// Start starts a command line. It is interrupted when the test ends.
func (p Program) Start(t *testing.T, args ...string) *Started {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	s := &Started{code: make(chan int, 1), Interrupt: cancel}
	go func() { s.code <- p.Run(ctx, args, strings.NewReader(""), &s.Out, &s.Errs) }()
	return s
}

// End waits for the command's end, and gives its exit code.
func (s *Started) End(t *testing.T) (code int) {
	t.Helper()
	select {
	case code = <-s.code:
	case <-time.After(patience.Of(10 * time.Second)):
		t.Fatalf("it does not end: %s", &s.Errs)
	}
	return code
}
