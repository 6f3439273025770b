// SPDX-License-Identifier: Apache-2.0

package commandline

import "testing"

// Lists and usage lines are folded below the text of their entry, also where a long word leaves one space before it; sentences
// and examples are not.
func TestFoldHelp(t *testing.T) {
	const help = `A sentence that has the width of its source, whatever it is.

Usage:
  waymark flow [show [NAME] | add NAME] [flags]

Examples:
  waymark flow add red out src 2001:db8::1

Available Commands:
  show         Show what the agent marks and counts
  decapsulation Show where tunnels end here

Flags:
  -f, --follow        go on until interrupted
      --socket PATH   PATH of the socket of the agent
`
	const want = `A sentence that has the width of its source, whatever it is.

Usage:
  waymark flow [show [NAME] | add
    NAME] [flags]

Examples:
  waymark flow add red out src 2001:db8::1

Available Commands:
  show         Show what the agent
               marks and counts
  decapsulation Show where tunnels
               end here

Flags:
  -f, --follow        go on until
                      interrupted
      --socket PATH   PATH of the
                      socket of the
                      agent
`
	if got := foldHelp(help, 36); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := foldHelp(help, 0); got != help {
		t.Errorf("without a limit:\n%s", got)
	}
}
