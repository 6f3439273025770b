// SPDX-License-Identifier: Apache-2.0

package jsonl

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// appendFollowing follows the path, ignores errors of that, and appends.
func appendFollowing(t *testing.T, f *File, text string) (fault error) {
	t.Helper()
	fault = f.Follow()
	if _, err := f.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return fault
}

// holds checks the content of a file.
func holds(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s has %q, %v; want %q", filepath.Base(path), got, err, want)
	}
}

// A rotation needs no signal: the next line goes to the file at the path.
func TestFileFollowsRotation(t *testing.T) {
	rename := func(path string) error { return os.Rename(path, path+".1") }
	for _, tt := range []struct {
		name         string
		rotate       func(path string) error
		anew         bool   // the path is opened again
		kept, onward string // in the rotated file, if there is one, and after the path
	}{
		{"renamed", rename, true, "one\ntwo\n", "three\n"},
		{"renamed, and made anew", func(path string) error {
			return errors.Join(rename(path), os.WriteFile(path, []byte("other\n"), 0o600))
		}, true, "one\ntwo\n", "other\nthree\n"},
		{"removed", os.Remove, true, "", "three\n"},
		{"truncated", func(path string) error { return os.Truncate(path, 0) }, false, "", "three\n"},
		{"untouched", func(string) error { return nil }, false, "", "one\ntwo\nthree\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "traces.jsonl")
			f, err := OpenFile(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			first := f.open
			faults := errors.Join(appendFollowing(t, f, "one\n"), appendFollowing(t, f, "two\n"),
				tt.rotate(path), appendFollowing(t, f, "three\n"))
			if faults != nil {
				t.Error(faults)
			}
			if _, err := first.Stat(); (f.open != first) != tt.anew || errors.Is(err, os.ErrClosed) != tt.anew {
				t.Errorf("opened again: %v, the first one: %v", f.open != first, err)
			}
			if tt.kept != "" {
				holds(t, path+".1", tt.kept)
			}
			holds(t, path, tt.onward)
		})
	}
}

// If the path cannot be opened, writes continue to the open file.
func TestFileKeepsWhatItHas(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "traces")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "traces.jsonl")
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one\n", "two\n"} {
		err := appendFollowing(t, f, text)
		if !errors.Is(err, os.ErrNotExist) || !strings.HasSuffix(err.Error(), "; name a file in a directory that exists and may be written") {
			t.Errorf("error %v, want the problem and its cure", err)
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := appendFollowing(t, f, "three\n"); err != nil {
		t.Error(err)
	}
	holds(t, filepath.Join(dir+".away", "traces.jsonl"), "one\ntwo\n")
	holds(t, path, "three\n")
}

// A closed file is not made again.
func TestFileClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traces.jsonl")
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Close(), os.Remove(path)); err != nil {
		t.Fatal(err)
	}
	_, write := f.Write([]byte("one\n"))
	for what, err := range map[string]error{"follow": f.Follow(), "write": write, "close": f.Close()} {
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: %v, want %v", what, err, os.ErrClosed)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is there again: %v", err)
	}
}
