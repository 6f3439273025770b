// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"maps"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/compile"
	"github.com/waymark-net/waymark/internal/datapath/forward"
	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
)

// enumNames are the names of an enum's values in the programs' BTF.
func enumNames(spec *ebpf.CollectionSpec, name string) (map[uint64]string, error) {
	var enum *btf.Enum
	if err := spec.Types.TypeByName(name, &enum); err != nil {
		return nil, err
	}
	out := make(map[uint64]string)
	for _, v := range enum.Values {
		out[v.Value] = v.Name
	}
	return out, nil
}

func upper(s string) string { return strings.ToUpper(s) }

// TestStackReasons compares the programs' reasons with the public ones.
func TestStackReasons(t *testing.T) {
	spec, err := bpf.LoadABI()
	if err != nil {
		t.Fatal(err)
	}
	names, err := enumNames(spec, "stack_reason")
	if err != nil {
		t.Fatal(err)
	}
	for r := range forward.NumStackReasons {
		if got := names[uint64(r)]; got != "STACK_"+upper(r.String()) {
			t.Errorf("reason %d is %s in the programs, %s in Go", r, got, r)
		}
	}
}

// TestLimits checks that the programs' limits match the limits of validation: a
// valid configuration must fit their tables and loops.
func TestLimits(t *testing.T) {
	spec, err := bpf.LoadABI()
	if err != nil {
		t.Fatal(err)
	}
	var enum *btf.Enum
	if err := spec.Types.TypeByName("limit", &enum); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]uint64)
	for _, v := range enum.Values {
		got[v.Name] = v.Value
	}
	want := map[string]uint64{
		"MAX_IOAM_OPTIONS":      model.MaxOptionsPerPacket,
		"MAX_OPTIONS":           model.MaxOptionsPerHeader,
		"MAX_EXTENSION_HEADERS": ipv6.MaxExtensionHeaders,
		"MAX_ENCAP_OVERLAP":     model.MaxEncapsulationOverlap,
		"MAX_HEADER_INSERTION":  model.MaxHeaderInsertion,
		"MAX_HBH":               8 * 256, // RFC 8200 §4.3: the length field counts 8-byte units after the first 8 bytes
		"MAX_TUNNEL_SOURCES":    model.MaxTunnelSources,
		"RECORD_PACKET":         80, // documented with Record
		"NO_RULE":               compile.NoRule,
	}
	if !maps.Equal(got, want) {
		t.Errorf("bpf/abi.h has the limits\n%v\nGo has\n%v", got, want)
	}
	specs, err := mapSpecs()
	if err != nil {
		t.Fatal(err)
	}
	// A reload takes slots for new encapsulations before it frees the old ones.
	if room := specs[bpf.MapFrequencies].MaxEntries; room < 2*model.MaxEncapsulations {
		t.Errorf("%d frequencies can be counted; two generations may need %d", room, 2*model.MaxEncapsulations)
	}
}
