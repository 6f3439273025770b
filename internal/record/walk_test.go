// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/ipfix"
)

// attributes are an encoding with a name and a value for each field, as OpenTelemetry has
// them. All that it needs of records is here.
type attributes struct {
	path []string // of objects and lists
	next []int    // by depth: the number of the next item, -1 in an object
	list []string // NAME=VALUE
}

func (a *attributes) add(c *Column, value any) {
	a.list = append(a.list, strings.Join(append(slices.Clone(a.path), a.name(c)), ".")+"="+fmt.Sprint(value))
}

func (a *attributes) name(c *Column) string {
	if c != nil {
		return c.Key
	}
	depth := len(a.next) - 1
	a.next[depth]++
	return fmt.Sprint(a.next[depth] - 1)
}

func (a *attributes) begin(c *Column, first int) {
	a.path = append(a.path, a.name(c))
	a.next = append(a.next, first)
}

func (a *attributes) end() { a.path, a.next = a.path[:len(a.path)-1], a.next[:len(a.next)-1] }

func (a *attributes) Null(c *Column)                      { a.add(c, nil) }
func (a *attributes) Bool(c *Column, v bool)              { a.add(c, v) }
func (a *attributes) Uint(c *Column, v uint64)            { a.add(c, v) }
func (a *attributes) Int(c *Column, v int64)              { a.add(c, v) }
func (a *attributes) Float(c *Column, v float64)          { a.add(c, v) }
func (a *attributes) Text(c *Column, v string)            { a.add(c, v) }
func (a *attributes) Hex(c *Column, v uint64, digits int) { a.add(c, fmt.Sprintf("0x%0*x", digits, v)) }
func (a *attributes) Time(c *Column, v time.Time)         { a.add(c, instant.Format(v)) }
func (a *attributes) Octets(c *Column, v []byte)          { a.add(c, base64.StdEncoding.EncodeToString(v)) }
func (a *attributes) BeginObject(c *Column)               { a.begin(c, -1) }
func (a *attributes) EndObject()                          { a.end() }
func (a *attributes) BeginList(c *Column)                 { a.begin(c, 0) }
func (a *attributes) EndList()                            { a.end() }
func (a *attributes) Address(c *Column, v netip.Addr) {
	if v.IsValid() {
		a.add(c, v)
	} else {
		a.add(c, "")
	}
}

// flat are the attributes of a value of JSON.
func flat(path string, value any) (list []string) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			list = append(list, flat(path+"."+key, value[key])...)
		}
	case []any:
		for i, each := range value {
			list = append(list, flat(fmt.Sprintf("%s.%d", path, i), each)...)
		}
	default:
		list = append(list, strings.TrimPrefix(path, ".")+"="+fmt.Sprint(value))
	}
	return list
}

// A third encoding takes the same values as JSON, of every kind of record.
func TestWalk(t *testing.T) {
	all := append(goldenAll(t),
		specimen{"lost", &Lost{Count: 7}},
		specimen{"other", &Other{Time: instant.Of(goldenAt), Template: 256, Elements: []ElementValue{
			{"flowId", uint64(7)}, {"pmDelayMinNanoseconds", int64(-7)}, {"ratio", 0.5}, {"is", true}, {"none", nil}, {"interfaceName", "eth0"},
			{"basicList", []any{uint64(1), []any{[]ElementValue{{"a", "b"}, {"c", uint64(1)}}}}},
		}}},
		specimen{"path", &Path{Time: instant.Of(goldenAt), Missing: []int{61}, Nodes: []PathNode{{Node: "athos"}}}},
		specimen{"statistics", &Statistics{Counts: []Count{{Name: "b", Value: 2}, {Name: "a", Value: 1}}, Pairs: []Pair{{Packets: 3}}}})
	kinds := map[string]bool{}
	for _, n := range all {
		var a attributes
		Walk(n.record, &a)
		var fields map[string]any
		d := json.NewDecoder(strings.NewReader(string(AppendJSON(nil, n.record))))
		d.UseNumber()
		if err := d.Decode(&fields); err != nil {
			t.Fatal(err)
		}
		kinds[n.record.Kind()] = true
		delete(fields, "kind")
		got := slices.Sorted(slices.Values(a.list))
		if want := slices.Sorted(slices.Values(flat("", fields))); !slices.Equal(got, want) {
			t.Errorf("%s:\ngot  %q\nwant %q", n.name, got, want)
		}
		if len(a.path) > 0 {
			t.Errorf("%s: %v has not ended", n.name, a.path)
		}
	}
	for _, k := range Kinds() {
		if !kinds[k.Name] && k.Name != KindOptions {
			t.Errorf("no record of kind %s", k.Name)
		}
	}
	Walk(stranger{}, nil)
	if line := string(AppendJSON(nil, stranger{})); line != `{"kind":"stranger"}` || Unmarshal([]byte(line), stranger{}) == nil {
		t.Error(line)
	}
}

// stranger is of a kind that is not in the table.
type stranger struct{}

func (stranger) Kind() string { return "stranger" }
func (stranger) Text() string { return "" }

// Each kind of data records is in the table once, with what its code needs, and the
// elements that mark it.
func TestKindsOfDataRecords(t *testing.T) {
	x := newTemplates(t)
	markers := map[string]DataKind{}
	for i, of := range formats {
		if of == nil || of.known().kind != DataKind(i) {
			t.Fatalf("kind %d: %+v", i, of)
		}
		f := of.known()
		name, meaning := f.kind.Counter()
		if name == "" || meaning == "" || len(f.variants) == 0 {
			t.Errorf("kind %d: counter %q, %q, variants %v", i, name, meaning, f.variants)
		}
		for _, marker := range f.markers {
			other, twice := markers[marker]
			if markers[marker] = f.kind; twice {
				t.Errorf("%s marks kinds %d and %d", marker, other, i)
			}
			template, err := x.Registry.Template(256, "ioamNamespaceId", marker)
			if err != nil {
				t.Fatal(err)
			}
			if got := NewReading(template, ipfix.EnterpriseExample).Kind; got != f.kind {
				t.Errorf("%s marks kind %d, want %d", marker, got, i)
			}
		}
		if (len(f.markers) == 0) != (f.kind == DataPostcard) {
			t.Errorf("kind %d has the markers %v", i, f.markers)
		}
	}
	e := x.Encoding()
	if count, _ := e.Parts(&Lost{}); count != 0 || e.Encode(&Lost{}, 0, 0) == nil {
		t.Error(count)
	}
	if count, _ := e.Parts(stranger{}); count != 0 || e.Encode(stranger{}, 0, 0) == nil {
		t.Error(count)
	}
}
