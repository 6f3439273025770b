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
	text = strings.Join(strings.Fields(text), " ")
	if strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return strconv.QuoteToASCII(text)
	}
	return text
}
