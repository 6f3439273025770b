// SPDX-License-Identifier: Apache-2.0

// Package journal gives the lines of a service their priority in systemd's journal, by the prefixes of
// sd-daemon(3). Written elsewhere, lines stay as they are.
package journal

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/coreos/go-systemd/v22/journal"
)

// Priority is that of a line, as syslog(3) numbers them.
type Priority int

// The priorities that programs use.
const (
	Error   = Priority(journal.PriErr)
	Warning = Priority(journal.PriWarning)
	Info    = Priority(journal.PriInfo)
	Debug   = Priority(journal.PriDebug)
)

// Notifier writes lines for the operator of a program to w: its name, the severity of errors and warnings, and
// the text; in the journal, with their priority.
func Notifier(w io.Writer, program string) func(level slog.Level, text string) {
	return func(level slog.Level, text string) {
		p := priorities[index(level)]
		severity := map[Priority]string{Error: "error: ", Warning: "warning: "}[p]
		fmt.Fprintf(Lines(w, p), "%s: %s%s\n", program, severity, text)
	}
}

// IsReached reports whether what is written to w goes to the journal: it is the standard error that systemd has
// connected to it.
func IsReached(w io.Writer) bool {
	if file, ok := w.(*os.File); !ok || file != os.Stderr {
		return false
	}
	is, err := journal.StderrIsJournalStream()
	return is && err == nil
}

// Lines is a writer of lines of one priority to w.
func Lines(w io.Writer, p Priority) io.Writer {
	if !IsReached(w) {
		return w
	}
	return &lines{w, fmt.Appendf(nil, "<%d>", p)}
}

// lines begins each line with a prefix. A line is written by one call.
type lines struct {
	to     io.Writer
	prefix []byte
}

// Write implements [io.Writer].
func (l *lines) Write(text []byte) (int, error) {
	var all []byte
	for line := range bytes.Lines(text) {
		all = append(append(all, l.prefix...), line...)
	}
	if _, err := l.to.Write(all); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Handler makes the handler of a log whose lines have the priorities of their levels. It makes one with each
// writer that it gets.
func Handler(w io.Writer, newHandler func(io.Writer) slog.Handler) slog.Handler {
	if !IsReached(w) {
		return newHandler(w)
	}
	return byLevel(func(p Priority) slog.Handler { return newHandler(Lines(w, p)) })
}

// priorities are those of levels.
var priorities = [...]Priority{Debug, Info, Warning, Error}

// levels is a handler for each priority, in their order.
type levels [len(priorities)]slog.Handler

func byLevel(of func(Priority) slog.Handler) *levels {
	var l levels
	for i, p := range priorities {
		l[i] = of(p)
	}
	return &l
}

func (l *levels) of(level slog.Level) slog.Handler { return l[index(level)] }

// index is where the priority of a level is in priorities.
func index(level slog.Level) int {
	switch {
	case level >= slog.LevelError:
		return 3
	case level >= slog.LevelWarn:
		return 2
	case level >= slog.LevelInfo:
		return 1
	}
	return 0
}

// Enabled implements [slog.Handler].
func (l *levels) Enabled(ctx context.Context, level slog.Level) bool {
	return l.of(level).Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (l *levels) Handle(ctx context.Context, r slog.Record) error {
	return l.of(r.Level).Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (l *levels) WithAttrs(attrs []slog.Attr) slog.Handler {
	return l.each(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

// WithGroup implements [slog.Handler].
func (l *levels) WithGroup(name string) slog.Handler {
	return l.each(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}

func (l *levels) each(change func(slog.Handler) slog.Handler) *levels {
	var changed levels
	for i, h := range l {
		changed[i] = change(h)
	}
	return &changed
}
