// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/insight"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/shellword"
)

// live shows the table on the whole terminal until the user quits.
func (f *topFlags) live(ctx context.Context, terminal *os.File, style topStyle, q api.HistoryTime, c *api.Client) error {
	options := []tea.ProgramOption{tea.WithOutput(terminal), tea.WithoutSignalHandler(), tea.WithInput(nil)}
	if commandline.IsTerminal(os.Stdin) {
		options[2] = tea.WithInput(os.Stdin)
	}
	ask := func() topAnswer {
		r, err := c.History(ctx, q)
		if err != nil {
			return topAnswer{err: err}
		}
		return topAnswer{r, latestEvents(ctx, c, q), nil}
	}
	first := ask() // an error before the screen stays readable
	err := first.err
	if err != nil {
		return err
	}
	s := topScreen{
		flags:    *f,
		ask:      ask,
		report:   first.report,
		events:   first.events,
		asked:    time.Now(),
		style:    style,
		expanded: make(map[string]bool),
	}
	program := tea.NewProgram(s, options...)
	stop := context.AfterFunc(ctx, program.Quit)
	last, err := program.Run()
	stop()
	if end, ok := last.(topScreen); ok && end.interrupted {
		if err := unix.Kill(unix.Getpid(), unix.SIGINT); err != nil { // as if the terminal had sent a signal
			return err
		}
		<-ctx.Done()
	}
	if err != nil {
		return err
	}
	return ctx.Err()
}

// topScreen is the live table.
type topScreen struct {
	flags    topFlags
	ask      func() topAnswer
	report   *insight.Report
	events   []*record.Event // the last ones
	asked    time.Time
	failed   string // why the newest report is missing
	style    topStyle
	height   int
	top      int // first line that is shown
	chosen   string
	expanded map[string]bool // by key of path, where the user has decided
	frozen   bool
	help     bool
	typing   bool   // into the filter
	message  string // answer to a key
	waiting  bool   // for an answer

	interrupted bool
}

// Init implements [tea.Model].
func (s topScreen) Init() tea.Cmd { return s.later() }

type topTick struct{}

type topAnswer struct {
	report *insight.Report
	events []*record.Event
	err    error
}

func (s topScreen) later() tea.Cmd {
	return tea.Tick(cmp.Or(s.flags.interval, time.Second), func(time.Time) tea.Msg { return topTick{} })
}

// Update implements [tea.Model].
func (s topScreen) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch m := message.(type) {
	case tea.WindowSizeMsg:
		s.style.width, s.height = max(m.Width, 1), m.Height
	case topTick:
		if s.frozen || s.waiting { // a frozen screen asks for no new report
			return s, s.later()
		}
		s.waiting = true
		ask := s.ask
		return s, tea.Batch(s.later(), func() tea.Msg { return ask() })
	case topAnswer:
		s.waiting = false
		if s.failed = ""; m.err != nil {
			s.failed = m.err.Error()
		} else if !s.frozen {
			s.report, s.events, s.asked = m.report, m.events, time.Now()
		}
	case tea.KeyPressMsg:
		if s.typing {
			return s.typed(m), nil
		}
		return s.pressed(m.String())
	}
	return s, nil
}

// typed takes a letter of the filter.
func (s topScreen) typed(m tea.KeyPressMsg) topScreen {
	const most = 64
	switch key := m.String(); key {
	case "enter":
		s.typing = false
	case "esc":
		s.typing, s.flags.filter = false, ""
	case "backspace":
		if runes := []rune(s.flags.filter); len(runes) > 0 {
			s.flags.filter = string(runes[:len(runes)-1])
		}
	default:
		if !strings.ContainsFunc(m.Text, func(r rune) bool { return !unicode.IsPrint(r) }) && len(s.flags.filter)+len(m.Text) <= most {
			s.flags.filter += m.Text
		}
	}
	return s
}

func (s topScreen) pressed(key string) (topScreen, tea.Cmd) {
	s.message = ""
	page := max(1, s.rows()-1)
	switch key {
	case "ctrl+c":
		s.interrupted = true
		return s, tea.Quit
	case "q":
		return s, tea.Quit
	case "esc":
		s.help, s.flags.filter = false, ""
	case "space", "p":
		s.frozen = !s.frozen
	case "?", "h":
		s.help = !s.help
	case "s":
		s.flags.sort = sorts[(slices.Index(sorts, s.flags.sort)+1)%len(sorts)]
	case "/":
		s.typing = true
	case "enter":
		s.expanded[s.chosen] = !s.isExpanded(s.chosen)
	case "c":
		line := s.command()
		s.message = "copied: " + line
		return s, tea.SetClipboard(line)
	case "up", "k":
		s = s.choose(-1)
	case "down", "j":
		s = s.choose(1)
	case "pgup", "b":
		s.top = max(0, s.top-page)
	case "pgdown", "f":
		s.top += page
	case "home", "g":
		s.top, s.chosen = 0, ""
	}
	return s, nil
}

// command is the command that shows the same time again.
func (s topScreen) command() string {
	words := []string{"waymark top"}
	if s.report.Filtered == nil { // else packets of that time cannot be selected again
		words = append(words, "--since", s.report.Since.UTC().Format(time.RFC3339), "--until", s.report.Until.UTC().Format(time.RFC3339))
	}
	if s.flags.sort != sorts[0] {
		words = append(words, "--sort", s.flags.sort)
	}
	for _, p := range s.flags.prefixes {
		words = append(words, "--prefix", shellword.Quote(p))
	}
	if s.flags.filter != "" {
		words = append(words, "--filter", shellword.Quote(s.flags.filter))
	}
	return strings.Join(append(words, s.flags.selects...), " ")
}

// isExpanded is what a path is now.
func (s topScreen) isExpanded(key string) bool {
	if own, decided := s.expanded[key]; decided {
		return own
	}
	for i := range s.report.Pairs {
		for k := range s.report.Pairs[i].Paths {
			if p := &s.report.Pairs[i].Paths[k]; pathKey(&s.report.Pairs[i], p) == key {
				return k == mainPath(&s.report.Pairs[i]) || hasVerdict(p)
			}
		}
	}
	return false
}

// lines is the table, in the chosen order.
func (s topScreen) lines() []topLine {
	r := *s.report
	r.Pairs = slices.Clone(r.Pairs)
	for i := range r.Pairs {
		r.Pairs[i].Paths = slices.Clone(r.Pairs[i].Paths)
	}
	filterAndSort(&r, s.flags.sort, s.flags.filter, s.flags.prefixes)
	return s.style.lines(&r, func(key string, byDefault bool) bool {
		if own, decided := s.expanded[key]; decided {
			return own
		}
		return byDefault
	})
}

// choose goes to the next path, or the one before, and shows it.
func (s topScreen) choose(step int) topScreen {
	lines := s.lines()
	var at []int // lines of paths
	now := -1
	for i, line := range lines {
		if line.path == "" {
			continue
		}
		if line.path == s.chosen {
			now = len(at)
		}
		at = append(at, i)
	}
	if len(at) == 0 {
		return s
	}
	now = min(max(now+step, 0), len(at)-1)
	s.chosen = lines[at[now]].path
	s.top = min(s.top, max(0, at[now]-2))
	s.top = max(s.top, at[now]-s.rows()+2)
	return s
}

// rows is how many lines of the table fit: the first line of the screen, the events and the last line are others.
func (s topScreen) rows() int { return max(1, s.height-2-len(s.shownEvents())) }

// shownEvents are those for which there is room.
func (s topScreen) shownEvents() []*record.Event {
	const enough = 12 // lines of the screen
	if s.height < enough {
		return nil
	}
	return s.events
}

// View implements [tea.Model].
func (s topScreen) View() tea.View {
	v := tea.NewView(s.content())
	v.AltScreen = true
	return v
}

// Colours of what is chosen, and of a hop that has a verdict. Both say the same without colours.
const (
	reverse = "\x1b[7m"
	bold    = "\x1b[1;31m"
	normal  = "\x1b[0m"
)

func (s topScreen) content() string {
	lines := s.lines()
	if s.help {
		lines = nil
		for _, text := range topHelp {
			lines = append(lines, topLine{text: s.style.fit(text, s.style.width)})
		}
	}
	top := max(0, min(s.top, len(lines)-s.rows()))
	last := min(top+s.rows(), len(lines))
	var b strings.Builder
	b.WriteString(s.style.head(s.report) + "\n")
	for _, line := range lines[top:last] {
		text := line.text
		if line.path != "" && line.path == s.chosen {
			text = ">" + strings.TrimPrefix(text, " ")
		}
		switch {
		case !s.style.colour:
		case line.path != "" && line.path == s.chosen:
			text = reverse + text + normal
		case line.bad:
			text = bold + text + normal
		}
		b.WriteString(text + "\n")
	}
	b.WriteString(strings.Repeat("\n", s.rows()-(last-top)))
	for _, line := range s.style.events(s.shownEvents()) {
		b.WriteString(line + "\n")
	}
	b.WriteString(s.style.fit(s.footer(top, last, len(lines)), s.style.width))
	return b.String()
}

// footer is the last line: what a key did, what is wrong, or the keys.
func (s topScreen) footer(top, last, all int) string {
	switch {
	case s.typing:
		return "filter: " + s.style.sentence(s.flags.filter) + "_"
	case s.message != "":
		return s.style.sentence(s.message)
	case s.failed != "":
		return fmt.Sprintf("no answer since %s: %s", s.asked.UTC().Format("15:04:05Z"), s.style.sentence(s.failed))
	}
	state := "space freeze"
	if s.frozen {
		state = "FROZEN, space goes on"
	}
	text := fmt.Sprintf("q quit  %s  s sort: %s  / filter", state, s.flags.sort)
	if s.flags.filter != "" {
		text += ": " + s.style.sentence(s.flags.filter)
	}
	text += "  enter hops  c copy  ? help"
	if all > last-top {
		text += fmt.Sprintf("  %d-%d/%d", top+1, last, all)
	}
	return text
}

var topHelp = []string{
	"q          quit",
	"space      freeze, go on",
	"up, down   choose a path",
	"enter      show the hops of the chosen path, or hide them",
	"s          next order: packets, delay, loss, name",
	"/          filter by the names of prefixes, nodes and flows; esc ends it",
	"c          copy a command that shows the same time again",
	"page up, page down, home: scroll",
	"? or h     this list",
	"",
	"HELD   from the arrival to the egress hook, which is before the queue",
	"NEXT   from there to the arrival at the next node; +: with the time held",
	"QUEUE  packets in the queue, at most",
	"LOST   after the hop, as far as it is known; of a path, if that of each hop is",
	"~      two clocks cannot tell: they may differ by more",
}
