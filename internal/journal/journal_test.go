// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

const written = `plain
two
`

// writeAll writes lines of all priorities to standard error, as a service does.
func writeAll() {
	_, _ = io.WriteString(Lines(os.Stderr, Warning), written)
	log := slog.New(Handler(os.Stderr, func(w io.Writer) slog.Handler {
		return slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})
	})).With("a", 1)
	log.Debug("d")
	log.Info("i")
	log.WithGroup("g").Warn("w\nx", "b", 2)
	log.Error("e")
}

// TestMain is also a service, for tests that look at what it writes.
func TestMain(m *testing.M) {
	if os.Getenv("WAYMARK_JOURNAL_TEST") != "" {
		writeAll()
		return
	}
	os.Exit(m.Run())
}

// Lines have priorities if standard error is the stream that JOURNAL_STREAM names, and none otherwise.
func TestPriorities(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		stream     func(syscall.Stat_t) string
	}{
		{
			"the journal", "<4>plain\n<4>two\n<7>level=DEBUG msg=d a=1\n<6>level=INFO msg=i a=1\n<4>level=WARN msg=\"w\\nx\" a=1 g.b=2\n<3>level=ERROR msg=e a=1\n",
			func(s syscall.Stat_t) string { return fmt.Sprintf("%d:%d", s.Dev, s.Ino) },
		},
		{
			"another stream", "plain\ntwo\nlevel=DEBUG msg=d a=1\nlevel=INFO msg=i a=1\nlevel=WARN msg=\"w\\nx\" a=1 g.b=2\nlevel=ERROR msg=e a=1\n",
			func(s syscall.Stat_t) string { return fmt.Sprintf("%d:%d", s.Dev, s.Ino+1) },
		},
	} {
		path := filepath.Join(t.TempDir(), "stderr")
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		var stat syscall.Stat_t
		if err := syscall.Fstat(int(file.Fd()), &stat); err != nil {
			t.Fatal(err)
		}
		service := exec.Command(os.Args[0])
		service.Stderr, service.Env = file, []string{"WAYMARK_JOURNAL_TEST=1", "JOURNAL_STREAM=" + c.stream(stat)}
		if err := service.Run(); err != nil {
			t.Fatal(err)
		}
		file.Close()
		if got, err := os.ReadFile(path); err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n%s", c.name, err, got)
		}
	}
}

// What is written elsewhere than to standard error is never the journal.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if IsReached(&b) || Lines(&b, Error) != io.Writer(&b) {
		t.Error("a buffer is the journal")
	}
}

// A note has the severity that it was given, whatever its text begins with.
func TestNotifier(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	notify := Notifier(&b, "waymark-collector")
	notify(slog.LevelError, "out: no space left")
	notify(slog.LevelWarn, "error: x")
	notify(slog.LevelInfo, "receives at [::1]")
	if got := b.String(); got != "waymark-collector: error: out: no space left\nwaymark-collector: warning: error: x\n"+
		"waymark-collector: receives at [::1]\n" {
		t.Error(got)
	}
}
