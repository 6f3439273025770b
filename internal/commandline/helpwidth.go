// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"bytes"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/columns"
)

// foldedHelp is a command's help that fits the screen.
func (o *Options) foldedHelp(help func(*cobra.Command, []string)) func(*cobra.Command, []string) {
	return func(cmd *cobra.Command, args []string) {
		out := cmd.OutOrStdout()
		defer cmd.SetOut(out)
		var text bytes.Buffer
		cmd.SetOut(&text)
		help(cmd, args)
		if _, err := io.WriteString(out, foldHelp(text.String(), screenWidth(out))); err != nil {
			cmd.PrintErrln(o.program+":", err)
		}
	}
}

// entry is the begin of a line of a list, up to the text about its first word.
var entry = regexp.MustCompile(`^ +\S+(?: \S+)*? {2,}`)

// foldHelp folds usage lines and lists of commands and flags: what follows stands below the text of the entry. Sentences
// have the width of their source, and examples are for a shell.
func foldHelp(text string, width int) string {
	var b strings.Builder
	section, at := "", 0 // at: where the texts of a list begin
	for line := range strings.Lines(text) {
		content := strings.TrimSuffix(line, "\n")
		if strings.HasSuffix(content, ":") && !strings.HasPrefix(content, " ") {
			section, at = content, 0
		}
		start := len(content) - len(strings.TrimLeft(content, " "))
		hang := start + 2
		switch section {
		case "Flags:", "Global Flags:", "Available Commands:":
			if begin := entry.FindString(content); begin != "" {
				at = len(begin)
			}
			hang = max(hang, at)
		case "Usage:":
		default:
			b.WriteString(line)
			continue
		}
		b.WriteString(columns.Fold(line, width, strings.Repeat(" ", hang-start)))
	}
	return b.String()
}
