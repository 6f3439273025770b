// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/columns"
)

func TestView(t *testing.T) {
	for _, tt := range []struct {
		all, ctype, lang, columns string
		wide                      bool
		want                      columns.Screen
	}{
		{lang: "C.UTF-8", want: columns.Screen{Width: 80}},
		{lang: "de_DE.utf8", columns: "132", want: columns.Screen{Width: 132}},
		{lang: "C.UTF-8", columns: "5", want: columns.Screen{Width: 40}},
		{lang: "C.UTF-8", columns: "many", want: columns.Screen{Width: 80}},
		{lang: "C.UTF-8", wide: true, want: columns.Screen{}},
		{all: "C", ctype: "C.UTF-8", lang: "C.UTF-8", want: columns.Screen{Width: 80, ASCII: true}},
		{ctype: "POSIX", lang: "C.UTF-8", want: columns.Screen{Width: 80, ASCII: true}},
		{ctype: "en_GB.UTF-8", lang: "C", want: columns.Screen{Width: 80}},
		{want: columns.Screen{Width: 80, ASCII: true}},
	} {
		for name, value := range map[string]string{"LC_ALL": tt.all, "LC_CTYPE": tt.ctype, "LANG": tt.lang, "COLUMNS": tt.columns} {
			t.Setenv(name, value)
		}
		o := Options{Wide: tt.wide}
		if got := o.View(&bytes.Buffer{}); got != tt.want {
			t.Errorf("%+v: %+v", tt, got)
		}
	}
}

// Only a terminal has colours, unless its user does not want any; its width goes before COLUMNS.
func TestViewOfTerminal(t *testing.T) {
	main, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal here: %v", err)
	}
	defer main.Close()
	if err := unix.IoctlSetPointerInt(int(main.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(main.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 100, Row: 30}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LC_ALL", "C.UTF-8")
	t.Setenv("COLUMNS", "132")
	for _, tt := range []struct {
		noColour, term string
		want           bool
	}{{"", "xterm", true}, {"1", "xterm", false}, {"", "dumb", false}} {
		t.Setenv("NO_COLOR", tt.noColour)
		t.Setenv("TERM", tt.term)
		var o Options
		if got, want := o.View(main), (columns.Screen{Width: 100, Colour: tt.want}); got != want {
			t.Errorf("%+v: %+v", tt, got)
		}
	}
}
