// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/e2e"
)

// Flows of a foreign exporter, softflowd, arrive with their values, over UDP and
// TCP, in milliseconds and nanoseconds.
func TestCollectForeignExporter(t *testing.T) {
	t.Parallel()
	const packets = 7
	directory := t.TempDir()
	capture := filepath.Join(directory, "packets.pcap")
	start := time.Now().UTC().Truncate(time.Second).Add(-time.Minute)
	length := writeFlow(t, capture, start, packets)
	c := collectHere(t, "--listen", "udp://127.0.0.1:0", "--listen", "tcp://127.0.0.1:0")
	for i, way := range []struct{ transport, format string }{{"udp", "milli"}, {"udp", "nano"}, {"tcp", "milli"}, {"tcp", "nano"}} {
		cmd := exec.Command("softflowd", "-d", "-6", "-r", capture, "-v", "10", "-A", way.format, "-P", way.transport, "-n", c.At[i/2],
			"-p", filepath.Join(directory, "pid"), "-c", "none")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("softflowd: %v\n%s", err, out)
		}
	}
	e2e.Await(t, "four flows", 10*time.Second, func() bool { return len(c.Lines()) >= 4 })
	lines, stats := c.Stop()
	e2e.CheckNothingWrong(t, stats)
	for _, line := range lines {
		var r record.Other
		if err := record.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		values := map[string]string{}
		for _, e := range r.Elements {
			values[e.Name] = fmt.Sprint(e.Value)
		}
		for name, want := range map[string]string{
			"sourceIPv6Address": "2001:db8:1::2", "destinationIPv6Address": "2001:db8:2::2", "sourceTransportPort": "4242",
			"destinationTransportPort": "9",
			"protocolIdentifier":       "17", "packetDeltaCount": fmt.Sprint(packets), "octetDeltaCount": fmt.Sprint(packets * length), "ipVersion": "6",
		} {
			if values[name] != want {
				t.Errorf("%s is %q, want %q", name, values[name], want)
			}
		}
		first, last := values["flowStartMilliseconds"]+values["flowStartNanoseconds"], values["flowEndMilliseconds"]+values["flowEndNanoseconds"]
		for text, want := range map[string]time.Time{first: start, last: start.Add((packets - 1) * time.Second)} {
			at, err := time.Parse(time.RFC3339Nano, text)
			if d := at.Sub(want); err != nil || d < 0 || d > time.Microsecond { // softflowd rounds to NTP's fractions
				t.Errorf("time %s, want %v (%v)", text, want, err)
			}
		}
		if r.Kind() != record.KindOther || r.Exporter != netip.MustParseAddr("127.0.0.1") {
			t.Errorf("%s", line)
		}
	}
	if len(lines) != 4 || stats.Counts["other"] != 4 || stats.Counts["options"] == 0 {
		t.Errorf("%d records, statistics %v", len(lines), stats.Counts)
	}
}

// writeFlow writes a capture of a UDP flow, a packet each second; length is the
// length of one packet.
func writeFlow(t *testing.T, path string, start time.Time, packets int) (length int) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := pcapgo.NewWriter(f)
	if err := w.WriteFileHeader(65535, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	ip := &layers.IPv6{
		Version:    6,
		NextHeader: layers.IPProtocolUDP,
		HopLimit:   64,
		SrcIP:      netip.MustParseAddr("2001:db8:1::2").AsSlice(),
		DstIP:      netip.MustParseAddr("2001:db8:2::2").AsSlice(),
	}
	udp := &layers.UDP{SrcPort: 4242, DstPort: 9}
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	mac := []byte{2, 0, 0, 0, 0, 1}
	b := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		&layers.Ethernet{SrcMAC: mac, DstMAC: mac, EthernetType: layers.EthernetTypeIPv6}, ip, udp,
		gopacket.Payload(make([]byte, 100))); err != nil {
		t.Fatal(err)
	}
	frame := b.Bytes()
	for i := range packets {
		info := gopacket.CaptureInfo{Timestamp: start.Add(time.Duration(i) * time.Second), CaptureLength: len(frame), Length: len(frame)}
		if err := w.WritePacket(info, frame); err != nil {
			t.Fatal(err)
		}
	}
	return len(frame) - 14
}
