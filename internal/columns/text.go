// SPDX-License-Identifier: Apache-2.0

package columns

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Fold breaks the lines of a text that are wider than a number of columns, between words. What
// follows is indented by indent more than the line. A word that is wider than a line is broken,
// too. 0 columns are no limit.
func Fold(text string, width int, indent string) string {
	if width <= 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		content := strings.TrimSuffix(line, "\n")
		if Width(content) <= width {
			b.WriteString(line)
			continue
		}
		start := content[:len(content)-len(strings.TrimLeft(content, " "))]
		if Width(start) > width/2 {
			start = ""
		}
		b.WriteString(fold(strings.TrimLeft(content, " "), start, start+indent, width))
		if len(content) < len(line) {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// fold is one line in several, the first of which begins with first and the others with next.
func fold(content, first, next string, width int) string {
	if width-Width(next) < 8 { // no room for an indentation
		next = ""
	}
	var lines []string
	line, started := first, false
	flush := func() {
		lines = append(lines, strings.TrimRight(line, " "))
		line, started = next, false
	}
	space := ""
	for len(content) > 0 {
		word, rest, _ := strings.Cut(content, " ")
		after := len(rest) - len(strings.TrimLeft(rest, " "))
		if started && Width(line+space+word) > width {
			flush()
			space = ""
		}
		for Width(line+space+word) > width { // wider than a whole line
			head, tail := split(word, width-Width(line+space))
			if head == "" {
				break
			}
			line += space + head
			word, space = tail, ""
			flush()
		}
		line += space + word
		started = true
		space = strings.Repeat(" ", 1+after)
		content = strings.TrimLeft(rest, " ")
	}
	if started {
		flush()
	}
	return strings.Join(lines, "\n")
}

// split is as much of a word as fits, and the rest. There is always at least one letter.
func split(word string, width int) (head, tail string) {
	for i, c := range word {
		if i > 0 && Width(word[:i]+string(c)) > width {
			return word[:i], word[i:]
		}
	}
	return word, ""
}

// Duration is a time of about three digits, such as 84.7ms.
func Duration(d time.Duration) string {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d.Abs() >= unit {
			return rounded(d, unit).String()
		}
	}
	return d.String()
}

// rounded has three digits.
func rounded(d, unit time.Duration) time.Duration {
	step := unit / 100
	for n := d.Abs() / unit; n >= 10; n /= 10 {
		step *= 10
	}
	return d.Round(min(step, unit))
}

// Percent is a share of 1, as 0.12%.
func Percent(share float64) string {
	return strconv.FormatFloat(100*share, 'g', 3, 64) + "%"
}

// Count is a number, from 100,000 on in thousands and so on: 123k.
func Count(n uint64) string {
	for _, unit := range []struct {
		from, by uint64
		letter   string
	}{{1e14, 1e12, "T"}, {1e11, 1e9, "G"}, {1e8, 1e6, "M"}, {1e5, 1e3, "k"}} {
		if n >= unit.from {
			return strconv.FormatUint(n/unit.by, 10) + unit.letter
		}
	}
	return strconv.FormatUint(n, 10)
}

// Counted is a number of things, whose plural has an s.
func Counted[N int | uint64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return strconv.FormatUint(uint64(n), 10) + " " + thing
}

var bars = []rune("▁▂▃▄▅▆▇█")

// Sparkline draws values from 0 on in one line, a letter each; NaN, of what is not known, is "·".
// 0 is the lowest bar, and so is everything if all are 0.
func Sparkline(values []float64) string {
	most := 0.0
	for _, v := range values {
		if !math.IsNaN(v) {
			most = max(most, v)
		}
	}
	out := make([]rune, 0, len(values))
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			out = append(out, '·')
		case most <= 0 || v <= 0:
			out = append(out, bars[0])
		default:
			at := 1 + int(v/most*float64(len(bars)-1)-1e-9)
			out = append(out, bars[min(at, len(bars)-1)])
		}
	}
	return string(out)
}
