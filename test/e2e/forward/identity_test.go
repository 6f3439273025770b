// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// raiseFastChain raises fastChain; both hosts receive in batches.
func raiseFastChain(t *testing.T) *lab.Lab {
	t.Helper()
	l := e2e.RaiseText(t, "chain", fastChain)
	e2e.OpenEnds(t, l, "alpha", "beta")
	return l
}

// pass sends packets through the router and returns the frames that arrived for
// each, by flow label.
func pass(t *testing.T, l *lab.Lab, packets [][]byte) map[int][][]byte {
	t.Helper()
	const marker = 0xfffff
	var mu sync.Mutex
	got := make(map[int][][]byte)
	capture, err := l.Capture("beta", "eth0", lab.CaptureOptions{Each: func(p lab.Packet) {
		if p.Outgoing || len(p.Data) < 54 || p.Data[12] != 0x86 || p.Data[13] != 0xdd {
			return
		}
		label := int(binary.BigEndian.Uint32(p.Data[14:]) & 0xfffff)
		mu.Lock()
		defer mu.Unlock()
		got[label] = append(got[label], bytes.Clone(p.Data))
	}})
	if err != nil {
		t.Fatal(err)
	}
	last := e2e.Packet(marker, 64, nil, []byte("end of the test"))
	last[6] = 59
	to := linkAddress(t, l.Node("router"), "eth0")
	all := append(packets[:len(packets):len(packets)], last)
	for len(all) > 0 { // in batches that a veth's queue holds
		n := min(len(all), 50)
		if err := l.Node("alpha").Do(func() error { return e2e.Inject("eth0", to, all[:n]) }); err != nil {
			t.Fatal(err)
		}
		all = all[n:]
		time.Sleep(2 * time.Millisecond)
	}
	e2e.Await(t, "the marker after the packets", 5*time.Second, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(got[marker]) > 0
	})
	if stats, err := capture.Stop(); err != nil || stats.Dropped > 0 {
		t.Fatal(err, stats)
	}
	delete(got, marker)
	delete(got, 0) // neighbour discovery
	return got
}

// Fast forwarding and the stack forward the same bytes.
func TestForwardSameBytes(t *testing.T) {
	t.Parallel()
	e2e.NeedRedirection(t)
	const count = 1500
	packets := randomPackets(t, count)
	l := raiseFastChain(t)
	fast := pass(t, l, packets)
	f := e2e.ForwardsOf(t, l, "router")
	forwarding(t, l, "router", "stack")
	stack := pass(t, l, packets)
	if after := e2e.ForwardsOf(t, l, "router"); after.Sum() != f.Sum() {
		t.Fatal("the router forwarded fast although it was off")
	}
	t.Logf("%d packets arrived by the stack, %d with fast forwarding; fast %v, to the stack %v", len(stack), len(fast), f.Fast, f.ToStack)
	if f.Sum() < count/4 || len(stack) < count/2 {
		t.Errorf("only %d packets went fast, and %d arrived at all", f.Sum(), len(stack))
	}
	faults := 0
	for i, p := range packets {
		if a, b := fmt.Sprintf("%x", fast[i+1]), fmt.Sprintf("%x", stack[i+1]); a != b {
			if faults++; faults > 3 {
				break
			}
			t.Errorf("packet\n%sfast\n%sby the stack\n%s", hex.Dump(p[:min(len(p), 200)]), dump(fast[i+1]), dump(stack[i+1]))
		}
	}
}
