// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/collector/internal/storetest"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/ipfix"
)

// namedBy is a message with the name of an exporter and of an interface of it.
func namedBy(t *testing.T, i int) []byte {
	t.Helper()
	registry, err := ipfix.NewRegistry(ipfix.IANA(), ipfix.IOAM(), ipfix.Waymark(ipfix.EnterpriseExample))
	if err != nil {
		t.Fatal(err)
	}
	e, err := ipfix.NewEncoder(ipfix.UDP, storetest.Nodes, 1400)
	if err != nil {
		t.Fatal(err)
	}
	e.Start(nil)
	for id, names := range [][]string{
		{"observationDomainId", "observationDomainName", "ioamNodeId"},
		{"ingressInterface", "interfaceName", "ioamIngressInterfaceId"},
	} {
		template, err := registry.OptionsTemplate(ipfix.TemplateID(300+id), names[:1], names[1:]...)
		if err != nil {
			t.Fatal(err)
		}
		w := template.Record(nil)
		w.Uint([]uint64{storetest.Nodes, 7}[id])
		w.Text([]string{nameOf(i), "eth0"}[id])
		w.Uint([]uint64{uint64(i + 1), 701}[id])
		octets, err := w.End()
		if err := errors.Join(err, e.Define(template), e.Add(template, octets)); err != nil {
			t.Fatal(err)
		}
	}
	return e.Finish(time.Now())
}

func nameOf(i int) string { return fmt.Sprintf("node-%05d", i) }

const manyExporters = 10_000

// Ten thousand exporters are heard, each with its name, and what is kept of them is small.
func TestManyExporters(t *testing.T) {
	hearMany(t, "udp", manyExporters, 10<<10)
}

// As many are heard over TCP at a time as this process may have connections, both ends of which are its own.
func TestManyConnections(t *testing.T) {
	var most unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &most); err != nil {
		t.Fatal(err)
	}
	hearMany(t, "tcp", int(min(manyExporters, most.Cur/2-500)), 40<<10)
}

// hearMany has exporters that send their names and a postcard. each is how many octets may be kept of one.
func hearMany(t *testing.T, network string, exporters int, each int64) {
	t.Helper()
	r := run(t, fmt.Sprintf(strings.Replace(file, "udp://[::1]:0", network+"://127.0.0.1:0", 1), t.TempDir()))
	message := messages(t, r.to, 1)[0]
	before := heap()
	for i := range exporters {
		conn := dialAs(t, network, i, 0, r.to)
		for _, m := range [][]byte{namedBy(t, i), message} {
			if _, err := conn.Write(m); err != nil {
				t.Fatal(err)
			}
		}
		if network == "udp" {
			conn.Close()
		} else {
			t.Cleanup(func() { conn.Close() })
		}
		if i%2000 == 1999 { // as fast as it reads
			r.until("messages", func(h *query.Health) bool { return h.Counts["messages"] >= 2*uint64(i+1) })
		}
	}
	h := r.until("all", func(h *query.Health) bool {
		return len(h.Exporters) == exporters && h.Counts["messages"] == 2*uint64(exporters)
	})
	if h.Counts["sessions_refused"] > 0 || h.Counts["connections_refused"] > 0 || h.Counts["socket_dropped"] > 0 ||
		h.Counts["names_refused"] > 0 || lostAt(&h, "decode", "")-lostAt(&h, "decode", "sequence_out_of_order") > 0 {
		t.Errorf("%v %+v", h.Counts, h.Lost)
	}
	names := map[string]bool{}
	for _, e := range h.Exporters {
		names[e.Name] = true
	}
	var known query.Names
	r.ask("/v1/names", &known)
	if len(names) != exporters || names[""] || len(known.Nodes) != exporters || known.Nodes[exporters-1].Name != nameOf(exporters-1) ||
		len(known.Nodes[exporters-1].Interfaces) != 1 {
		t.Errorf("%d exporters and %d nodes have names", len(names), len(known.Nodes))
	}
	grown := (heap() - before) / int64(exporters)
	if t.Logf("%d exporters, %d octets for each", exporters, grown); grown > each {
		t.Errorf("%d octets for each exporter", grown)
	}
}

// After a restart, data of ten thousand exporters that do not send their templates again are read.
func TestManyRestored(t *testing.T) {
	directory := t.TempDir()
	reserved, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	to := reserved.LocalAddr().String()
	reserved.Close()
	settings := fmt.Sprintf(strings.Replace(file, "[::1]:0", to, 1), directory)
	first := run(t, settings)
	message := messages(t, to, 2)
	send := func(r *running, message []byte) {
		for i := range manyExporters {
			conn := dialAs(t, "udp", i, 4739, to)
			if _, err := conn.Write(message); err != nil {
				t.Fatal(err)
			}
			conn.Close()
			if i%2000 == 1999 {
				r.until("messages", func(h *query.Health) bool { return h.Counts["messages"] >= uint64(i+1) })
			}
		}
	}
	send(first, message[0])
	first.end()
	info, err := os.Stat(filepath.Join(directory, "templates.json"))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	second := run(t, settings)
	took := time.Since(began)
	if t.Logf("%d octets of templates, ready after %v", info.Size(), took); took > patience.Of(time.Second) {
		t.Errorf("it was ready after %v", took)
	}
	send(second, message[1])
	h := second.until("all", func(h *query.Health) bool { return h.Counts["messages"] >= manyExporters })
	if h.Counts["postcards"] != manyExporters || len(h.Lost) > 0 {
		t.Errorf("%v %+v", h.Counts, h.Lost)
	}
}

// messages gives n messages of the last node. Each has one postcard, and only the first has the template.
func messages(t *testing.T, to string, n int) (list [][]byte) {
	t.Helper()
	s, err := storetest.NewSender(to)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Once = true
	s.Deliver = func(node int, m []byte) error {
		if node == storetest.Nodes-1 {
			list = append(list, bytes.Clone(m))
		}
		return nil
	}
	for range n {
		if err := s.Send(1); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// dialAs connects as an exporter with an address of its own; port 0 is any.
func dialAs(t *testing.T, network string, i, port int, to string) net.Conn {
	t.Helper()
	from := net.IPv4(127, 1, byte(i>>8), byte(i))
	dialer := net.Dialer{LocalAddr: &net.UDPAddr{IP: from, Port: port}}
	if network == "tcp" {
		dialer.LocalAddr = &net.TCPAddr{IP: from, Port: port}
	}
	conn, err := dialer.Dial(network, to)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// heap is how much memory is in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
