// SPDX-License-Identifier: Apache-2.0

package jsonl

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The package's service may write below /var/log/waymark alone: the cure says so, and how to allow more.
func TestDeniedCure(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, tt := range []struct {
		directory string
		err       error
		want      string
	}{
		{"/var/log", unix.EROFS, "name a file in /var/log/waymark, or let the service write there: systemctl edit waymark, [Service], ReadWritePaths=/var/log"},
		{".", fmt.Errorf("access: %w", unix.EROFS), "ReadWritePaths=/"},
		{"/var/log", unix.EACCES, "name a file in a directory that the agent may write"},
	} {
		if got := deniedCure(tt.directory, tt.err); !strings.Contains(got, tt.want) {
			t.Errorf("%s, %v: %q, want %q", tt.directory, tt.err, got, tt.want)
		}
	}
}
