// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"

	"github.com/waymark-net/waymark/internal/problem"
)

// Migrate gives the keys of a configuration that have a former name the one of today. Comments and
// layout stay. It returns the new text, which means the same, and what it renamed: none leaves the
// text as it is. The error is Faults: those of the file, or keys that it cannot rename.
func Migrate(name string, data []byte) (text []byte, done Faults, err error) {
	first, file, err := read(name, data, nil)
	if err != nil {
		return nil, nil, err
	}
	c := first
	for text = data; len(c.renamed) > 0; { // of very many, the reader lists the first
		if text, err = file.Rewrite(text); err != nil {
			return nil, nil, err
		}
		done = append(done, c.renamed...)
		if c, file, err = read(name, text, nil); err != nil {
			return nil, nil, err
		}
	}
	if !bytes.Equal(c.Marshal(), first.Marshal()) {
		return nil, nil, problem.New(name+": with the new names, the file would mean something else",
			"rename the keys by hand that 'waymark config check' lists")
	}
	return text, done, nil
}
