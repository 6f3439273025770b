// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
)

// AppendJSON appends a record as an object of JSON, in one line without its end. The keys
// are a contract: they are added to, never changed.
func AppendJSON(b []byte, r Record) []byte {
	name := r.Kind()
	b = append(append(append(b, `{"kind":"`...), name...), '"')
	if k := kindNamed(name); k != nil {
		w := jsonWriters.Get().(*jsonWriter)
		w.b = b
		k.rows.visit(w, r)
		b, w.b = w.b, nil
		jsonWriters.Put(w)
	}
	return append(b, '}')
}

// AppendLine appends a record as a line of JSON, with its end.
func AppendLine(b []byte, r Record) []byte { return append(AppendJSON(b, r), '\n') }

// List is a list of records that encoding/json can write: it knows nothing of their columns.
type List []Record

// MarshalJSON writes the records as an array.
func (l List) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	for i, r := range l {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendJSON(b, r)
	}
	return append(b, ']'), nil
}

// Parse reads a record from its JSON; nil when it is of an unknown kind.
func Parse(line []byte) (Record, error) {
	var of struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(line, &of); err != nil {
		return nil, fmt.Errorf("not a record: %w", err)
	}
	k := kindNamed(of.Kind)
	if k == nil {
		return nil, nil
	}
	r := k.new()
	if err := Unmarshal(line, r); err != nil {
		return nil, err
	}
	return r, nil
}

// Unmarshal reads the JSON of a record of a known kind into one.
func Unmarshal(line []byte, r Record) error {
	k := kindNamed(r.Kind())
	if k == nil {
		return fmt.Errorf("%T is of no known kind", r)
	}
	if err := k.rows.fill(r, jsonInput(line)); err != nil {
		return fmt.Errorf("not a %s: %w", k.name, err)
	}
	return nil
}

// jsonWriter is the Visitor that writes JSON.
type jsonWriter struct{ b []byte }

// jsonWriters are used again, because each record needs one.
var jsonWriters = sync.Pool{New: func() any { return new(jsonWriter) }}

// begin writes what stands before a value.
func (w *jsonWriter) begin(c *Column) {
	if last := w.b[len(w.b)-1]; last != '{' && last != '[' {
		w.b = append(w.b, ',')
	}
	if c != nil {
		w.b = append(w.b, c.quoted...)
	}
}

// Null writes null.
func (w *jsonWriter) Null(c *Column) {
	w.begin(c)
	w.b = append(w.b, "null"...)
}

// Bool writes true or false.
func (w *jsonWriter) Bool(c *Column, v bool) {
	w.begin(c)
	w.b = strconv.AppendBool(w.b, v)
}

// Uint writes a number.
func (w *jsonWriter) Uint(c *Column, v uint64) {
	w.begin(c)
	w.b = strconv.AppendUint(w.b, v, 10)
}

// Int writes a number.
func (w *jsonWriter) Int(c *Column, v int64) {
	w.begin(c)
	w.b = strconv.AppendInt(w.b, v, 10)
}

// Float writes a number, or null for one that JSON does not have.
func (w *jsonWriter) Float(c *Column, v float64) {
	w.begin(c)
	text, err := json.Marshal(v)
	if err != nil {
		text = []byte("null")
	}
	w.b = append(w.b, text...)
}

// Text writes a string.
func (w *jsonWriter) Text(c *Column, v string) {
	w.begin(c)
	w.b = appendString(w.b, v)
}

// Hex writes a string of digits after 0x.
func (w *jsonWriter) Hex(c *Column, v uint64, digits int) {
	w.begin(c)
	w.b = append(w.b, `"0x`...)
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		w.b = append(w.b, "0123456789abcdef"[v>>shift&15])
	}
	w.b = append(w.b, '"')
}

// Time writes RFC 3339 with nine digits of a second.
func (w *jsonWriter) Time(c *Column, v time.Time) {
	w.begin(c)
	w.b = append(v.UTC().AppendFormat(append(w.b, '"'), instant.Layout), '"')
}

// Address writes a string, an empty one without an address.
func (w *jsonWriter) Address(c *Column, v netip.Addr) {
	w.begin(c)
	w.b = append(w.b, '"')
	if v.IsValid() {
		w.b = v.AppendTo(w.b)
	}
	w.b = append(w.b, '"')
}

// Octets writes base64.
func (w *jsonWriter) Octets(c *Column, v []byte) {
	w.begin(c)
	w.b = append(base64.StdEncoding.AppendEncode(append(w.b, '"'), v), '"')
}

// BeginObject begins an object.
func (w *jsonWriter) BeginObject(c *Column) {
	w.begin(c)
	w.b = append(w.b, '{')
}

// EndObject ends it.
func (w *jsonWriter) EndObject() { w.b = append(w.b, '}') }

// BeginList begins a list.
func (w *jsonWriter) BeginList(c *Column) {
	w.begin(c)
	w.b = append(w.b, '[')
}

// EndList ends it.
func (w *jsonWriter) EndList() { w.b = append(w.b, ']') }

// appendString writes a string in JSON.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return appendEscaped(b, s)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

func appendEscaped(b []byte, s string) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string can always be encoded
	return append(b, bytes.TrimSuffix(out.Bytes(), []byte{'\n'})...)
}

// jsonInput is the Input that reads JSON.
type jsonInput []byte

// decoded reads a value of a type that package encoding/json knows.
func decoded[V any](s jsonInput) (v V, err error) {
	err = json.Unmarshal(s, &v)
	return v, err
}

// Null reports whether the value is null.
func (s jsonInput) Null() bool { return string(s) == "null" }

// Bool reads true or false.
func (s jsonInput) Bool() (bool, error) { return decoded[bool](s) }

// Uint reads a number of at most that number of bits.
func (s jsonInput) Uint(bits int) (uint64, error) { return strconv.ParseUint(string(s), 10, bits) }

// Int reads a number.
func (s jsonInput) Int() (int64, error) { return strconv.ParseInt(string(s), 10, 64) }

// Float reads a number.
func (s jsonInput) Float() (float64, error) { return decoded[float64](s) }

// Text reads a string.
func (s jsonInput) Text() (string, error) { return decoded[string](s) }

// Hex reads a string of digits after 0x.
func (s jsonInput) Hex(bits int) (uint64, error) {
	text, err := s.Text()
	if err != nil {
		return 0, err
	}
	digits, ok := strings.CutPrefix(text, "0x")
	if !ok {
		return 0, fmt.Errorf("%q does not begin with 0x", text)
	}
	return strconv.ParseUint(digits, 16, bits)
}

// Time reads RFC 3339.
func (s jsonInput) Time() (time.Time, error) { return decoded[time.Time](s) }

// Address reads a string.
func (s jsonInput) Address() (netip.Addr, error) { return decoded[netip.Addr](s) }

// Octets reads base64.
func (s jsonInput) Octets() ([]byte, error) { return decoded[[]byte](s) }

// Any reads a value of any type.
func (s jsonInput) Any() (any, error) { return decoded[any](s) }

// List reads the items of a list.
func (s jsonInput) List() ([]Input, error) {
	items, err := decoded[[]json.RawMessage](s)
	list := make([]Input, len(items))
	for i, item := range items {
		list[i] = jsonInput(item)
	}
	return list, err
}

// Object reads the values of an object by their keys.
func (s jsonInput) Object() (map[string]Input, error) {
	values, err := decoded[map[string]json.RawMessage](s)
	fields := make(map[string]Input, len(values))
	for key, value := range values {
		fields[key] = jsonInput(value)
	}
	return fields, err
}
