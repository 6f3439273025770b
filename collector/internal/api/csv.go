// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"encoding"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"github.com/waymark-net/waymark/collector/internal/query"
)

// formatName is the parameter of all requests that says how the answer is written.
const formatName = "format"

// wantsCSV reports whether a request wants CSV (RFC 4180), by its parameter, which it takes away, or by what the
// client prefers.
func wantsCSV(given url.Values, accept []string) (bool, error) {
	if given.Has(formatName) {
		format := given.Get(formatName)
		given.Del(formatName)
		if format != "csv" && format != "json" {
			return false, badRequest{fmt.Sprintf("parameter %s: %q: want json or csv", formatName, clipped(format))}
		}
		return format == "csv", nil
	}
	best, is := 0.0, false
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		media, parameters, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		weight := 1.0
		if q, ok := parameters["q"]; ok {
			if weight, err = strconv.ParseFloat(q, 64); err != nil {
				continue
			}
		}
		if known := media == "text/csv" || media == "application/json" || media == "*/*"; known && weight > best {
			best, is = weight, media == "text/csv"
		}
	}
	return is, nil
}

// writeCSV writes the items of an answer, a row for each. If the items have lists of objects, the first that is not
// empty gives the rows: each has the columns of its item, too. Other lists are JSON in a column. If another time is
// compared as an answer of its own, the first column says to which one a row belongs: now or before. Headers say
// whether the answer was cut and has gaps.
func writeCSV(w http.ResponseWriter, name string, answer any) {
	t := tableOf(reflect.ValueOf(answer))
	h := w.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8; header=present")
	h.Set("Content-Disposition", `attachment; filename="waymark-`+name+`.csv"`)
	if c := t.cut; c != nil {
		h.Set("Waymark-Cut", c.Text)
		h.Set("Waymark-Cut-Reason", c.Reason)
		h.Set("Waymark-Cut-Problem", c.Problem)
	}
	if t.gaps > 0 {
		h.Set("Waymark-Gaps", strconv.Itoa(t.gaps))
	}
	c := csv.NewWriter(w)
	if c.Write(t.columns) == nil {
		t.each(func(line []string) bool { return c.Write(line) == nil }) // an error is one of a client that is gone
	}
	c.Flush()
}

// csvTable is an answer as a table.
type csvTable struct {
	columns []string
	items   reflect.Value
	before  reflect.Value        // the items of another time; not valid: there is none
	inner   *reflect.StructField // the list that gives the rows; nil: items do
	cut     *query.Cut
	gaps    int
}

// tableOf makes a table of an answer: of its first list of objects besides the gaps, or of itself.
func tableOf(answer reflect.Value) (t csvTable) {
	answer = reflect.Indirect(answer)
	items := reflect.Value{}
	for _, f := range reflect.VisibleFields(answer.Type()) {
		key := keyOf(f)
		value := answer.FieldByIndex(f.Index)
		switch {
		case f.Anonymous || key == "":
		case key == "gaps":
			t.gaps += value.Len()
		case key == "cut":
			t.cut, _ = value.Interface().(*query.Cut)
		case isObjects(f.Type) && !items.IsValid():
			items = value
		case within(f.Type) == answer.Type() && !value.IsNil():
			other := tableOf(value)
			t.before, t.gaps, t.cut = other.items, t.gaps+other.gaps, cmp.Or(t.cut, other.cut)
		}
	}
	if !items.IsValid() { // it has no list
		list := reflect.MakeSlice(reflect.SliceOf(answer.Type()), 0, 1)
		items = reflect.Append(list, answer)
	}
	of := items.Type().Elem()
	inner := rowsWithin(items)
	if t.before.IsValid() {
		t.columns = []string{"period"}
		if inner == nil {
			inner = rowsWithin(t.before)
		}
	}
	t.columns = append(t.columns, headings(of, "", inner)...)
	if inner != nil {
		t.columns = append(t.columns, headings(inner.Type.Elem(), keyOf(*inner)+".", nil)...)
	}
	t.items, t.inner = items, inner
	return t
}

// each calls write for each row, which it makes one by one, until that is false.
func (t *csvTable) each(write func([]string) bool) {
	if !t.before.IsValid() {
		t.eachOf(t.items, nil, write)
		return
	}
	if t.eachOf(t.items, []string{"now"}, write) {
		t.eachOf(t.before, []string{"before"}, write)
	}
}

// eachOf does it for some items; all rows begin with the same cells.
func (t *csvTable) eachOf(items reflect.Value, begin []string, write func([]string) bool) bool {
	for i := range items.Len() {
		item := items.Index(i)
		line := cells(begin[:len(begin):len(begin)], item, t.inner)
		n := 0
		if t.inner != nil {
			n = item.FieldByIndex(t.inner.Index).Len()
		}
		for k := range n {
			if !write(cells(line[:len(line):len(line)], item.FieldByIndex(t.inner.Index).Index(k), nil)) {
				return false
			}
		}
		if n == 0 && !write(append(line, make([]string, len(t.columns)-len(line))...)) { // the item has a row all the same
			return false
		}
	}
	return true
}

// rowsWithin is the list that gives the rows: series if there are any, else the first list of objects that is not
// empty; nil: there is none.
func rowsWithin(items reflect.Value) (found *reflect.StructField) {
	for _, f := range reflect.VisibleFields(items.Type().Elem()) {
		if f.Anonymous || !isObjects(f.Type) {
			continue
		}
		for i := range items.Len() {
			if items.Index(i).FieldByIndex(f.Index).Len() > 0 {
				if found == nil || keyOf(f) == "series" {
					found = &f
				}
				break
			}
		}
	}
	return found
}

// isObjects reports whether a type is a list of objects.
func isObjects(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct && !isText(t.Elem())
}

func isText(t reflect.Type) bool { return t == instantType || t.Implements(textType) }

func keyOf(f reflect.StructField) string {
	key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return key
}

// within is the type of an object that is spread over columns; nil: the value is one column.
func within(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Struct && !isText(t) {
		return t
	}
	return nil
}

// headings are the names of columns: the keys, and those of objects with the object's key and a dot before them.
func headings(t reflect.Type, prefix string, without *reflect.StructField) (list []string) {
	for _, f := range reflect.VisibleFields(t) {
		key := keyOf(f)
		switch {
		case f.Anonymous || key == "" || without != nil && f.Name == without.Name:
		case within(f.Type) == t: // an object within itself: an answer in an answer
		case within(f.Type) != nil:
			list = append(list, headings(within(f.Type), prefix+key+".", nil)...)
		default:
			list = append(list, prefix+key)
		}
	}
	return list
}

// cells appends the values of an object, in the order of its headings. Those that are absent are empty.
func cells(line []string, v reflect.Value, without *reflect.StructField) []string {
	t := v.Type()
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || keyOf(f) == "" || without != nil && f.Name == without.Name || within(f.Type) == t {
			continue
		}
		value := v.FieldByIndex(f.Index)
		if inner := within(f.Type); inner != nil {
			if value.Kind() == reflect.Pointer && value.IsNil() {
				line = append(line, make([]string, len(headings(inner, "", nil)))...)
				continue
			}
			line = cells(line, reflect.Indirect(value), nil)
			continue
		}
		line = append(line, cell(value))
	}
	return line
}

// cell is a value as text. A text of the network can neither move a terminal's cursor nor begin a formula of a
// spreadsheet.
func cell(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	if text, ok := v.Interface().(encoding.TextMarshaler); ok {
		b, _ := text.MarshalText() // of numbers and times
		return string(b)
	}
	switch v.Kind() {
	case reflect.String:
		text := v.String()
		if strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) {
			text = strconv.QuoteToASCII(text)
		}
		if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
			return "'" + text
		}
		return text
	case reflect.Slice, reflect.Map, reflect.Struct:
		if v.Kind() != reflect.Struct && v.Len() == 0 {
			return ""
		}
		b, _ := json.Marshal(v.Interface()) // what an answer has can be written
		return string(b)
	}
	return fmt.Sprint(v.Interface())
}
