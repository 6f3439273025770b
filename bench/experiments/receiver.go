// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/waymark-net/waymark/internal/collect/sender"
)

// receiver is a program that receives postcards.
type receiver struct {
	command *exec.Cmd
	done    chan error

	mu    sync.Mutex
	lines []string // the latest that it wrote
}

// startReceiver starts a program.
func startReceiver(ctx context.Context, file string, arguments ...string) (*receiver, error) {
	c := &receiver{command: exec.CommandContext(ctx, file, arguments...), done: make(chan error, 1)}
	read, write := io.Pipe()
	c.command.Stderr = write
	go func() {
		for lines := bufio.NewScanner(read); lines.Scan(); {
			c.mu.Lock()
			c.lines = append(c.lines[max(0, len(c.lines)-100):], lines.Text())
			c.mu.Unlock()
		}
		_, _ = io.Copy(io.Discard, read) // what follows a line that is too long
	}()
	if err := c.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", file, err)
	}
	go func() {
		c.done <- c.command.Wait()
		write.Close()
	}()
	return c, nil
}

func (c *receiver) pid() int { return c.command.Process.Pid }

// said is what the program wrote last.
func (c *receiver) said() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.lines, "\n")
}

// line waits for a line, and returns its parts.
func (c *receiver) line(pattern string) ([]string, error) {
	re := regexp.MustCompile(pattern)
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
		if parts := re.FindStringSubmatch(c.said()); parts != nil {
			return parts, nil
		}
		select {
		case err := <-c.done:
			c.done <- err
			return nil, fmt.Errorf("%s ended: %w: %s", c.command.Path, err, c.said())
		default:
		}
	}
	return nil, errors.Join(fmt.Errorf("%s does not say where it receives: %s", c.command.Path, c.said()), c.end())
}

// end interrupts the program, and waits for its end.
func (c *receiver) end() error {
	_ = c.command.Process.Signal(syscall.SIGINT) // fails if it has ended
	select {
	case err := <-c.done:
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == 130 || err == nil {
			return nil
		}
		return fmt.Errorf("%s: %w: %s", c.command.Path, err, c.said())
	case <-time.After(time.Minute):
		return errors.Join(fmt.Errorf("%s does not end", c.command.Path), c.command.Process.Kill())
	}
}

// findGoflow2 finds goflow2 in this program's directory, or where commands are.
func findGoflow2(program string) (file string, found bool) {
	file = filepath.Join(filepath.Dir(program), "goflow2")
	if _, err := os.Stat(file); err == nil {
		return file, true
	}
	file, err := exec.LookPath("goflow2")
	return file, err == nil
}

// measureGoflow2 runs goflow2, and sends postcards to it for a time.
func measureGoflow2(ctx context.Context, file string, rate int, share time.Duration) (run collectorRun, err error) {
	directory, err := os.MkdirTemp("", "waymark-bench-")
	if err != nil {
		return run, err
	}
	defer os.RemoveAll(directory)
	to, err := freePort()
	if err != nil {
		return run, err
	}
	out := filepath.Join(directory, "postcards.json")
	c, err := startReceiver(
		ctx,
		file,
		"-listen",
		"netflow://"+to,
		"-format",
		"json",
		"-transport",
		"file",
		"-transport.file",
		out,
		"-addr",
		"[::1]:0",
	)
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, c.end()) }()
	s, err := sender.New(to)
	if err != nil {
		return run, err
	}
	defer s.Close()
	if err := c.listens(ctx, to); err != nil {
		return run, err
	}
	var count lineCount
	err = run.send(ctx, s, c, rate, share, func() (uint64, float64, error) {
		err := count.read(out)
		return count.lines, float64(count.octets), err
	})
	return run, err
}

// freePort returns an address that no program uses at present.
func freePort() (string, error) {
	c, err := net.ListenPacket("udp", "[::1]:0")
	if err != nil {
		return "", err
	}
	defer c.Close()
	return c.LocalAddr().String(), nil
}

// listens waits until the program has a socket at an address.
func (c *receiver) listens(ctx context.Context, at string) error {
	for began := time.Now(); time.Since(began) < time.Minute; {
		l, err := net.ListenPacket("udp", at)
		if err != nil {
			return nil // it has
		}
		l.Close()
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s does not listen at %s: %s", c.command.Path, at, c.said())
}

// lineCount counts the lines of a file that grows.
type lineCount struct {
	lines  uint64
	octets int64
}

// read counts the lines that were added.
func (l *lineCount) read(file string) error {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(l.octets, io.SeekStart); err != nil {
		return err
	}
	buffer := make([]byte, 1<<20)
	for {
		n, err := f.Read(buffer)
		l.lines += uint64(bytes.Count(buffer[:n], []byte("\n")))
		l.octets += int64(n)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
