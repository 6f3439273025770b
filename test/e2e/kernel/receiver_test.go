// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/ipfix"
	"github.com/waymark-net/waymark/test/e2e"
)

// nodeData receives IPFIX and collects, trace by trace, the node data from the
// octets of each record.
type nodeData struct {
	lock   sync.Mutex
	traces [][]string
	faults []string
}

// receive listens at a UDP port of a node's loopback interface.
func receive(t *testing.T, n *lab.Node, port int) *nodeData {
	t.Helper()
	var conn *net.UDPConn
	err := e2e.Bind(n, func() (err error) {
		conn, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv6loopback, Port: port})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	registry, err := ipfix.NewRegistry(ipfix.IANA(), ipfix.IOAM(), ipfix.Waymark(ipfix.EnterpriseExample))
	if err != nil {
		t.Fatal(err)
	}
	d, done := &nodeData{}, make(chan struct{})
	go func() {
		defer close(done)
		decoder := ipfix.NewDecoder(ipfix.DecoderConfig{Registry: registry})
		b := make([]byte, 65536)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			session, err := decoder.Open(ipfix.SessionKey{Exporter: from}, time.Now())
			if err == nil {
				var m *ipfix.Message
				if m, err = session.Decode(b[:n], time.Now()); err == nil {
					d.message(m)
				}
			}
			if err != nil {
				d.fault("%v", err)
			}
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return d
}

func (d *nodeData) fault(format string, args ...any) {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.faults = append(d.faults, fmt.Sprintf(format, args...))
}

func (d *nodeData) message(m *ipfix.Message) {
	for _, p := range m.Problems {
		d.fault("%v", p)
	}
	for _, set := range m.Sets {
		for r := range set.Records() {
			if r.Template.Scope() == 0 {
				d.record(r)
			}
		}
	}
}

func (d *nodeData) record(r ipfix.DataRecord) {
	var data []byte
	var index, count, source uint64
	inside := false
	for v := range r.Values() {
		switch name := v.Field.Element.Name; {
		case name == "ioamHopIndex":
			index, _ = v.Uint()
		case name == "ioamHopCount":
			count, _ = v.Uint()
		case name == "ioamRecordSource":
			source, _ = v.Uint()
			inside = true // node data follow
		case !inside || name == "ioamTimestampNanoseconds":
			if slices.Contains([]string{"sourceIPv6Address", "destinationIPv6Address", "ingressInterface", "ioamTraceFlags"}, name) {
				d.fault("the record has %s, which the kernel does not report", name)
			}
		case name == "ioamOpaqueStateSnapshot":
			at := len(data) - 3
			data = slices.Insert(data, at, byte(len(v.Octets)/4)) // the length comes before the schema
			data = append(data, v.Octets...)
		default:
			data = append(data, v.Octets...)
		}
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	switch {
	case source != 1:
		d.faults = append(d.faults, fmt.Sprintf("a record of source %d", source))
	case count == 0:
		d.traces = append(d.traces, nil)
	case index == 0:
		d.traces = append(d.traces, []string{hex.EncodeToString(data)})
	default:
		last := &d.traces[len(d.traces)-1]
		*last = append(*last, hex.EncodeToString(data))
	}
}
