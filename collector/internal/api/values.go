// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waymark-net/waymark/collector/internal/query"
)

// values are the parameters of a request. The first error is kept.
type values struct {
	route *route
	given url.Values
	now   time.Time
	err   error
}

// badRequest is an error in a request.
type badRequest struct{ text string }

func (b badRequest) Error() string { return b.text }

// read checks which parameters a request has.
func (r *route) read(given url.Values, now time.Time) (*values, error) {
	v := &values{route: r, given: given, now: now}
	for name, list := range given {
		i := slices.IndexFunc(r.parameters, func(p parameter) bool { return p.name == name })
		switch {
		case i < 0:
			return nil, badRequest{fmt.Sprintf("parameter %q: %s takes %s", clipped(name), r.path, strings.Join(r.names(), ", "))}
		case len(list) > 1:
			return nil, badRequest{fmt.Sprintf("parameter %s: it is there %d times; give it once", name, len(list))}
		case list[0] == "":
			return nil, badRequest{fmt.Sprintf("parameter %s: it has no value; remove it, or give one", name)}
		}
	}
	return v, nil
}

func (r *route) names() (list []string) {
	for _, p := range r.parameters {
		list = append(list, p.name)
	}
	if r.stream {
		return list
	}
	return append(list, formatName)
}

// clipped is a text of a request in a message.
func clipped(text string) string {
	if len(text) > 60 {
		return text[:60]
	}
	return text
}

func (v *values) fail(name, wants string) {
	if v.err == nil {
		v.err = badRequest{fmt.Sprintf("parameter %s: %q: %s", name, clipped(v.given.Get(name)), wants)}
	}
}

func (v *values) has(name string) bool { return v.given.Has(name) }

// text is a parameter, or its default.
func (v *values) text(name string) string {
	if v.has(name) {
		return v.given.Get(name)
	}
	for _, p := range v.route.parameters {
		if p.name == name {
			return p.usual
		}
	}
	return ""
}

// word is one of a few words.
func (v *values) word(name string) string {
	text := v.text(name)
	for _, p := range v.route.parameters {
		if p.name == name && !slices.Contains(p.words, text) {
			v.fail(name, "want one of "+strings.Join(p.words, ", "))
		}
	}
	return text
}

func (v *values) truth(name string) bool {
	text := v.text(name)
	if text != "true" && text != "false" {
		v.fail(name, "want true or false")
	}
	return text == "true"
}

func (v *values) number(name string, most uint64) uint64 {
	n, err := strconv.ParseUint(v.text(name), 10, 64)
	if err != nil || n > most {
		v.fail(name, fmt.Sprintf("want a number from 0 to %d", most))
	}
	return n
}

func (v *values) share(name string) float64 {
	f, err := strconv.ParseFloat(v.text(name), 64)
	if err != nil || math.IsNaN(f) || f <= 0 || f > 1 {
		v.fail(name, "want a share above 0 and up to 1, such as 0.5")
	}
	return f
}

const mostLimit = 10_000

func (v *values) limit() int {
	n := v.number("limit", mostLimit)
	if n == 0 {
		v.fail("limit", fmt.Sprintf("want a number from 1 to %d", mostLimit))
	}
	return int(n)
}

func (v *values) duration(name string, least, most time.Duration) time.Duration {
	d, err := parseDuration(v.text(name))
	if err != nil || d < least || d > most {
		v.fail(name, fmt.Sprintf("want a time with its unit, from %v to %v, such as 15m, 24h or 7d", least, most))
		return max(least, time.Nanosecond)
	}
	return d
}

var errDays = errors.New("too many days")

// parseDuration also reads days.
func parseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err == nil && n > 3660 {
			err = errDays
		}
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

// times is the time that is asked about.
func (v *values) times() query.Range {
	r := query.Range{Until: v.now}
	if v.has("until") {
		r.Until = v.time("until")
	}
	if v.has("from") {
		if v.has("since") {
			v.fail("since", "it is of no use with from; remove one")
		}
		r.From = v.time("from")
	} else {
		r.From = r.Until.Add(-v.duration("since", time.Second, query.MostTime))
	}
	if v.err == nil && !r.From.Before(r.Until) {
		v.err = badRequest{"the time that is asked about ends before it begins; exchange from and until"}
	}
	if v.err == nil && r.Until.Sub(r.From) > query.MostTime {
		v.err = badRequest{"the time that is asked about is longer than ten years; ask about a shorter one"}
	}
	return r
}

// condition is one on records of a subject; nil: none.
func (v *values) condition(on *query.Subject) *query.Condition {
	if !v.has("where") {
		return nil
	}
	c, err := query.NewCondition(on, v.text("where"))
	if err != nil { // it shows the place in the expression
		if v.err == nil {
			v.err = badRequest{"parameter where: " + strings.TrimSpace(err.Error())}
		}
		return nil
	}
	return c
}

// before is another time to compare with; nil: none is asked for.
func (v *values) before(in query.Range) *query.Range {
	var r query.Range
	switch {
	case v.has("compare") && v.has("compare_from"):
		v.fail("compare", "it is of no use with compare_from; remove one")
		return nil
	case v.has("compare"):
		r.From = in.From.Add(-v.duration("compare", time.Second, query.MostTime))
	case v.has("compare_from"):
		r.From = v.time("compare_from")
	default:
		return nil
	}
	r.Until = r.From.Add(in.Until.Sub(in.From))
	return &r
}

// mostSteps is how many steps a series has at most.
const mostSteps = 2000

// step is the length of the steps of series, in whole units; 0: none are asked for.
func (v *values) step(in query.Range, unit time.Duration) time.Duration {
	span := in.Until.Sub(in.From)
	var step time.Duration
	switch {
	case v.has("step") && v.has("buckets"):
		v.fail("buckets", "it is of no use with step; remove one")
	case v.has("step"):
		if step = v.duration("step", unit, query.MostTime); step%unit != 0 {
			v.fail("step", fmt.Sprintf("want a multiple of %v", unit))
		} else if span/step > mostSteps {
			v.fail("step", fmt.Sprintf("that is more than %d steps; want a longer one, or ask about a shorter time", mostSteps))
		}
	case v.has("buckets"):
		n := time.Duration(v.number("buckets", mostSteps))
		if n == 0 {
			v.fail("buckets", fmt.Sprintf("want a number from 1 to %d", mostSteps))
			return 0
		}
		step = (span + n*unit - 1) / (n * unit) * unit
	}
	return step
}

func (v *values) time(name string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, v.text(name))
	if err != nil || t.Year() < 1700 || t.Year() > 2250 {
		v.fail(name, "want a time in RFC 3339, such as 2026-11-21T03:00:00Z")
		return v.now
	}
	return t
}

// optional is a number that may not be there.
func optional[N uint8 | uint16 | uint32](v *values, name string) *N {
	if !v.has(name) {
		return nil
	}
	n := N(v.number(name, uint64(^N(0))))
	return &n
}
