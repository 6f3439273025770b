// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"context"
	"errors"
	"strings"
)

// interruption says that a command was interrupted, in the error's own words
// where it has some, and what went wrong besides.
func interruption(err error) []string {
	lines := []string{"interrupted"}
	var add func(error)
	add = func(err error) {
		var joined interface{ Unwrap() []error }
		switch {
		case !errors.Is(err, context.Canceled):
			lines = append(lines, err.Error())
		case errors.As(err, &joined):
			for _, one := range joined.Unwrap() {
				add(one)
			}
		case strings.HasPrefix(err.Error(), "interrupted"):
			lines[0] = err.Error()
		}
	}
	add(err)
	return lines
}
