// SPDX-License-Identifier: Apache-2.0

package iproute2

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/config"
)

// keyPaths are the keys of a struct of the configuration, and of those within it.
func keyPaths(t reflect.Type, above string) (paths []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		key := f.Tag.Get("key")
		if key == "" {
			continue
		}
		inner := f.Type
		if inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if below := within(inner); len(below) > 0 {
			paths = append(paths, keyPaths(inner, above+key+".")...)
			continue
		}
		paths = append(paths, above+key)
	}
	return paths
}

// within are the keys that are directly in a type.
func within(t reflect.Type) (keys []string) {
	if t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("key"); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// isSet reports whether the value of a key is other than if it were absent; of a list, that
// of its first entry.
func isSet(v reflect.Value, path string) bool {
	key, below, more := strings.Cut(path, ".")
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("key") != key {
			continue
		}
		v = v.Field(i)
		if !more {
			return !v.IsZero()
		}
		if v.Kind() == reflect.Slice && v.Len() > 0 {
			v = v.Index(0)
		}
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		return v.Kind() == reflect.Struct && isSet(v, below)
	}
	return false
}

// keysHaveWords holds that each key of T has words that set it, or a reason why there are
// none; and that these words, as they are shown, say the same again.
func keysHaveWords[T any](t *testing.T, words, without map[string]string, parse func([]string) (T, error), format func(T) string) {
	t.Helper()
	for _, path := range keyPaths(reflect.TypeFor[T](), "") {
		if without[path] != "" {
			delete(without, path)
			continue
		}
		command, ok := words[path]
		delete(words, path)
		if !ok {
			t.Errorf("%s has neither words in the grammar nor a reason to have none", path)
			continue
		}
		v, err := parse(strings.Fields(command))
		if err != nil || !isSet(reflect.ValueOf(v), path) {
			t.Errorf("%q does not set %s: %+v, %v", command, path, v, err)
			continue
		}
		if format == nil {
			continue
		}
		again, err := parse(append([]string{"add"}, strings.Fields(format(v))...))
		if err != nil || !reflect.DeepEqual(again, v) {
			t.Errorf("%q is shown as %q, which says %+v, %v; want %+v", command, format(v), again, err, v)
		}
	}
	for path := range words {
		t.Errorf("%s is no key", path)
	}
	for path := range without {
		t.Errorf("%s, which has no words, is no key", path)
	}
}

func TestKeysOfFlows(t *testing.T) {
	with := func(words string) string { return "add red out src ::1 segs ::2 " + words }
	keysHaveWords(t, map[string]string{
		"name": with(""), "direction": "add red in src ::1 segs ::2", "source": with(""), "segments": with(""),
		"mode": with("mode inline"), "psp": with("psp"), "container": with("container 32/16"), "destination": with("dst ::3"),
		"traffic-class": with("tclass 0"), "flow-label": with("flowlabel 0x12"), "session": with("session 7"),
		"probes": with("probes in-band-encap"), "return-segments": with("return-segments ::4,::5"), "flow-mon-id": with("flowmonid 0"),
		"points": with("points ::6,::7"), "points-after": with("points-after 0,1"), "point": with("point 1"), "last-point": with("lastpoint 2"),
		"selection": with("selection assumed"), "metrics": with("metrics"), "max-loss": with("max-loss 0%"), "max-delay": with("max-delay 20ms"), "no-data-after": with("no-data-after 0"),
	}, nil, func(words []string) (config.Flow, error) {
		c, err := ParseFlow(words)
		return c.Flow, err
	}, FormatFlow)
}

func TestKeysOfNamespaces(t *testing.T) {
	keysHaveWords(t, map[string]string{
		"id": "add 5", "data": "add 5 data 1", "data-wide": "add 5 wide 1", "remove": "add 5 remove on", "export": "add 5 export every",
		"sample": "add 5 export sample 7", "pot.key-file": "add 5 pot a.key", "pot.drop-rejected": "add 5 drop-rejected on pot a.key",
		"e2e": "add 5 e2e on", "loopback": "add 5 loopback on", "terminate-active": "add 5 terminate-active on", "incremental": "add 5 incremental on",
	}, map[string]string{
		"pot.clock-difference": "a setting of a node, not of a packet's treatment; the file has it",
		"schema.id":            "schema add ID DATA, and namespace set ID schema ID, as in iproute2",
		"schema.data":          "the same",
	}, func(words []string) (config.Namespace, error) {
		c, err := ParseNamespace(words)
		return c.Namespace, err
	}, nil)
	keysHaveWords(t, map[string]string{"id": "add 5 x", "data": "add 5 x"}, nil, func(words []string) (config.Schema, error) {
		c, err := ParseSchema(words)
		return c.Schema, err
	}, nil)
}

func TestKeysOfEncapsulations(t *testing.T) {
	with := func(words string) string {
		return "add 2001:db8::/32 dev eth0 encap ioam6 " + words + " trace prealloc type 0x800000 ns 1 size 12"
	}
	option := func(words string) string { return "add default dev eth0 encap ioam6 mode inline " + words }
	keysHaveWords(t, map[string]string{
		"name": with("") + " name n", "interface": with(""), "flows": with("flows 1/7"), "frequency": with("freq 1/7"), "mode": with("mode encap tundst ::1"),
		"budget.packets": with("budget packets 1%"), "budget.octets": with("budget octets 1%"), "nested": with("nested"),
		"tunnel.source": with("mode encap tunsrc ::2 tundst ::1"), "tunnel.destination": with("mode encap tundst ::1"),
		"match.destination": with(""), "match.source": with("") + " from ::/1", "match.next-header": with("") + " ipproto tcp", "match.source-port": with("") + " sport 7",
		"match.destination-port": with("") + " dport 7-8", "match.traffic-class": with("") + " tos 0", "match.flow-label": with("") + " flowlabel 0",
		"options.trace.namespace": with(""), "options.trace.type": with(""), "options.trace.size": with(""), "options.trace.loopback": with("") + " loopback 1/100",
		"options.trace.incremental": option("trace incremental type 0x800000 ns 1 size 12"),
		"options.dex.namespace":     option("dex ns 1 trace-type 0x800000"), "options.dex.trace-type": option("dex ns 1 trace-type 0x800000"),
		"options.dex.extension-flags": option("dex ns 1 trace-type 0x800000 ext-flags 0xc0"), "options.dex.flow-id": option("dex ns 1 trace-type 0x800000 ext-flags 0x80 flow-id 7"),
		"options.dex.option-type": option("dex ns 1 trace-type 0x800000 option-type 0x31"), "options.pot.namespace": option("pot ns 1"),
		"options.e2e.namespace": option("e2e ns 1 type 0x4000"), "options.e2e.type": option("e2e ns 1 type 0x4000"),
	}, nil, func(words []string) (config.Encapsulation, error) {
		c, err := ParseRoute(words)
		return c.Rule, err
	}, FormatRoute)
}

func TestKeysOfTunnelEndsAndInterfaces(t *testing.T) {
	keysHaveWords(t, map[string]string{"tunnel-destination": "add ::1", "sources": "add ::1 source ::/16", "bare": "add ::1 nobare"}, nil,
		func(words []string) (config.Decapsulation, error) {
			c, err := ParseDecapsulation(words)
			return c.Decapsulation, err
		}, FormatDecapsulation)
	const programs = "it decides which programs are attached: a change is made by loading the file, as a whole or not at all"
	const kernels = "ids are the kernel's, which sysctl sets at run time and the agent follows"
	keysHaveWords(
		t,
		map[string]string{"name": "set eth0 role ingress", "role": "set eth0 role ingress", "boundary": "set eth0 boundary strip ns 7 drop"},
		map[string]string{
			"description": "the kernel's alias is followed: ip link set IF alias TEXT",
			"id":          kernels,
			"id-wide":     kernels,
			"attach":      programs,
			"place":       programs,
			"forwarding":  programs,
		},
		func(words []string) (in config.Interface, err error) {
			c, err := ParseInterface(words)
			in.Name = c.Name
			if c.Role != nil {
				in.Role = append(in.Role, *c.Role)
			}
			if c.Boundary != nil {
				in.Boundary = *c.Boundary
			}
			return in, err
		}, nil)
}

// A port of a point needs quotes in a shell.
func TestPointsWithPorts(t *testing.T) {
	c, err := ParseFlow([]string{"add", "red", "out", "src", "::1", "segs", "::2", "points", "[::3]:6374,::4"})
	const want = "red out src ::1 segs ::2 mode encap points '[::3]:6374,::4'"
	if err != nil || FormatFlow(c.Flow) != want {
		t.Errorf("%q, %v, want %q", FormatFlow(c.Flow), err, want)
	}
}

func TestFlowCompletion(t *testing.T) {
	names := func(without ...string) string {
		var list []string
		for i := range flowWords {
			if name := flowWords[i].name; !strings.Contains(" "+strings.Join(without, " ")+" ", " "+name+" ") {
				list = append(list, name)
			}
		}
		return fmt.Sprint(list)
	}
	for words, want := range map[string]string{
		"":                               "[show add del]",
		"add":                            "[]",
		"add red":                        "[out in transit]",
		"add red out":                    names(),
		"add red out src":                "[]",
		"add red out src ::1":            names("src"),
		"add red out src ::1 metrics":    names("src", "metrics"),
		"add red out mode":               "[encap encap.red inline]",
		"add red out src mode":           names("src"), // mode is the value
		"add red out metrics probes":     "[none out-of-band in-band in-band-encap]",
		"add red out probes none points": "[]",
		"add red out what":               "[]",
		"del":                            "[]",
	} {
		if got := fmt.Sprint(CompleteFlow(strings.Fields(words))); got != want {
			t.Errorf("%s: %s, want %s", words, got, want)
		}
	}
}
