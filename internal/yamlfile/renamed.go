// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/waymark-net/waymark/internal/shellword"
)

// renamed is a key that has the name that it had before.
type renamed struct {
	fault *Fault
	field Field
}

// rename reports that a key has the name that it had before.
func (r *Reader) rename(at Position, path string, f Field) {
	if len(r.renamed) == MostCounted {
		return
	}
	fault := newFault(
		r.source.file,
		Join(path, f.Was),
		fmt.Sprintf("the key %q in %s is now called %q", f.Was, Named(path), f.Key),
		fmt.Sprintf("write %s: instead", f.Key),
	)
	if r.format.Migrate != "" {
		file := r.source.file
		if file == "" || file == "-" { // standard input
			file = "FILE"
		}
		fault.Cure += ", or run: " + fmt.Sprintf(r.format.Migrate, fileWord(file))
	}
	fault.Line, fault.Column = r.LineOf(at), at.Column
	r.renamed = append(r.renamed, renamed{fault, f})
}

// fileWord is the name of a file as one word for a shell, and for the program that it is given to.
func fileWord(file string) string {
	if strings.HasPrefix(file, "-") { // it would be a flag
		file = "./" + file
	}
	return shellword.Quote(file)
}

// Renamed are the first MostCounted keys of the file that have the name that they had before: they
// are accepted, and a user should be warned.
func (r *Reader) Renamed() Faults {
	var list Faults
	for _, one := range r.renamed {
		list = append(list, one.fault)
	}
	return list
}

// Rewrite returns data, the text that was read, with today's name of each key that Renamed lists.
// Everything else stays as it is. The error is Faults: keys that are written so that they are not
// found.
func (r *Reader) Rewrite(data []byte) ([]byte, error) {
	keys := slices.SortedFunc(slices.Values(r.renamed), func(a, b renamed) int {
		return cmp.Or(cmp.Compare(a.fault.Line, b.fault.Line), cmp.Compare(a.fault.Column, b.fault.Column))
	})
	var lost Faults
	var next []byte
	line, start, copied := 1, 0, 0 // the line that begins at start
	for _, key := range keys {
		for ; line < key.fault.Line; line++ {
			start += bytes.IndexByte(data[start:], '\n') + 1
		}
		at, found := keyAt(data, start, key)
		if !found {
			f := *key.fault
			f.Problem, f.Cure = f.Problem+", and cannot be replaced as it is written", fmt.Sprintf("write %s: instead", key.field.Key)
			lost = append(lost, &f)
			continue
		}
		next = append(append(next, data[copied:at]...), key.field.Key...)
		copied = at + len(key.field.Was)
	}
	return append(next, data[copied:]...), lost.Err()
}

// keyAt finds where the text of a key begins, within its quotes, in the line that begins at start.
func keyAt(data []byte, start int, key renamed) (at int, found bool) {
	at = start
	if start == 0 && bytes.HasPrefix(data, byteOrderMark) {
		at = len(byteOrderMark)
	}
	for column := 1; column < key.fault.Column && at < len(data); column++ {
		_, size := utf8.DecodeRune(data[at:])
		at += size
	}
	quote := ""
	if at < len(data) && (data[at] == '"' || data[at] == '\'') {
		quote = string(data[at])
		at++
	}
	rest, found := bytes.CutPrefix(data[at:], []byte(key.field.Was))
	return at, found && endsKey(rest, quote)
}

// endsKey reports whether a key ends where rest begins: a longer one begins with the same letters.
func endsKey(rest []byte, quote string) bool {
	if quote != "" {
		return bytes.HasPrefix(rest, []byte(quote))
	}
	const ends = "\r\n,]}"
	rest = bytes.TrimLeft(rest, " \t")
	if len(rest) > 0 && rest[0] == ':' { // part of the key unless something follows that ends it, too
		rest = rest[1:]
		return len(rest) == 0 || strings.ContainsRune(" \t"+ends, rune(rest[0]))
	}
	return len(rest) == 0 || strings.ContainsRune("#"+ends, rune(rest[0]))
}
