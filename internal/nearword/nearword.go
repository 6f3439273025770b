// SPDX-License-Identifier: Apache-2.0

// Package nearword guesses which of some words was meant by a misspelt or shortened one.
package nearword

import "strings"

// Meant is the word of known that is most like a typed one, which may be misspelt, shortened or too long; "" if none is
// similar, or several are in the same way. Known words are in lower case, with hyphens.
func Meant(typed string, known []string) string {
	typed = strings.NewReplacer("_", "-", " ", "-").Replace(strings.ToLower(typed))
	if meant := misspelt(typed, known); meant != "" {
		return meant
	}
	meant := ""
	for _, word := range known {
		switch {
		case !shortens(typed, word) && !shortens(word, typed):
		case meant == "" || strings.HasPrefix(meant, word): // destination rather than destination-port
			meant = word
		case !strings.HasPrefix(word, meant):
			return ""
		}
	}
	return meant
}

// misspelt is the word with the fewest wrong letters, at most two and half of them.
func misspelt(typed string, known []string) (meant string) {
	least := 3
	for _, word := range known {
		if d := distance(typed, word); d < least && d <= len(word)/2 {
			meant, least = word, d
		}
	}
	return meant
}

// shortens reports whether a word has letters of a longer one in the same order, the first included, as iface has of
// interface. Two letters are in too many words.
func shortens(short, long string) bool {
	if len(short) < 3 || len(short) >= len(long) || short[0] != long[0] {
		return false
	}
	for i := range len(short) {
		at := strings.IndexByte(long, short[i])
		if at < 0 {
			return false
		}
		long = long[at+1:]
	}
	return true
}

// distance counts the letters to insert, remove or replace to get from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
