// SPDX-License-Identifier: Apache-2.0

// Package columns writes text for people: tables of which the less important columns are left
// out where there is no room, lines that are folded, times of a few digits and sparklines. No
// line is wider than the screen.
package columns

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// DefaultWidth is the number of columns where that of the screen is not known.
const DefaultWidth = 80

// Screen is what text is written to.
type Screen struct {
	Width  int  // in columns; 0: no limit
	ASCII  bool // the reader's locale has no other letters
	Colour bool
}

// Colours, as the numbers of ANSI's codes.
const (
	Bold   = "1"
	Faint  = "2"
	Red    = "31"
	Green  = "32"
	Yellow = "33"
	Cyan   = "36"
)

// Paint gives a text a colour where the screen has any.
func (s Screen) Paint(code, text string) string {
	if !s.Colour || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Width is how many columns a text takes, without the codes of colours.
func Width(text string) int { return ansi.StringWidth(text) }

// inASCII is what stands for a letter beyond ASCII, of the same width.
var inASCII = map[rune]byte{
	'µ': 'u', 'μ': 'u', '…': '~', '├': '|', '└': '`', '│': '|', '─': '-', '·': '.', '×': 'x', '±': '~', '→': '>', '≥': '>', '≤': '<',
	'–': '-', '—': '-', '’': '\'',
	'▁': '_', '▂': '.', '▃': ':', '▄': '-', '▅': '=', '▆': '+', '▇': '*', '█': '#',
}

// ToASCII is a text as a terminal without letters beyond ASCII shows it, as wide as before.
func ToASCII(text string) string {
	if !strings.ContainsFunc(text, func(c rune) bool { return c >= utf8.RuneSelf }) {
		return text
	}
	var b strings.Builder
	for _, c := range text {
		switch other, known := inASCII[c]; {
		case c < utf8.RuneSelf:
			b.WriteRune(c)
		case known:
			b.WriteByte(other)
		case unicode.Is(unicode.M, c):
		default:
			b.WriteString(strings.Repeat("?", max(1, ansi.StringWidth(string(c)))))
		}
	}
	return b.String()
}

// Text is a text for the screen, in the letters that it has.
func (s Screen) Text(text string) string {
	if s.ASCII {
		return ToASCII(text)
	}
	return text
}

// Writer writes to the screen in the letters that it has. Each call must have whole letters.
func (s Screen) Writer(w io.Writer) io.Writer {
	if !s.ASCII {
		return w
	}
	return asciiWriter{w}
}

type asciiWriter struct{ to io.Writer }

func (w asciiWriter) Write(b []byte) (int, error) {
	if _, err := io.WriteString(w.to, ToASCII(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}
