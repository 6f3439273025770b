// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"

	"github.com/waymark-net/waymark/internal/yamlfile"
)

// FormatText writes one value as the file does, such as a port range or the
// name of a protocol. T is the type of a scalar of the configuration.
func FormatText[T any](v T) string { return yamlfile.FormatText(nodeFile, v) }

// ParseText reads what FormatText writes; the error describes the right form.
func ParseText[T any](text string) (T, error) { return yamlfile.ParseText[T](nodeFile, text) }

// WordsOf lists the words that values of a type can be, or nothing if they can be others.
func WordsOf[T any]() []string { return codecs[reflect.TypeFor[T]()].Names }
