// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
)

// A collector that ends closes its connection and then refuses others: that is one line. A reason with
// another cure is one more.
func TestAwayIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	c := &Sink{log: slog.New(slog.NewTextHandler(&log, nil))}
	for i, tt := range []struct {
		err  error // nil: the collector is reached
		want string
	}{
		{errEnded, "level=WARN msg=\"the collector cannot be reached; records wait in a bounded queue\" error=\"" + errEnded.Error()},
		{fmt.Errorf("dial: %w", syscall.ECONNREFUSED), ""},
		{errEnded, ""},
		{syscall.EHOSTUNREACH, "check this node's route"},
		{syscall.ENETUNREACH, ""},
		{nil, "level=INFO msg=\"the collector can be reached again\""},
		{syscall.ECONNREFUSED, "error=\"connection refused\""},
	} {
		log.Reset()
		if tt.err == nil {
			c.reached()
		} else if c.noteUnreachable(tt.err); c.fault.Load() == nil || !strings.HasSuffix(tt.err.Error(), c.fault.Load().text) {
			t.Errorf("%d: the status has %+v, want %v", i, c.fault.Load(), tt.err)
		}
		if got := log.String(); strings.Count(got, "\n") != min(1, len(tt.want)) || !strings.Contains(got, tt.want) {
			t.Errorf("%d: %q, want %q", i, got, tt.want)
		}
	}
}
