// SPDX-License-Identifier: Apache-2.0

package columns

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
)

func hops() *Table {
	t := &Table{
		Columns: []Column{
			{Name: "NODE"},
			{Name: "IN > OUT", Rank: 2},
			{Name: "HELD", AlignRight: true},
			{Name: "QUEUE", Rank: 1, AlignRight: true},
			{Name: "DATA", Rank: 3},
		},
	}
	t.Add("r1", "- > core0", "8µs", "0")
	t.Add("r2", "west0 > east0", "84.7ms", "12")
	return t
}

func TestTable(t *testing.T) {
	for _, tt := range []struct {
		screen Screen
		want   string
	}{
		{Screen{}, "" +
			"NODE  IN > OUT         HELD  QUEUE  DATA\n" +
			"r1    - > core0         8µs      0  -\n" +
			"r2    west0 > east0  84.7ms     12  -\n"},
		{Screen{Width: 80}, "" + // a column without values goes
			"NODE  IN > OUT         HELD  QUEUE\n" +
			"r1    - > core0         8µs      0\n" +
			"r2    west0 > east0  84.7ms     12\n"},
		{Screen{Width: 20, ASCII: true}, "" +
			"NODE    HELD  QUEUE\n" +
			"r1       8us      0\n" +
			"r2    84.7ms     12\n"},
		{Screen{Width: 13}, "" +
			"NODE    HELD\n" +
			"r1       8µs\n" +
			"r2    84.7ms\n"},
		{Screen{Width: 10}, "" + // nothing may go, so the widest is cut
			"NODE  HELD\n" +
			"r1     8µs\n" +
			"r2    84.…\n"},
	} {
		var b bytes.Buffer
		if err := hops().Flush(&b, tt.screen); err != nil || b.String() != tt.want {
			t.Errorf("%+v: %v\n%s\nwant\n%s", tt.screen, err, b.String(), tt.want)
		}
	}
}

// Rows that come one by one stand below each other; names come again when they would not.
func TestTableGrows(t *testing.T) {
	var b bytes.Buffer
	x := Table{Columns: []Column{{Name: "A", MinWidth: 3}, {Name: "B", Rank: 1}, {Name: "C", Rank: 2}}}
	for _, row := range [][]string{{"1", "2", "3"}, {"123", "4", "5"}, {"1234", "6", "longer"}, {"1", "2", "the longest"},
		{"1", "2", strings.Repeat("x", 40)}} {
		x.Add(row...)
		if err := x.Flush(&b, Screen{Width: 30}); err != nil {
			t.Fatal(err)
		}
	}
	const want = `A    B  C
1    2  3
123  4  5
A     B  C
1234  6  longer
1     2  the longest
A     B
1     2
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestFold(t *testing.T) {
	for _, tt := range []struct {
		text  string
		width int
		want  string
	}{
		{"short\n", 10, "short\n"},
		{"one two three four", 11, "one two\n  three\n  four"},
		{"  one two three\nfour\n", 12, "  one two\n    three\nfour\n"},
		{"alpha, b  c  d", 10, "alpha, b\n  c  d"},
		{strings.Repeat("x", 25), 10, "xxxxxxxxxx\n  xxxxxxxx\n  xxxxxxx"},
		{"one two three four", 0, "one two three four"},
		{"東京東京東 東京東京", 10, "東京東京東\n  東京東京"},
	} {
		if got := Fold(tt.text, tt.width, "  "); got != tt.want {
			t.Errorf("%q at %d:\n%q\nwant\n%q", tt.text, tt.width, got, tt.want)
		}
	}
}

// Whatever a line has, none is wider, and no word is lost.
func FuzzFold(f *testing.F) {
	f.Add("one two three", 9)
	f.Add("2001:db8:1::2 > [2001:db8:2::2]:9, UDP, 148 bytes  namespace 123", 20)
	f.Fuzz(func(t *testing.T, text string, width int) {
		if width < 10 || width > 200 || strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' }) {
			t.Skip()
		}
		got := Fold(text, width, "  ")
		for line := range strings.Lines(got) {
			if Width(strings.TrimSuffix(line, "\n")) > width {
				t.Errorf("%q is wider than %d", line, width)
			}
		}
		if squeeze := strings.NewReplacer(" ", "", "\n", ""); squeeze.Replace(got) != squeeze.Replace(text) {
			t.Errorf("%q became %q", text, got)
		}
	})
}

func TestSmall(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 999: "999ns", 8000: "8µs", 18250: "18.3µs", 123456: "123µs", 84_712_345: "84.7ms", 999_999: "1ms", 1_234_567_890: "1.23s",
		90 * time.Second: "1m30s", -18250: "-18.3µs",
		12_345 * time.Millisecond: "12.3s", 123_456 * time.Millisecond: "2m3s",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0", 99_999: "99999", 100_000: "100k", 123_456_789: "123M", math.MaxUint64: "18446744T"} {
		if got := Count(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	for share, want := range map[float64]string{0: "0%", 0.081: "8.1%", 1: "100%", 0.0000123456: "0.00123%"} {
		if got := Percent(share); got != want {
			t.Errorf("%v: %s, want %s", share, got, want)
		}
	}
	if got := Sparkline([]float64{0, 1, 4, 8, math.NaN(), 0.001}); got != "▁▂▅█·▂" {
		t.Error(got)
	}
	if got := Sparkline([]float64{0, 0}); got != "▁▁" {
		t.Error(got)
	}
	if got := ToASCII("├─ r2 8µs ▁█ 東 é"); got != "|- r2 8us _# ?? ?" {
		t.Error(got)
	}
	if got := (Screen{Colour: true}).Paint(Red, "8.1%"); got != "\x1b[31m8.1%\x1b[0m" || Width(got) != 4 || (Screen{}).Paint(Red, "x") != "x" {
		t.Errorf("%q", got)
	}
}

func TestCounted(t *testing.T) {
	for n, want := range map[int]string{0: "0 files", 1: "1 file", 2: "2 files"} {
		if got := Counted(n, "file"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
