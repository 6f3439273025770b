// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/tshark"
)

// output is what a process writes.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.b.Bytes())
}

// launch runs a program until the test ends.
func launch(t *testing.T, cmd *exec.Cmd) *output {
	t.Helper()
	var stdout, stderr output
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // unless it has ended
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s: %s", cmd.Path, stderr.bytes())
		}
	})
	return &stdout
}

// everything is a record of each kind that is about packets.
func everything(t *testing.T) []record.Record {
	odd := postcard(t)
	odd.Packet.SourcePort, odd.Packet.DestinationPort, odd.Packet.NextHeader, odd.FlowID = nil, nil, 58, record.Field[uint32]{}
	path := pathOfTwo(t)
	path.Loopback, path.Active = true, true
	path.PathDelay = record.NewField[uint64](31_000, true)
	return []record.Record{postcard(t), flow(), path, odd, edgeFlow()}
}

// measured are a loss, a delay and a block of the second before 05:20:59.
func measured() []record.Record {
	m := record.Measurement{
		Time: instant.Of(goldenAt), Node: "porthos", FlowID: 7, Scope: record.WholeWay, From: 1, To: 3,
		Block: record.NewField[uint64](1795238458, true), Start: instant.Of(time.Date(2026, 11, 21, 5, 20, 58, 0, time.UTC)), Length: 1e9,
	}
	return []record.Record{
		&record.Loss{
			Measurement: m,
			Verdict:     loss.Measured,
			Sent:        record.NewField[uint64](3, true),
			Received:    record.NewField[uint64](2, true),
			Lost:        record.NewField[uint64](1, true),
		},
		&record.Delay{Measurement: m, Samples: 2, Min: 10, Mean: 11, P95: 12},
		&record.Block{
			Time:      m.Time,
			FlowID:    m.FlowID,
			Point:     1,
			LastPoint: 3,
			Number:    m.Block.Value,
			Start:     m.Start,
			Length:    m.Length,
			Packets:   3,
		},
	}
}

// nfcapd reads times, addresses, ports, interfaces and counts.
func TestNfdump(t *testing.T) {
	dir, port := t.TempDir(), freePort(t, "udp")
	cmd := exec.Command("nfcapd", "-6", "-b", "::1", "-p", fmt.Sprint(port), "-w", dir, "-t", "3600")
	var log output
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Signal(syscall.SIGTERM)
	x := newEncoder(t)
	c := newCollector(t, x, Config{Transport: UDP, Address: fmt.Sprint("[::1]:", port), Domain: 2})
	waitFor(t, "nfcapd", func() bool { return strings.Contains(string(log.bytes()), "Startup nfcapd") })
	stop := run(c)
	for _, r := range append(everything(t), measured()...) {
		offer(x, c, r, 1)
	}
	waitFor(t, "sending all", func() bool { return c.Stats().Written == 9 })
	stop()
	time.Sleep(100 * time.Millisecond) // nfcapd does not report when it has read them
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	// nfcapd does not count options records, which are last.
	if want := "Flows: 9, Packets: 100, Bytes: 12800, Sequence Errors: 0, Bad Packets: 0"; !strings.Contains(string(log.bytes()), want) {
		t.Errorf("nfcapd does not say %q:\n%s", want, log.bytes())
	}
	b, err := exec.Command("nfdump", "-q", "-R", dir, "-o", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	type line struct {
		First, Last     string
		Packets         int    `json:"in_packets"`
		Bytes           int    `json:"in_bytes"`
		Proto           int    `json:"proto"`
		SourcePort      int    `json:"src_port"`
		DestinationPort int    `json:"dst_port"`
		Source          string `json:"src6_addr"`
		Destination     string `json:"dst6_addr"`
		Ingress         int    `json:"input_snmp"`
		Egress          int    `json:"output_snmp"`
		Domain          int    `json:"observationDoaminID"` // as nfdump 1.7.1 writes it
		Point           int    `json:"observationPointID"`
	}
	const at = "2026-11-21T05:21:00.000"
	seen := line{at, at, 0, 0, 17, 4242, 9, "2001:db8:1::2", "2001:db8:2::2", 2, 3, 2, 2}
	aggregate, hop, odd := seen, seen, seen
	aggregate.First, aggregate.Last, aggregate.Packets, aggregate.Bytes = "2026-11-21T05:20:59.000", "2026-11-21T05:20:59.999", 100, 12800
	hop.Egress = 0
	odd.Proto, odd.SourcePort, odd.DestinationPort = 58, 0, 0
	across := line{
		First:       aggregate.First,
		Last:        aggregate.Last,
		Source:      seen.Source,
		Destination: seen.Destination,
	} // no domain without a point
	// Records of measurements have no packets that were not counted elsewhere, but their times.
	block := line{First: "2026-11-21T05:20:58.000", Last: "2026-11-21T05:20:59.000"}
	var got []line
	for text := range strings.SplitSeq(strings.ReplaceAll(string(b), "},\n{", "}\x00{"), "\x00") {
		var l line
		if err := json.Unmarshal([]byte(strings.Trim(strings.TrimSpace(text), "[],")), &l); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		got = append(got, l)
	}
	if want := []line{seen, aggregate, hop, hop, odd, across, block, block, block}; !slices.Equal(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// datagrams are what a collector over UDP gets.
func datagrams(t *testing.T, records []record.Record) [][]byte {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	x := newEncoder(t)
	c := newCollector(t, x, Config{Transport: UDP, Address: conn.LocalAddr().String(), Domain: 2, MessageSize: 1400})
	for _, r := range records {
		offer(x, c, r, 1)
	}
	stop := run(c)
	waitFor(t, "sending all", func() bool { return c.Stats().Waiting() == 0 })
	stop()
	var list [][]byte
	for uint64(len(list)) < c.Stats().Messages {
		b := make([]byte, 2000)
		if err := conn.SetReadDeadline(time.Now().Add(patience.Of(5 * time.Second))); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, b[:n])
	}
	return list
}

// pcap writes datagrams to port 4739 into a capture.
func pcap(t *testing.T, messages [][]byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ipfix.pcap")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := pcapgo.NewWriter(f)
	if err := w.WriteFileHeader(65536, layers.LinkTypeRaw); err != nil {
		t.Fatal(err)
	}
	ip := &layers.IPv6{
		Version:    6,
		NextHeader: layers.IPProtocolUDP,
		HopLimit:   64,
		SrcIP:      net.ParseIP("2001:db8::1"),
		DstIP:      net.ParseIP("2001:db8::9"),
	}
	udp := &layers.UDP{SrcPort: 40000, DstPort: 4739}
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		b := gopacket.NewSerializeBuffer()
		if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, ip, udp,
			gopacket.Payload(m)); err != nil {
			t.Fatal(err)
		}
		if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: time.Now(), CaptureLength: len(b.Bytes()), Length: len(b.Bytes())},
			b.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// What tshark shows for elements that it does not know, enterprise ones and IANA's 530
// to 532: a postcard's, a flow's, those of a trace's nodes, a postcard's, those of a flow
// from edge to edge.
const tsharkPrivate = "02,04,007b,f80000,05,c0,12345678,00000007,eeaba8bc00000005,3f,000002,00c9,00ca,6a5f7f7b,000f423f,0000474a," +
	"02,007b,f80000,12345678,00001388,00004e20,00000000000f1b30,0000000000000063,0000000000000002,0000000000000001," +
	"00,007b,a00000,00000001,00,02,0e,00,0000000000000000,3f,000002,ffffffff," +
	"00,007b,a00000,00000001,01,02,0e,00,0000001f,0000001f,0000001f,ee09fdfc00000000,3e,000003,6a5f7f7c," +
	"02,04,007b,f80000,05,c0,00000007,eeaba8bc00000005,3f,000002,00c9,00ca,6a5f7f7b,000f423f,0000474a," +
	"007b,7000,0000000000000062,0000000000000002,0000000000000003,0000000000000004,0000000000000005,0000000000000006," +
	"000000000000464f,0000000000007918,00000000001cfde0,000000000000005f,00000014,00000011,0000001f"

// tsharkNames are the ids of the node and its interfaces, which stand next to their names.
const tsharkNames = "000002,0000000153158e,00c9,ffffffff,00ca,000315da"

// tshark finds no error, and reads the values of the elements that it knows.
func TestTshark(t *testing.T) {
	const minute, second = "Nov 21, 2026 05:21:00.", "Nov 21, 2026 05:20:59."
	cut := postcard(t)
	cut.Raw.Bytes = nil // it is not sent
	path := pcap(t, datagrams(t, append(everything(t), cut)))
	if faults := tshark.Run(t, path, "_ws.expert || _ws.malformed", "-e", "_ws.expert.message"); len(faults) > 0 {
		t.Errorf("tshark complains: %q", faults)
	}
	wants := map[string]string{
		"srcaddrv6":       strings.Repeat("2001:db8:1::2,", 6),
		"dstaddrv6":       strings.Repeat("2001:db8:2::2,", 6),
		"srcport":         strings.Repeat("4242,", 4),
		"dstport":         strings.Repeat("9,", 4),
		"protocol":        "17,17,17,17,58,",
		"outputint":       "3,3,3,",
		"packets":         "100,",
		"octets":          "12800,",
		"flow_end_reason": "2,",
		"ttl_min":         "62,",
		"ttl_max":         "63,",

		"observation_point_id":         "2,2,2,2,2,",
		"observation_time_nanoseconds": minute + "000000001 UTC," + minute + "000000000 UTC," + strings.Repeat(minute+"000000001 UTC,", 3) + minute + "000000000 UTC,",
		// In milliseconds, and for the flows in nanoseconds too.
		"abstimestart":             minute + "000000000 UTC," + strings.Repeat(second+"000000000 UTC,", 2) + strings.Repeat(minute+"000000000 UTC,", 3) + strings.Repeat(second+"000000000 UTC,", 2),
		"abstimeend":               minute + "000000000 UTC," + strings.Repeat(second+"999000000 UTC,", 2) + strings.Repeat(minute+"000000000 UTC,", 3) + strings.Repeat(second+"999000000 UTC,", 2),
		"observation_domain_name":  "porthos,porthos",
		"if_name":                  "eth0,eth1,eth0,eth1",
		"if_descr":                 "to aramis,to aramis",
		"ignore_packets":           "123,123",
		"observation_time_seconds": "Nov 21, 2026 05:00:01.000000000 UTC," + second + "000000000 UTC,Nov 21, 2026 05:00:01.000000000 UTC," + second + "000000000 UTC",
		"notsent_flows":            "1,1",
		"notsent_packets":          "1,1",
		"notsent_octets":           "128,128",
		"enterprise_private_entry": tsharkNames + ",000000000000000b,000000000000000c,0000000000000000,0000000000000000,0000000000000001," + tsharkPrivate + "," + tsharkNames +
			",000000000000000b,000000000000000c,0000000000000000,0000000000000000,0000000000000001",
		"ip_total_length": "128,128,128,128,",
	}
	fields := slices.Sorted(maps.Keys(wants))
	var args []string
	for _, field := range fields {
		args = append(args, "-e", "cflow."+field)
	}
	got := make([]string, len(fields)) // of all packets
	for _, line := range tshark.Run(t, path, "cflow", args...) {
		for i, values := range strings.Split(line, "\t") {
			if values != "" {
				got[i] += values + ","
			}
		}
	}
	for i, field := range fields {
		if strings.TrimSuffix(got[i], ",") != strings.TrimSuffix(wants[field], ",") {
			t.Errorf("%s: tshark reads %q, want %q", field, got[i], wants[field])
		}
	}
}
