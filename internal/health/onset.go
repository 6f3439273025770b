// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
)

// Onsets knows since when there has been each warning. The zero value knows of none.
type Onsets struct {
	known []Warning // of the last look
}

// codeAt is what a warning has in common with its later self, whose text has other numbers.
type codeAt struct {
	code  Code
	iface string
}

// Look sets Since of all warnings that there are now: the time of the first of all looks since
// then that found them. A warning with the same text as one of the last look is the same. Of
// the others at one place, the first is what was the first, and only what comes in addition is new.
func (o *Onsets) Look(ws []Warning, now time.Time) {
	same := make(map[Warning][]instant.Time)
	for _, w := range o.known {
		text := w.text()
		same[text] = append(same[text], w.Since)
	}
	for i := range ws {
		inherit(same, ws[i].text(), &ws[i])
	}
	others := make(map[codeAt][]instant.Time)
	for _, w := range o.known {
		if text := w.text(); len(same[text]) > 0 {
			inherit(same, text, &w)
			at := codeAt{w.Code, w.Interface}
			others[at] = append(others[at], w.Since)
		}
	}
	for i := range ws {
		if w := &ws[i]; w.Since.IsZero() && !inherit(others, codeAt{w.Code, w.Interface}, w) {
			w.Since = instant.Of(now)
		}
	}
	o.known = append(o.known[:0], ws...)
}

// Found adds a warning that was found at a time outside of a look, so that the next look dates it so.
func (o *Onsets) Found(w Warning, at time.Time) {
	if !slices.ContainsFunc(o.known, w.Equal) {
		w.Since = instant.Of(at)
		o.known = append(o.known, w)
	}
}

// inherit gives a warning the next of the times of a key, if there is one.
func inherit[K comparable](from map[K][]instant.Time, key K, w *Warning) bool {
	times := from[key]
	if len(times) == 0 {
		return false
	}
	w.Since, from[key] = times[0], times[1:]
	return true
}

// Equal reports whether both are the same warning, since whenever.
func (w Warning) Equal(other Warning) bool { return w.text() == other.text() }

// text is the warning without its time.
func (w Warning) text() Warning {
	w.Since = instant.Time{}
	return w
}
