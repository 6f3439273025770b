// SPDX-License-Identifier: Apache-2.0

package export

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	"github.com/netsampler/goflow2/v2/decoders/netflow"

	"github.com/waymark-net/waymark/internal/tshark"
	"github.com/waymark-net/waymark/ipfix"
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

// everything is a record of each kind.
func everything(t *testing.T) []Record {
	odd := postcard(t)
	odd.Packet.SourcePort, odd.Packet.DestinationPort, odd.Packet.NextHeader, odd.FlowID = nil, nil, 58, Field[uint32]{}
	return []Record{postcard(t), flow(), pathOfTwo(t), odd}
}

// nfcapd reads times, addresses, ports, interfaces and counts, and finds no
// fault.
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
	x := newIPFIX(t)
	c := newCollector(t, x, CollectorConfig{Transport: UDP, Address: fmt.Sprint("[::1]:", port), Domain: 2})
	waitFor(t, "nfcapd", func() bool { return strings.Contains(string(log.bytes()), "Startup nfcapd") })
	stop := run(c)
	for _, r := range everything(t) {
		offer(x, c, r, 1)
	}
	waitFor(t, "sending all", func() bool { return c.Stats().Written == 5 })
	stop()
	time.Sleep(100 * time.Millisecond) // nfcapd tells nobody when it has read them
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if want := "Flows: 5, Packets: 100, Bytes: 12800, Sequence Errors: 0, Bad Packets: 0"; !strings.Contains(string(log.bytes()), want) {
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
	var got []line
	for text := range strings.SplitSeq(strings.ReplaceAll(string(b), "},\n{", "}\x00{"), "\x00") {
		var l line
		if err := json.Unmarshal([]byte(strings.Trim(strings.TrimSpace(text), "[],")), &l); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		got = append(got, l)
	}
	if want := []line{seen, aggregate, hop, hop, odd}; !slices.Equal(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// datagrams are what a collector over UDP gets.
func datagrams(t *testing.T, records []Record) [][]byte {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	x := newIPFIX(t)
	c := newCollector(t, x, CollectorConfig{Transport: UDP, Address: conn.LocalAddr().String(), Domain: 2, MessageSize: 1400})
	for _, r := range records {
		offer(x, c, r, 1)
	}
	stop := run(c)
	waitFor(t, "sending all", func() bool { return c.Stats().Waiting() == 0 })
	stop()
	var list [][]byte
	for uint64(len(list)) < c.Stats().Messages {
		b := make([]byte, 2000)
		if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
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

// goflow2 reads every value that our own decoder reads.
func TestGoflow2(t *testing.T) {
	messages := datagrams(t, everything(t))
	templates := netflow.CreateTemplateSystem()
	var got []string
	for _, b := range messages {
		var m netflow.IPFIXPacket
		if err := netflow.DecodeMessageVersion(bytes.NewBuffer(b), templates, nil, &m); err != nil {
			t.Fatal(err)
		}
		for _, set := range m.FlowSets {
			if data, ok := set.(netflow.DataFlowSet); ok {
				for _, r := range data.Records {
					for _, v := range r.Values {
						enterprise := ipfix.EnterpriseIANA
						if v.PenProvided {
							enterprise = ipfix.Enterprise(v.Pen)
						}
						got = append(got, fmt.Sprintf("%d/%d=%x", enterprise, v.Type&0x7fff, v.Value))
					}
				}
			}
		}
	}
	r := newReceiver(t)
	s, err := r.decoder.Open(ipfix.SessionKey{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, b := range messages {
		r.take(s, b)
	}
	for _, m := range r.messages {
		for _, set := range m.Sets {
			for record := range set.Records() {
				for v := range record.Values() {
					if set.Template.Scope() == 0 {
						want = append(want, fmt.Sprintf("%d/%d=%x", v.Field.Enterprise, v.Field.ID, v.Octets))
					}
				}
			}
		}
	}
	if len(want) < 100 || !slices.Equal(got, want) {
		t.Errorf("goflow2 reads\n%s\nand we\n%s", got, want)
	}
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
	ip := &layers.IPv6{Version: 6, NextHeader: layers.IPProtocolUDP, HopLimit: 64, SrcIP: net.ParseIP("2001:db8::1"), DstIP: net.ParseIP("2001:db8::9")}
	udp := &layers.UDP{SrcPort: 40000, DstPort: 4739}
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		b := gopacket.NewSerializeBuffer()
		if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, ip, udp, gopacket.Payload(m)); err != nil {
			t.Fatal(err)
		}
		if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: time.Now(), CaptureLength: len(b.Bytes()), Length: len(b.Bytes())}, b.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// tshark finds no fault, and reads the values of the elements that it knows.
func TestTshark(t *testing.T) {
	path := pcap(t, datagrams(t, everything(t)))
	if faults := tshark.Run(t, path, "_ws.expert || _ws.malformed", "-e", "_ws.expert.message"); len(faults) > 0 {
		t.Errorf("tshark complains: %q", faults)
	}
	for field, want := range map[string]string{
		"srcaddrv6":       strings.Repeat("2001:db8:1::2,", 5),
		"dstaddrv6":       strings.Repeat("2001:db8:2::2,", 5),
		"srcport":         strings.Repeat("4242,", 4),
		"dstport":         strings.Repeat("9,", 4),
		"protocol":        "17,17,17,17,58,",
		"outputint":       "3,3,3,",
		"packets":         "100,",
		"octets":          "12800,",
		"flow_end_reason": "2,",
		"ip_total_length": "128,128,128,128,",
	} {
		got := strings.Trim(strings.Join(tshark.Run(t, path, "cflow", "-e", "cflow."+field), ","), ",")
		if got != strings.TrimSuffix(want, ",") {
			t.Errorf("%s: tshark reads %q, want %q", field, got, want)
		}
	}
	for field, want := range map[string]string{
		"observation_domain_name": "porthos", "if_name": "eth0,eth1", "observation_time_nanoseconds": "Nov 21, 2026 05:21:00.000000001 UTC",
	} {
		if got := strings.Join(tshark.Run(t, path, "cflow", "-e", "cflow."+field), ","); !strings.Contains(got, want) {
			t.Errorf("%s: tshark reads %q, want %q", field, got, want)
		}
	}
}
