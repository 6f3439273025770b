// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"fmt"
	"io"
)

// PrintList prints a list, one item per line, or as one array of JSON.
func PrintList[T any](o *Options, w io.Writer, list []T, format func(T) string) error {
	if o.JSON {
		return PrintJSON(w, append([]T{}, list...)) // [] rather than null
	}
	for _, one := range list {
		if _, err := fmt.Fprintln(w, format(one)); err != nil {
			return err
		}
	}
	return nil
}
