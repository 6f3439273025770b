// SPDX-License-Identifier: Apache-2.0

package problem

import (
	"strconv"
	"strings"
	"unicode"
)

// OneLine is a text from the network, such as an error with names of a peer's certificate, as a terminal
// can show it: in one line, and quoted in ASCII if it has characters that cannot be printed.
func OneLine(text string) string {
	return printable(strings.Join(strings.Fields(text), " "))
}

// printable is a line, quoted if it has characters that cannot be printed.
func printable(text string) string {
	if strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return strconv.QuoteToASCII(text)
	}
	return text
}

const (
	mostLines = 8 // of a text from the network
	indent    = "  "
)

// Lines is such a text with its lines, as of an error that points at a place in the line before. Each is
// quoted as by OneLine, but keeps its spaces; those after the first are indented, so that none of them
// looks like a message of its own.
func Lines(text string) string {
	text = strings.NewReplacer("\r\n", "\n", "\t", " ").Replace(strings.TrimSpace(text))
	lines := strings.SplitN(text, "\n", mostLines+1)
	lines = lines[:min(len(lines), mostLines)]
	for i, line := range lines {
		line = printable(strings.TrimRight(line, " "))
		if i > 0 && !strings.HasPrefix(line, indent) {
			line = indent + strings.TrimLeft(line, " ")
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}
