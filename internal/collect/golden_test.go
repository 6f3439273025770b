// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ipfix"
)

// update writes the golden files again. They are a contract with readers of records:
// their content does not change, it is only added to.
var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name string, lines []string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%s: %d lines, want %d", name, len(lines), len(want))
	}
	for i, line := range lines {
		if line != want[i] {
			t.Errorf("%s, line %d:\ngot  %s\nwant %s", name, i+1, line, want[i])
		}
	}
}

// exported are the messages of the exporter's golden files.
func exported(t *testing.T, names ...string) (messages [][]byte) {
	t.Helper()
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "000a") { // the version of IPFIX
				continue
			}
			octets, err := hex.DecodeString(strings.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			messages = append(messages, octets)
		}
	}
	return messages
}

// written are the lines of all events.
func written(t *testing.T, out *memory) []string {
	t.Helper()
	return out.lines(t)
}

// The records that the collector makes from the exporter's golden messages.
func TestGoldenCollected(t *testing.T) {
	c, out, send := offline(t, Config{Raw: true}, ipfix.UDP)
	for _, m := range exported(t, "../sink/ipfixsink/testdata/options.txt", "../record/testdata/ipfix.txt") {
		if !send(m) {
			t.Fatalf("not understood: %x", m)
		}
	}
	c.change(func() { c.expireTraces(time.Now(), 0) })
	golden(t, "collected.jsonl", written(t, out))
}

// Complete and incomplete paths, and other records.
func TestGoldenPaths(t *testing.T) {
	c, out, send := offline(t, Config{}, ipfix.UDP)
	x := newExporter(t, ipfix.UDP, 1)
	send(x.message(start, 1, fields{num("observationDomainId", 1), {"observationDomainName", "athos & porthos"}}))
	send(
		x.message(
			start,
			1,
			fields{num("ingressInterface", 2), {"interfaceName", "eth0"}},
			fields{num("ingressInterface", 3), {"interfaceName", "eth1"}},
		),
	)
	for sequence := range uint64(7) {
		cards := packet(sequence)
		switch sequence {
		case 1:
			cards = cards[:2]
		case 2:
			cards = cards[1:]
		case 3:
			cards = []fields{cards[0], cards[2]}
		case 4:
			cards[1] = cards[1].with(num("ioamHopLimit", 0xff), num("ioamNodeId", 0xffffff))
		case 5:
			cards[1] = cards[1].with(
				field{"observationTimeNanoseconds", start.Add(-time.Millisecond)},
				num("ioamTraceType", 0xb8c002),
				num("ioamTimestampSeconds", uint64(start.Unix())),
				num("ioamTimestampFraction", 11),
				num(
					"ioamTransitDelayNanoseconds",
					1<<31,
				),
				num("ioamNamespaceData", 0xdeadbeef),
				num("ioamNodeIdWide", 1<<40),
				num("ioamIngressInterfaceIdWide", 1<<20),
				num("ioamEgressInterfaceIdWide", 1<<21),
				num("ioamSchemaId", 777),
				field{"ioamOpaqueStateSnapshot", []byte("rack")},
			)
		case 6:
			for i := range cards {
				cards[i] = cards[i].without(
					"observationTimeNanoseconds",
					"sourceIPv6Address",
					"destinationIPv6Address",
					"ingressInterface",
					"egressInterface",
				)
			}
		}
		send(x.message(start, 0, cards...))
	}
	send(x.message(start, 0, fields{num("sourceTransportPort", 1), {"interfaceName", "ö"}}))
	c.flush(time.Now().Add(join.DefaultWait))
	stats := c.Stats()
	c.change(func() { c.emit(stats.Record()) })
	golden(t, "paths.jsonl", written(t, out))
	var text []string
	for _, e := range out.all() {
		text = append(text, strings.TrimSuffix(e.Text(), "\n"))
	}
	golden(t, "paths.txt", strings.Split(strings.Join(text, "\n"), "\n"))
}

// Every written record, of any kind, is read again, and written again in the same way.
func TestGoldenLinesAreRead(t *testing.T) {
	for _, name := range []string{"collected.jsonl", "paths.jsonl"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			r, err := record.Parse([]byte(line))
			if err != nil || r == nil {
				t.Errorf("%v, %v: %s", r, err, line)
				continue
			}
			if got := string(record.AppendLine(nil, r)); got != line {
				t.Errorf("got  %swant %s", got, line)
			}
		}
	}
}
