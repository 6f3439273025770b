// SPDX-License-Identifier: Apache-2.0

package active

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/patience"
)

// numbered is a text of some lines, each with its number.
func numbered(lines int) string {
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "line-%d and a long end %s\n", i+1, strings.Repeat("x", 60))
	}
	return b.String()
}

// What keys and sizes do to the part that is shown.
func TestScreen(t *testing.T) {
	text := numbered(20)
	var s tea.Model = screen{text: func() string { return text }, shown: text}
	update := func(m tea.Msg) (quits bool) {
		t.Helper()
		var then tea.Cmd
		if s, then = s.Update(m); then == nil {
			return false
		}
		_, quits = then().(tea.QuitMsg)
		return quits
	}
	press := func(code rune, text string) bool { return update(tea.KeyPressMsg{Code: code, Text: text}) }
	check := func(first, last int, status string) {
		t.Helper()
		lines := strings.Split(s.(screen).content(), "\n")
		if n := len(lines); n != s.(screen).height || !strings.HasPrefix(lines[0], fmt.Sprintf("line-%d ", first)) ||
			!strings.HasPrefix(lines[n-2], fmt.Sprintf("line-%d ", last)) || !strings.HasPrefix(lines[n-1], status) {
			t.Errorf("want lines %d to %d and %q, got\n%s", first, last, status, strings.Join(lines, "\n"))
		}
		for _, line := range lines {
			if len([]rune(line)) > s.(screen).width {
				t.Errorf("a line would wrap: %q", line)
			}
		}
	}
	update(tea.WindowSizeMsg{Width: 40, Height: 6})
	check(1, 5, "lines 1-5/20  q quit  p pause")
	press(tea.KeyDown, "")
	check(2, 6, "lines 2-6/20")
	press(tea.KeyEnd, "")
	check(16, 20, "lines 16-20/20")
	press(tea.KeyDown, "") // there is nothing below
	check(16, 20, "lines 16-20/20")
	press(tea.KeyPgUp, "")
	check(12, 16, "lines 12-16/20")
	press('g', "g")
	press(tea.KeyUp, "")
	check(1, 5, "lines 1-5/20")
	press(tea.KeyRight, "")
	if first, _, _ := strings.Cut(s.(screen).content(), "\n"); !strings.HasPrefix(first, "nd a long end x") {
		t.Errorf("to the right: %q", first)
	}
	press(tea.KeyLeft, "")
	press(tea.KeyEnd, "")
	update(tea.WindowSizeMsg{Width: 30, Height: 12}) // what was below the end fills the screen
	check(10, 20, "lines 10-20/20")

	press('p', "p")
	text = numbered(3)
	update(newest{})
	check(10, 20, "lines 10-20/20  q quit  PAUSED")
	if update(finished{}) {
		t.Error("it ends while someone reads")
	}
	if !press('p', "p") || s.(screen).shown != text {
		t.Error("it goes on after the end")
	}
	s = screen{text: func() string { return text }, shown: text, width: 40, height: 6}
	if !update(finished{}) {
		t.Error("it does not end with what it shows")
	}
	s = screen{text: func() string { return text }, shown: text, paused: true}
	if !update(finished{atOnce: true}) {
		t.Error("a signal does not end it")
	}
	if !press('q', "q") || s.(screen).interrupted {
		t.Error("q does not quit")
	}
}

// terminal is a terminal of a number of lines, as a user's program has it.
type terminal struct {
	user, program *os.File

	mu     sync.Mutex
	output strings.Builder
}

func openTerminal(t *testing.T, rows int) *terminal {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { user.Close() })
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	term := &terminal{user: user, program: program}
	term.resize(t, rows)
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := user.Read(b)
			if err != nil {
				return
			}
			term.mu.Lock()
			term.output.Write(b[:n])
			term.mu.Unlock()
		}
	}()
	return term
}

func (term *terminal) resize(t *testing.T, rows int) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(term.user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: 100}); err != nil {
		t.Fatal(err)
	}
}

// await waits until a text appears after what was awaited before.
func (term *terminal) await(t *testing.T, want string) {
	t.Helper()
	deadline := time.Now().Add(patience.Of(10 * time.Second))
	for {
		term.mu.Lock()
		got := term.output.String()
		before, after, found := strings.Cut(got, want)
		if found {
			term.output.Reset()
			term.output.WriteString(after)
		}
		term.mu.Unlock()
		if found {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %q in %q", want, before)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (term *terminal) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := term.user.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// On a terminal: a text that is taller than the screen can be scrolled, the screen follows
// its size, and what was there before comes back at the end.
func TestOnTerminal(t *testing.T) {
	const leave = "\x1b[?1049l"
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGINT)
	defer signal.Stop(signals)
	failed := errors.New("failed")
	for _, test := range []struct {
		name, keys string
		quit       bool
		err        error
	}{{"quit", "q", true, nil}, {"interrupt", "\x03", true, nil}, {"the end", "", false, failed},
		{"a signal after the end, while paused", "p", false, failed}} {
		t.Run(test.name, func(t *testing.T) {
			term := openTerminal(t, 6)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			end := make(chan struct{})
			run := func(ctx context.Context) error {
				select {
				case <-ctx.Done():
					return nil
				case <-end:
					return failed
				}
			}
			type result struct {
				quit bool
				err  error
			}
			done := make(chan result, 1)
			go func() {
				quit, err := followScreen(ctx, term.program, term.program, run, func() string { return numbered(20) })
				done <- result{quit, err}
			}()
			term.await(t, "\x1b[?1049h")
			term.await(t, "line-5")
			term.press(t, "G")
			term.await(t, "6-20/20") // of the line, what changed
			term.resize(t, 30)
			if err := unix.Kill(unix.Getpid(), unix.SIGWINCH); err != nil {
				t.Fatal(err)
			}
			term.await(t, "lines 1-20/20")
			term.press(t, test.keys)
			switch test.name {
			case "interrupt":
				select {
				case <-signals:
					cancel()
				case <-time.After(patience.Of(10 * time.Second)):
					t.Fatal("Ctrl-C is no interrupt")
				}
			case "the end":
				close(end)
			case "a signal after the end, while paused":
				term.await(t, "PAUSED")
				close(end)
				time.Sleep(200 * time.Millisecond) // the run has ended, and the screen stays
				cancel()
			}
			select {
			case got := <-done:
				if got.quit != test.quit || !errors.Is(got.err, test.err) {
					t.Errorf("quit %v, %v", got.quit, got.err)
				}
			case <-time.After(patience.Of(10 * time.Second)):
				t.Fatal("it does not end")
			}
			term.await(t, leave)
			state, err := unix.IoctlGetTermios(int(term.program.Fd()), unix.TCGETS)
			if err != nil || state.Lflag&unix.ICANON == 0 || state.Lflag&unix.ECHO == 0 {
				t.Errorf("the terminal stays raw: %+v, %v", state, err)
			}
		})
	}
}
