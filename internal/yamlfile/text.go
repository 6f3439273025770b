// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"reflect"

	"github.com/waymark-net/waymark/internal/problem"
)

// FormatText writes one value as files do, such as a port range or the name of a protocol. T is
// the type of one of their scalars.
func FormatText[T any](f *Format, v T) string { return f.Scalars[reflect.TypeFor[T]()].Text(v) }

// ParseText reads what FormatText writes; the cure of an error is the right form.
func ParseText[T any](f *Format, text string) (T, error) {
	c := f.Scalars[reflect.TypeFor[T]()]
	v, err := c.Parse(text)
	if err != nil {
		var zero T
		return zero, problem.Wrap(err, "want "+c.Wants)
	}
	return v.(T), nil
}
