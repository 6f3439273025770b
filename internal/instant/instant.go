// SPDX-License-Identifier: Apache-2.0

// Package instant writes points in time, in one way for all that Waymark prints:
// RFC 3339 in UTC with nine digits of a second, because readers of JSON often take
// a fixed width only.
package instant

import (
	"strconv"
	"time"
)

// Layout is the form, for a time in UTC.
const Layout = "2006-01-02T15:04:05.000000000Z"

// Time is a [time.Time] that JSON has in that form; it reads all of RFC 3339. In
// a structure with a JSON form it takes the place of [time.Time].
type Time struct{ time.Time }

// Of is t; the zero Time when RFC 3339 cannot hold its year.
func Of(t time.Time) Time {
	if year := t.UTC().Year(); year < 1 || year > 9999 {
		return Time{}
	}
	return Time{t.UTC()}
}

// Format is t in that form.
func Format(t time.Time) string { return t.UTC().Format(Layout) }

// String is [Format].
func (t Time) String() string { return Format(t.Time) }

// MarshalText is [Format].
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// MarshalJSON is [Format], in quotes.
func (t Time) MarshalJSON() ([]byte, error) { return strconv.AppendQuote(nil, t.String()), nil }
