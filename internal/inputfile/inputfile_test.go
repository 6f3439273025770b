// SPDX-License-Identifier: Apache-2.0

package inputfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int64]string{10: "text", 4: "text", 2: "tex"} {
		if got, err := Read(file, most); err != nil || string(got) != want {
			t.Errorf("at most %d: %q, %v", most, got, err)
		}
	}
	if _, err := Read(filepath.Join(dir, "none"), 10); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Read(dir, 10); err == nil {
		t.Error("a directory has content")
	}
}

// A named pipe is read to its end if something writes into it, and does not hold up anything otherwise.
func TestNamedPipes(t *testing.T) {
	idle = 300 * time.Millisecond
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path, 10); err == nil || !strings.Contains(err.Error(), "no process writes into this named pipe") {
		t.Errorf("without a writer: %v", err)
	}
	writer, err := os.OpenFile(path, os.O_RDWR, 0) // it has a reader, too: this does not wait
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if _, err := Read(path, 10); err == nil || !strings.Contains(err.Error(), "nothing came for 300ms") {
		t.Errorf("with a writer that says nothing: %v", err)
	}

	// As 'config check <(generate)' does.
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	go func() {
		defer out.Close()
		for _, text := range []string{"sl", "ow", "ly"} {
			time.Sleep(idle / 2)
			_, _ = out.WriteString(text)
		}
	}()
	if got, err := Read(fmt.Sprintf("/dev/fd/%d", in.Fd()), 10); err != nil || string(got) != "slowly" {
		t.Errorf("of a slow writer: %q, %v", got, err)
	}
}
