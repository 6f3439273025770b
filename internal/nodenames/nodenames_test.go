// SPDX-License-Identifier: Apache-2.0

package nodenames

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/waymark-net/waymark/ioam"
)

func TestNames(t *testing.T) {
	east := Interface{ID: 201, IDWide: ioam.InterfaceIDWideUnavailable, Name: "east0", Description: "to r3"}
	n := New(
		Node{ID: 2, IDWide: 2 << 40, Name: "r2", Interfaces: []Interface{east, {ID: ioam.InterfaceIDUnavailable, IDWide: 7, Name: "west0"}}},
	)
	n.Add(Node{ID: 2, IDWide: ioam.NodeIDWideUnavailable, Name: "another"})
	n.Add(Node{ID: 2, IDWide: ioam.NodeIDWideUnavailable, Name: "r2"})
	n.Add(Node{ID: 1, IDWide: ioam.NodeIDWideUnavailable, Name: "r1"})
	for i, c := range []struct{ got, want string }{
		{n.Node(2), "r2"}, {n.NodeWide(2 << 40), "r2"}, {n.Node(1), "r1"}, {n.Node(3), ""}, {n.Node(ioam.NodeIDUnavailable), ""}, {n.NodeWide(2), ""},
		{n.Interface(2, 201), "east0"}, {n.Interface(1, 201), ""}, {n.Interface(2, ioam.InterfaceIDUnavailable), ""}, {n.InterfaceWide(2<<40, 7), "west0"},
		{n.InterfaceWide(2<<40, 201), ""}, {n.Description(2, 201), "to r3"},
		{Label("r2", ioam.NodeID(2)), "r2"}, {Label("", ioam.NodeID(2)), "node 2"},
	} {
		if c.got != c.want {
			t.Errorf("%d: %q, want %q", i, c.got, c.want)
		}
	}
	want := []Node{
		{ID: 1, IDWide: ioam.NodeIDWideUnavailable, Name: "r1"},
		{ID: 2, IDWide: ioam.NodeIDWideUnavailable, Name: "r2", Interfaces: []Interface{east}},
		{ID: ioam.NodeIDUnavailable, IDWide: 2 << 40, Name: "r2", Interfaces: []Interface{{ID: ioam.InterfaceIDUnavailable, IDWide: 7, Name: "west0"}}},
	}
	if diff := cmp.Diff(want, n.List()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(n.List(), New(n.List()...).List()); diff != "" {
		t.Error(diff)
	}
	var none *Names
	if none.Node(2)+none.NodeWide(2)+none.Interface(2, 201)+none.Description(2, 201) != "" || none.List() != nil {
		t.Error("names of nothing")
	}
}

// What is known of an id is not replaced by what others call it.
func TestAddUnknown(t *testing.T) {
	noID, noLink := ioam.NodeIDWideUnavailable, ioam.InterfaceIDWideUnavailable
	n := New(Node{ID: 2, IDWide: noID, Name: "r2", Interfaces: []Interface{{ID: 201, IDWide: noLink, Name: "east0"}}})
	n.AddUnknown(New(
		Node{ID: 2, IDWide: noID, Name: "x",
			Interfaces: []Interface{{ID: 201, IDWide: noLink, Name: "x"}, {ID: 202, IDWide: noLink, Name: "west0"}}},
		Node{ID: 3, IDWide: 3, Name: "r3"},
	))
	n.AddUnknown(nil)
	got := []string{n.Node(2), n.Interface(2, 201), n.Interface(2, 202), n.Node(3), n.NodeWide(3)}
	if diff := cmp.Diff([]string{"r2", "east0", "west0", "r3", "r3"}, got); diff != "" {
		t.Error(diff)
	}
	full := New()
	for i := range MaxNodes {
		full.Add(Node{ID: ioam.NodeID(i), IDWide: noID, Name: "own"})
	}
	full.AddUnknown(New(Node{ID: MaxNodes, IDWide: noID, Name: "one more"}))
	if len(full.nodes) != MaxNodes || full.Node(MaxNodes) != "" {
		t.Errorf("%d nodes", len(full.nodes))
	}
}

// Names come from the network, so what is kept is bounded.
func TestBounds(t *testing.T) {
	n := New()
	for i := range 2 * MaxInterfaces {
		n.Add(
			Node{
				ID:         ioam.NodeID(i),
				IDWide:     ioam.NodeIDWideUnavailable,
				Name:       fmt.Sprint("n", i),
				Interfaces: []Interface{{ID: 1, IDWide: ioam.InterfaceIDWideUnavailable, Name: "x"}},
			},
		)
	}
	if len(n.nodes) != MaxNodes || len(n.interfaces) != MaxInterfaces {
		t.Errorf("%d nodes, %d interfaces", len(n.nodes), len(n.interfaces))
	}
}

func TestPrintable(t *testing.T) {
	for name, want := range map[string]string{
		"": "", "r2": "r2", "Zürich 1": "Zürich 1", "東京": "東京",
		"\x1b[2Jr2":                   `"\x1b[2Jr2"`,
		"r\u009b2J":                   `"r\u009b2J"`,
		"r2\nr3":                      `"r2\nr3"`,
		"r2\u202eevil":                `"r2\u202eevil"`,
		"\u2066r2":                    `"\u2066r2"`,
		"\u05d0\u05d1":                `"\u05d0\u05d1"`,
		"r\u200b2":                    `"r\u200b2"`,
		"r\xff2":                      `"r\xff2"`,
		"\u0301r2":                    `"\u0301r2"`,
		strings.Repeat("é", 5000):     strings.Repeat("é", MaxLength/2),
		strings.Repeat("x", 64):       strings.Repeat("x", 64),
		strings.Repeat("x", 65):       strings.Repeat("x", 64),
		"x" + strings.Repeat("é", 40): "x" + strings.Repeat("é", 31),
	} {
		if got := Printable(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("r2")
	f.Add("\x1b]0;title\a\u202e\xff")
	f.Fuzz(func(t *testing.T, name string) {
		got := Printable(name)
		if len(got) > 10*MaxLength+2 {
			t.Errorf("%d octets", len(got))
		}
		for _, c := range got {
			if !unicode.IsPrint(c) || unicode.Is(unicode.Bidi_Control, c) {
				t.Errorf("%q has %U", name, c)
			}
		}
	})
}
