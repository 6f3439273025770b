// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Labs belong to root; another user learns what to do.
func TestListWithoutPermission(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "lab")
	if err := os.Mkdir(directory, 0); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked, so the thread and its user end with the goroutine
		if _, err := unix.SetfsuidRetUid(65534); err != nil && os.Geteuid() == 0 {
			failed <- err
			return
		}
		_, err := list(directory)
		failed <- err
	}()
	if err := <-failed; !errors.Is(err, fs.ErrPermission) || !strings.HasSuffix(err.Error(), "; run it as root") {
		t.Errorf("%v", err)
	}
}
