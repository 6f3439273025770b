// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"
)

// Form is how a scalar is written in YAML and JSON.
type Form int

// The forms.
const (
	Number Form = iota // a decimal number
	Hex                // 0x…: a number in YAML, a string in JSON
	Text
	Bool
)

// Scalar is one value as text.
type Scalar struct {
	Text string
	Form Form
}

// Codec reads and writes the scalars of one type.
type Codec struct {
	Form  Form
	Wants string   // what the value must be; the cure of a wrong one
	Names []string // all values, where they are a few words
	List  bool     // a list of words means these words with commas between them
	Parse func(text string) (any, error)
	Text  func(v any) string
}

// Scalars are the types of the single values of a file.
type Scalars map[reflect.Type]Codec

// With is both.
func (s Scalars) With(others Scalars) Scalars {
	all := maps.Clone(s)
	maps.Copy(all, others)
	return all
}

// NewCodec reads and writes scalars of type T. An error of parse may be a [problem.Problem], whose cure then
// takes the place of wants.
func NewCodec[T any](f Form, wants string, parse func(string) (T, error), text func(T) string) Codec {
	return Codec{
		Form:  f,
		Wants: wants,
		Parse: func(s string) (any, error) { return parse(s) },
		Text:  func(v any) string { return text(v.(T)) },
	}
}

// OrList is the codec for values that may also be a list of words.
func (c Codec) OrList() Codec {
	c.List = true
	return c
}

// OrBool is the codec for words of which some are true and false, without quotes.
func (c Codec) OrBool() Codec {
	c.Form = Bool
	return c
}

// Bools and Texts read and write truth values, and text that is not empty.
var (
	Bools = NewCodec(Bool, "true or false", parseBool, strconv.FormatBool)
	Texts = NewCodec(Text, "text", parseText, func(s string) string { return s })
)

// Word is a value that is written as a word.
type Word[T comparable] struct {
	Name  string
	Value T
}

// NamedWords are values that are words themselves.
func NamedWords[T ~string](values []T) (list []Word[T]) {
	for _, v := range values {
		list = append(list, Word[T]{string(v), v})
	}
	return list
}

// Words reads and writes one of a few words.
func Words[T comparable](list ...Word[T]) Codec {
	names := make([]string, len(list))
	for i, w := range list {
		names[i] = w.Name
	}
	parse := func(s string) (T, error) {
		for _, w := range list {
			if w.Name == s {
				return w.Value, nil
			}
		}
		var zero T
		return zero, fmt.Errorf("%q is not a valid value", s)
	}
	text := func(v T) string {
		for _, w := range list {
			if w.Value == v {
				return w.Name
			}
		}
		return fmt.Sprint(v)
	}
	wants := names[0]
	if len(names) > 1 {
		wants = "one of " + strings.Join(names, ", ")
	}
	c := NewCodec(Text, wants, parse, text)
	c.Names = names
	return c
}

// ParseUint reads a decimal or 0x number of at most bits bits. Leading zeros are
// refused: to some YAML parsers they mean octal.
func ParseUint(s string, bits int) (uint64, error) {
	base, digits := 10, s
	if hex, ok := strings.CutPrefix(s, "0x"); ok {
		base, digits = 16, hex
	} else if len(s) > 1 && s[0] == '0' {
		return 0, fmt.Errorf("%s is not a decimal or 0x number", s)
	}
	if strings.HasPrefix(digits, "+") {
		return 0, fmt.Errorf("%s is not a decimal or 0x number", s)
	}
	v, err := strconv.ParseUint(digits, base, 64)
	if err == nil && bits < 64 && v>>bits != 0 || errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%s is too large", s)
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	return v, nil
}

// Integer is a type of numbers.
type Integer interface {
	~int | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Unsigned reads and writes numbers of at most bits bits, as decimal ones.
func Unsigned[T Integer](bits int) Codec {
	wants := fmt.Sprintf("a number from 0 to %d", uint64(1)<<bits-1)
	return NewCodec(Number, wants, ParseInteger[T](bits), func(v T) string { return strconv.FormatUint(uint64(v), 10) })
}

// Hexadecimal reads and writes numbers of bits bits, as 0x and all their digits.
func Hexadecimal[T Integer](bits int) Codec {
	digits := bits / 4
	wants := fmt.Sprintf("a number from 0 to 0x%x", ^uint64(0)>>(64-bits))
	return NewCodec(Hex, wants, ParseInteger[T](bits), func(v T) string { return fmt.Sprintf("0x%0*x", digits, uint64(v)) })
}

// ParseInteger reads numbers of at most bits bits.
func ParseInteger[T Integer](bits int) func(string) (T, error) {
	return func(s string) (T, error) {
		v, err := ParseUint(s, bits)
		return T(v), err
	}
}

func parseBool(s string) (bool, error) {
	if s != "true" && s != "false" {
		return false, fmt.Errorf("%q is neither true nor false", s)
	}
	return s == "true", nil
}

func parseText(s string) (string, error) {
	if s == "" {
		return "", fmt.Errorf("the text is empty")
	}
	return s, nil
}
