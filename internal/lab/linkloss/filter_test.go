// SPDX-License-Identifier: Apache-2.0

package linkloss

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/testnet"
)

// makeDevice makes an interface in a namespace of the test's own.
func makeDevice(t *testing.T) string {
	t.Helper()
	testnet.Enter(t)
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "link"}, PeerName: "peer"}); err != nil {
		t.Fatal(err)
	}
	return "link"
}

func list(t *testing.T, device string) []Active {
	t.Helper()
	rules, err := List(device)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// Rules come and go one by one, as each process finds them; a free number is used again,
// with counters of its own.
func TestRules(t *testing.T) {
	const most = 128
	device := makeDevice(t)
	if rules := list(t, device); len(rules) != 0 {
		t.Errorf("an interface without a filter has the rules %+v", rules)
	}
	if _, err := Remove(device, 1); err == nil || !strings.Contains(err.Error(), "has no rule 1") {
		t.Errorf("remove a rule that is not there: %v", err)
	}
	for i := range most {
		if number, err := Add(device, Rule{Burst: 1, Every: uint32(i + 1)}); err != nil || number != i+1 {
			t.Fatalf("rule %d: %d, %v", i+1, number, err)
		}
	}
	if _, err := Add(device, Rule{Burst: 1, Every: 1}); err == nil || !strings.Contains(err.Error(), "has 128 rules, the most") {
		t.Errorf("one rule too many: %v", err)
	}
	f, err := find(device)
	if err == nil {
		err = f.counters.Put(uint32(6), lossCounts{Frames: 9, Packets: 9, LostFrames: 1, LostPackets: 1})
		f.close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if removed, err := Remove(device, 7); err != nil || removed.Rule != (Rule{Burst: 1, Every: 7}) || removed.Number != 7 ||
		removed.Counts != (Counts{9, 9, 1, 1}) {
		t.Errorf("removed %+v: %v", removed, err)
	}
	if number, err := Add(device, Rule{Probability: 0.5, Seed: 3}); err != nil || number != 7 {
		t.Errorf("a rule in its place: %d, %v", number, err)
	}
	rules := list(t, device)
	if len(rules) != most || rules[6] != (Active{Number: 7, Rule: Rule{Probability: 0.5, Seed: 3}}) ||
		rules[7].Rule != (Rule{Burst: 1, Every: 8}) {
		t.Errorf("rules %+v", rules)
	}
	for i := range most {
		if _, err := Remove(device, i+1); err != nil {
			t.Fatal(err)
		}
	}
	if f, err := find(device); f != nil || err != nil {
		t.Errorf("without rules, there is a filter %+v (%v)", f, err)
	}
	if _, err := Add("nowhere", Rule{Burst: 1, Every: 1}); !errors.As(err, &netlink.LinkNotFoundError{}) {
		t.Errorf("an interface that is not there: %v", err)
	}
}

// Nothing outlives the interface.
func TestFilterGoesWithTheInterface(t *testing.T) {
	device := makeDevice(t)
	if _, err := Add(device, Rule{Burst: 1, Every: 1}); err != nil {
		t.Fatal(err)
	}
	f, err := find(device)
	if err != nil {
		t.Fatal(err)
	}
	f.close()
	l, err := netlink.LinkByName(device)
	if err == nil {
		err = netlink.LinkDel(l)
	}
	if err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(patience.Of(5 * time.Second)); ; time.Sleep(10 * time.Millisecond) {
		program, err := ebpf.NewProgramFromID(ebpf.ProgramID(f.filter.Id))
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		program.Close()
		if time.Now().After(until) {
			t.Fatalf("the program is still there (%v)", err)
		}
	}
}
