// SPDX-License-Identifier: Apache-2.0

package directexport

import (
	"encoding/binary"
	"sync"
	"testing"

	"github.com/waymark-net/waymark/internal/lab"
)

// segments counts what beta gets of TCP to a port, as it is on the wire.
type segments struct {
	capture *lab.Capture
	lock    sync.Mutex
	sum     amount
}

func startSegments(t *testing.T, l *lab.Lab, port uint16) *segments {
	t.Helper()
	a := &segments{}
	var err error
	a.capture, err = l.Capture("beta", "eth0", lab.CaptureOptions{Each: func(p lab.Packet) {
		if ip := p.Data[14:]; !p.Outgoing && len(ip) >= 60 && ip[6] == 6 && binary.BigEndian.Uint16(ip[42:]) == port {
			a.lock.Lock()
			defer a.lock.Unlock()
			a.sum = amount{a.sum.packets + 1, a.sum.bytes + uint64(p.Length-14)}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *segments) stop(t *testing.T) amount {
	t.Helper()
	if stats, err := a.capture.Stop(); err != nil || stats.Dropped > 0 {
		t.Errorf("the capture at beta missed %d packets (%v)", stats.Dropped, err)
	}
	return a.sum
}
