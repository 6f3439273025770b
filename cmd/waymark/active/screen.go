// SPDX-License-Identifier: Apache-2.0

package active

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/commandline"
)

// redraw is how often the screen takes the newest text.
const redraw = 250 * time.Millisecond

// sideways is by how many columns a key moves the text.
const sideways = 8

// followScreen shows a text that changes on the alternate screen of a terminal, while run
// runs. It ends with run, or when the user quits; then it ends run.
func followScreen(ctx context.Context, in, out *os.File, run func(context.Context) error, text func() string) (quit bool, err error) {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	options := []tea.ProgramOption{tea.WithOutput(out), tea.WithoutSignalHandler()}
	if commandline.IsTerminal(in) {
		options = append(options, tea.WithInput(in))
	} else {
		options = append(options, tea.WithInput(nil)) // signals still end it
	}
	program := tea.NewProgram(screen{text: text, shown: text()}, options...)
	ended := make(chan error, 1)
	go func() {
		ended <- run(running)
		program.Send(finished{atOnce: ctx.Err() != nil})
	}()
	// also of a run that has ended while the screen is paused
	stop := context.AfterFunc(ctx, func() { program.Send(finished{atOnce: true}) })
	last, err := program.Run()
	stop()
	cancel()
	err = errors.Join(<-ended, err)
	s, _ := last.(screen)
	if s.interrupted {
		// The terminal sent a byte instead of a signal. As if it had sent that:
		if err := unix.Kill(unix.Getpid(), unix.SIGINT); err != nil {
			return true, err
		}
		<-ctx.Done()
	}
	return s.quit, err
}

// screen is what the terminal shows: a part of the text, and a line about the keys.
type screen struct {
	text          func() string
	shown         string // the newest text, or that of when it was paused
	width, height int
	top, left     int // of the part
	paused        bool
	ended         bool // nothing changes any more
	quit          bool
	interrupted   bool
}

// finished says that what is shown will not change any more.
type finished struct{ atOnce bool }

// newest asks to take the newest text.
type newest struct{}

func later() tea.Cmd { return tea.Tick(redraw, func(time.Time) tea.Msg { return newest{} }) }

// Init implements [tea.Model].
func (s screen) Init() tea.Cmd { return later() }

// Update implements [tea.Model].
func (s screen) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	var then tea.Cmd
	switch m := message.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = m.Width, m.Height
	case newest:
		if then = later(); !s.paused {
			s.shown = s.text()
		}
	case finished:
		if s.ended = true; !s.paused || m.atOnce { // who paused is reading
			then = tea.Quit
		}
	case tea.KeyPressMsg:
		s, then = s.pressed(m.String())
	}
	return s.within(), then
}

func (s screen) pressed(key string) (screen, tea.Cmd) {
	switch page := max(1, s.height-2); key {
	case "ctrl+c":
		s.interrupted, s.quit = true, true
		return s, tea.Quit
	case "q", "esc":
		s.quit = !s.ended
		return s, tea.Quit
	case "p", "space":
		if s.paused = !s.paused; !s.paused {
			if s.shown = s.text(); s.ended {
				return s, tea.Quit
			}
		}
	case "up", "k":
		s.top--
	case "down", "j":
		s.top++
	case "pgup", "b":
		s.top -= page
	case "pgdown", "f":
		s.top += page
	case "home", "g":
		s.top, s.left = 0, 0
	case "end", "G":
		s.top = len(s.lines())
	case "left", "h":
		s.left -= sideways
	case "right", "l":
		s.left += sideways
	}
	return s, nil
}

func (s screen) lines() []string { return strings.Split(strings.TrimSuffix(s.shown, "\n"), "\n") }

// within keeps the part inside the text.
func (s screen) within() screen {
	lines := s.lines()
	longest := 0
	for _, line := range lines {
		longest = max(longest, len([]rune(line)))
	}
	s.top = max(0, min(s.top, len(lines)-s.rows()))
	s.left = max(0, min(s.left, longest-s.width))
	return s
}

// rows is how many lines of the text fit.
func (s screen) rows() int { return max(1, s.height-1) }

// View implements [tea.Model].
func (s screen) View() tea.View {
	v := tea.NewView(s.content())
	v.AltScreen = true
	return v
}

func (s screen) content() string {
	lines := s.lines()
	last := min(s.top+s.rows(), len(lines))
	var b strings.Builder
	for _, line := range lines[s.top:last] {
		b.WriteString(cut(line, s.left, s.width) + "\n")
	}
	b.WriteString(strings.Repeat("\n", s.rows()-(last-s.top)))
	state := "p pause"
	if s.paused {
		state = "PAUSED, p go on"
	}
	b.WriteString(
		cut(fmt.Sprintf("lines %d-%d/%d  q quit  %s  arrows, page up and down, home, end: scroll", s.top+1, last, len(lines), state), 0, s.width),
	)
	return b.String()
}

// cut is the part of a line that a screen shows.
func cut(line string, left, width int) string {
	runes := []rune(line)
	if left >= len(runes) {
		return ""
	}
	return string(runes[left:min(len(runes), left+width)])
}
