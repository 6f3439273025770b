// SPDX-License-Identifier: Apache-2.0

// Package shellword quotes words of commands that people copy into a shell.
package shellword

import "strings"

// plain are the characters that no shell treats as special.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-"

// Quote returns a word, quoted if a shell would otherwise change it or split it (POSIX.1-2017, Shell Command Language,
// 2.2).
func Quote(word string) string {
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Join joins words so that a shell splits them into the same words.
func Join(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = Quote(word)
	}
	return strings.Join(quoted, " ")
}
