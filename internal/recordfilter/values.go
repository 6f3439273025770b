// SPDX-License-Identifier: Apache-2.0

package recordfilter

import (
	"encoding/base64"
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
)

// values are the fields of a record as an expression sees them, which is as in JSON. Only
// those with a key in wanted are taken.
type values struct {
	wanted map[string]bool
	fields map[string]any // of the record
	open   []container    // objects and lists that are not at their end
	skip   int            // objects and lists within one that is not wanted
}

// container is an object or a list that is being filled.
type container struct {
	key    string
	object map[string]any // nil: a list
	list   []any
}

// of takes the fields of a record. The map is used again for the next one.
func (v *values) of(r record.Record) map[string]any {
	clear(v.fields)
	v.open, v.skip = v.open[:0], 0
	if v.wanted["kind"] {
		v.fields["kind"] = r.Kind()
	}
	record.WalkSome(r, v.wanted, v)
	return v.fields
}

// add takes a value.
func (v *values) add(c *record.Column, value any) {
	if v.skip == 0 {
		v.put(key(c), value)
	}
}

func key(c *record.Column) string {
	if c == nil {
		return ""
	}
	return c.Key
}

func (v *values) put(key string, value any) {
	if len(v.open) == 0 {
		v.fields[key] = value
		return
	}
	switch in := &v.open[len(v.open)-1]; {
	case in.object == nil:
		in.list = append(in.list, value)
	case v.wanted[key]:
		in.object[key] = value
	}
}

// begin opens an object or a list, unless it is not wanted.
func (v *values) begin(c *record.Column, object map[string]any) {
	if v.skip > 0 || c != nil && !v.wanted[c.Key] {
		v.skip++
		return
	}
	v.open = append(v.open, container{key: key(c), object: object})
}

func (v *values) end() {
	if v.skip > 0 {
		v.skip--
		return
	}
	last := v.open[len(v.open)-1]
	v.open = v.open[:len(v.open)-1]
	if last.object != nil {
		v.put(last.key, last.object)
	} else {
		v.put(last.key, last.list)
	}
}

func (v *values) Null(*record.Column) {}

func (v *values) Bool(c *record.Column, b bool)      { v.add(c, b) }
func (v *values) Int(c *record.Column, n int64)      { v.add(c, int(n)) }
func (v *values) Float(c *record.Column, f float64)  { v.add(c, f) }
func (v *values) Text(c *record.Column, text string) { v.add(c, text) }
func (v *values) BeginObject(c *record.Column)       { v.begin(c, map[string]any{}) }
func (v *values) EndObject()                         { v.end() }
func (v *values) BeginList(c *record.Column)         { v.begin(c, nil) }
func (v *values) EndList()                           { v.end() }
func (v *values) isWanted(c *record.Column) bool     { return v.skip == 0 && (c == nil || v.wanted[c.Key]) }
func (v *values) Octets(c *record.Column, data []byte) {
	v.lazily(c, func() string { return base64.StdEncoding.EncodeToString(data) })
}
func (v *values) Time(c *record.Column, at time.Time) {
	v.lazily(c, func() string { return instant.Format(at) })
}

// Uint takes a number; one that is too large for an int becomes a float, as in most readers
// of JSON.
func (v *values) Uint(c *record.Column, n uint64) {
	if n > math.MaxInt {
		v.add(c, float64(n))
		return
	}
	v.add(c, int(n))
}

// Hex takes a number as the text that JSON has.
func (v *values) Hex(c *record.Column, n uint64, digits int) {
	v.lazily(c, func() string { return fmt.Sprintf("0x%0*x", digits, n) })
}

// Address takes an address as text.
func (v *values) Address(c *record.Column, a netip.Addr) {
	v.lazily(c, func() string {
		if !a.IsValid() {
			return ""
		}
		return a.String()
	})
}

// lazily takes a text that is made only if it is wanted.
func (v *values) lazily(c *record.Column, text func() string) {
	if v.isWanted(c) {
		v.add(c, text())
	}
}
