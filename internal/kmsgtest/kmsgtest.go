// SPDX-License-Identifier: Apache-2.0

// Package kmsgtest lets the tests of a package fail when the kernel complains
// while they run: BPF programs make packets that the rest of the kernel has to
// be at ease with.
package kmsgtest

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	device = "/dev/kmsg"
	// recordSize is more than the longest record of the log: what does not fit
	// into a read is an error.
	recordSize = 1 << 14
	// contextLines is how many lines after a complaint are shown with it.
	contextLines = 60
)

var complaint = regexp.MustCompile(`WARNING:|BUG:|Oops|Call Trace|lockup|general protection fault|Kernel panic`)

// Run runs the tests of a package, as TestMain does, and gives the code to exit
// with: not 0 when they passed and the kernel complained meanwhile, or when
// no one could have heard it. Without root nothing of ours reaches the kernel,
// and the log is not read.
func Run(m *testing.M) int {
	if os.Geteuid() != 0 {
		return m.Run()
	}
	log, err := open()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer log.close()
	flag.Parse() // for Verbose; Run would do it
	if err := rearm(); err != nil && testing.Verbose() {
		fmt.Fprintf(os.Stderr, "kmsgtest: a warning that the kernel gives once, and gave before, will not be seen: %v\n", err)
	}
	return judge(m.Run(), log, os.Stderr)
}

// kernelLog is an open log. Its reads do not wait, as those of an os.File would.
type kernelLog struct{ fd int }

func (l kernelLog) Read(b []byte) (int, error) {
	n, err := unix.Read(l.fd, b)
	return max(n, 0), err
}

func (l kernelLog) close() error { return unix.Close(l.fd) }

// open opens the kernel's log where it ends now.
func open() (kernelLog, error) {
	fd, err := unix.Open(device, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return kernelLog{}, fmt.Errorf("read the kernel's log %s: %w", device, err)
	}
	if _, err := unix.Seek(fd, 0, io.SeekEnd); err != nil {
		unix.Close(fd)
		return kernelLog{}, fmt.Errorf("find the end of the kernel's log: %w", err)
	}
	return kernelLog{fd}, nil
}

// rearm makes the kernel give those warnings again that it gives once between
// two boots. A kernel that is locked down does not allow it.
func rearm() error {
	const file = "clear_warn_once"
	write := func(directory string) error {
		return os.WriteFile(filepath.Join(directory, file), []byte("1"), 0)
	}
	if err := write("/sys/kernel/debug"); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	directory, err := os.MkdirTemp("", "kmsgtest-")
	if err != nil {
		return err
	}
	defer os.Remove(directory)
	if err := unix.Mount("debugfs", directory, "debugfs", 0, ""); err != nil {
		return fmt.Errorf("mount debugfs: %w", err)
	}
	return errors.Join(write(directory), unix.Unmount(directory, 0))
}

// judge reads the log and reports warnings. Each read gives one
// record.
func judge(code int, log io.Reader, report io.Writer) int {
	found, err := complaints(log)
	if err != nil {
		fmt.Fprintf(report, "FAIL: the kernel's log while the tests ran: %v\n", err)
		return max(code, 1)
	}
	if len(found) == 0 {
		return code
	}
	fmt.Fprintln(report, "FAIL: the kernel complained while the tests ran:")
	for _, line := range found {
		fmt.Fprintln(report, "\t"+line)
	}
	return max(code, 1)
}

// complaints are the complaints of the kernel in its log, each with the lines
// that follow.
func complaints(log io.Reader) ([]string, error) {
	var found []string
	buffer, shown := make([]byte, recordSize), 0
	for {
		n, err := log.Read(buffer)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, unix.EAGAIN):
			return found, nil
		case errors.Is(err, unix.EPIPE): // the next read goes on after the gap
			return found, errors.New("it was overwritten before it was read")
		case err != nil:
			return found, err
		}
		line, ok := kernelLine(string(buffer[:n]))
		if !ok {
			continue
		}
		if complaint.MatchString(line) {
			shown = contextLines
		}
		if shown > 0 {
			found = append(found, line)
			shown--
		}
	}
}

// kernelLine is the text of a record "priority,number,time,flags;text" with
// perhaps more lines of attributes; ok is false when a process wrote it.
func kernelLine(record string) (text string, ok bool) {
	prefix, text, ok := strings.Cut(record, ";")
	if !ok {
		return "", false
	}
	field, _, _ := strings.Cut(prefix, ",")
	priority, err := strconv.Atoi(field)
	if err != nil || priority>>3 != 0 {
		return "", false
	}
	text, _, _ = strings.Cut(text, "\n")
	return text, true
}
