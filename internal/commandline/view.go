// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/columns"
)

// AddWide adds the flag --wide to a command whose output is made for the width of the screen.
func (o *Options) AddWide(cmd *cobra.Command) {
	cmd.Flags().
		BoolVar(&o.Wide, "wide", false, "show all columns, and never fold a line (default: what fits the terminal; 80 columns elsewhere)")
}

// View is what a person reads the output w on.
func (o *Options) View(w io.Writer) columns.Screen {
	s := columns.Screen{Width: screenWidth(w), ASCII: onlyASCII(), Colour: HasColour(w)}
	if o.Wide {
		s.Width = 0
	}
	return s
}

// Letters writes text for a person to w, in the letters of the reader's locale.
func Letters(w io.Writer) io.Writer { return columns.Screen{ASCII: onlyASCII()}.Writer(w) }

// NoteView is what a person reads notes on, such as those on standard error. In a log, a note stays
// one line.
func (o *Options) NoteView(w io.Writer) columns.Screen {
	s := o.View(w)
	if !IsTerminal(w) {
		s.Width = 0
	}
	return s
}

// HasColour reports whether an output is a terminal whose user wants colours (no-color.org).
func HasColour(w io.Writer) bool {
	_, able := Screen(w)
	return able && os.Getenv("NO_COLOR") == ""
}

// narrowestScreen is the least width that text is made for.
const narrowestScreen = 40

// screenWidth is the width of a terminal. Elsewhere it is that of COLUMNS, if a user exports it.
func screenWidth(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
			return max(narrowestScreen, int(size.Col))
		}
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return max(narrowestScreen, n)
	}
	return columns.DefaultWidth
}

// onlyASCII reports whether the locale has no letters beyond ASCII, by the variables of POSIX in
// their order. Without any, it is the locale C.
func onlyASCII() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := os.Getenv(name); value != "" {
			value = strings.ToLower(value)
			return !strings.Contains(value, "utf-8") && !strings.Contains(value, "utf8")
		}
	}
	return true
}
