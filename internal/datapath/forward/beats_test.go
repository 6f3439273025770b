// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/kernelclock"
	"github.com/waymark-net/waymark/test/testnet"
)

// TestBeats checks that each beat is in the programs' memory, in the time of
// their clock; a new agent continues the generations of the previous one.
func TestBeats(t *testing.T) {
	testnet.NeedRoot(t)
	spec, err := bpf.LoadIngressXDP()
	if err != nil {
		t.Fatal(err)
	}
	bpf.Mappable(spec.Maps)
	state, err := ebpf.NewMap(spec.Maps[bpf.MapForwarding])
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	for before := range uint32(3) {
		f, err := New(bpf.Maps{bpf.MapForwarding: state}, nil)
		if err != nil {
			t.Fatal(err)
		}
		holds := func(want bpf.ABIForwarding) {
			t.Helper()
			var got bpf.ABIForwarding
			if err := state.Lookup(uint32(0), &got); err != nil {
				t.Fatal(err)
			}
			now, err := kernelclock.Monotonic()
			if err != nil {
				t.Fatal(err)
			}
			const late = uint64(time.Second)
			if got.Alive > now || now-got.Alive > late || got.Alive < want.Alive || got.Generation != want.Generation || got.Key != want.Key ||
				got.Mtu != want.Mtu {
				t.Errorf("the programs have %+v at %d, want %+v", got, now, want)
			}
		}
		if err := f.Beat(); err != nil {
			t.Fatal(err)
		}
		holds(bpf.ABIForwarding{Generation: before, Key: uint16(RouteByStack)})
		if err := f.Renew(Routing{Key: RouteByFlow, MTU: 1400}); err != nil {
			t.Fatal(err)
		}
		holds(bpf.ABIForwarding{Generation: before + 1, Key: uint16(RouteByFlow), Mtu: 1400})
		begun, err := kernelclock.Monotonic()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
		if err := f.Beat(); err != nil {
			t.Fatal(err)
		}
		holds(bpf.ABIForwarding{Alive: begun, Generation: before + 1, Key: uint16(RouteByFlow), Mtu: 1400})
	}
}
