// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// IsTerminal reports whether a command writes to, or reads from, a terminal.
func IsTerminal(file any) bool {
	f, ok := file.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Screen is the terminal that a command writes to, if it understands the codes that move the
// cursor and set colours.
func Screen(w io.Writer) (*os.File, bool) {
	f, ok := w.(*os.File)
	return f, ok && IsTerminal(f) && !IsDumb(os.Getenv("TERM"))
}

// IsDumb reports whether a terminal of that name shows text only.
func IsDumb(term string) bool { return term == "dumb" || term == "" }
