// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/tshark"
	"github.com/waymark-net/waymark/test/craft"
)

// capture writes messages as UDP datagrams to port 4739 into a pcap file.
func capture(t *testing.T, messages ...[]byte) string {
	t.Helper()
	var b []byte
	for _, word := range []uint32{0xa1b2c3d4, 2<<16 | 4, 0, 0, 1 << 16, 101} { // raw IP
		b = binary.BigEndian.AppendUint32(b, word)
	}
	for i, m := range messages {
		packet := craft.Seal(craft.Between("::1", "::1", craft.UDP).With(craft.Datagram(4739, 4739, m...)))
		for _, word := range []int{int(exportTime.Unix()), i, len(packet), len(packet)} {
			b = binary.BigEndian.AppendUint32(b, uint32(word))
		}
		b = append(b, packet...)
	}
	path := filepath.Join(t.TempDir(), "ipfix.pcap")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// sample is a message of templates and two of records: fixed and variable
// lengths, reduced sizes, enterprise elements, options.
func sample(t *testing.T) [][]byte {
	t.Helper()
	flow := template(t, 256, postcard...)
	name := template(t, 257, "interfaceName", "ingressInterface", "ioamOpaqueStateSnapshot")
	options := optionsTemplate(t, 258, "exportingProcessId", "exportedMessageTotalCount[4]",
		"exportedOctetTotalCount[5]", "exportedFlowRecordTotalCount", "ioamSuppressedRecordTotalCount[3]")
	e := encoder(t, UDP, 1452, flow, name, options)
	e.Start(nil)
	if err := e.AddTemplates(); err != nil {
		t.Fatal(err)
	}
	messages := [][]byte{e.Finish(exportTime)}
	add := func(tmpl *Template, write func(w *RecordWriter)) {
		if err := e.Add(tmpl, record(t, tmpl, write)); err != nil {
			t.Fatal(err)
		}
	}
	source, destination := netip.MustParseAddr("2001:db8:1::2"), netip.MustParseAddr("2001:db8:2::2")
	for i := range uint64(2) {
		e.Start(nil)
		for j := range uint64(2) {
			add(flow, func(w *RecordWriter) { writePostcard(w, source, destination, 70000+2*i+j) })
		}
		add(name, func(w *RecordWriter) { w.Text("eth0"); w.Uint(20); w.Octets([]byte("rack 7")) })
		add(name, func(w *RecordWriter) { w.Text(strings.Repeat("long", 70)); w.Uint(1 << 31); w.Octets([]byte{0xff}) })
		add(options, func(w *RecordWriter) { w.Uint(5); w.Uint(6); w.Uint(1<<33 + i); w.Uint(8); w.Uint(9) })
		messages = append(messages, e.Finish(exportTime))
	}
	return messages
}

// tshark, an independent implementation, reads our messages without a complaint, and
// the values that we wrote.
func TestTshark(t *testing.T) {
	messages := sample(t)
	path := capture(t, messages...)
	const complaints = "_ws.expert || _ws.malformed || udp.checksum.status == 0"
	lines := tshark.Run(t, path, complaints, "-o", "udp.check_checksum:TRUE", "-e", "frame.number", "-e", "_ws.expert.message")
	if len(lines) > 0 {
		t.Errorf("tshark complains: %q", lines)
	}
	long := strings.Repeat("long", 70)
	fields := map[string][3]string{
		"version":                          {"10", "10", "10"},
		"len":                              {fmt.Sprint(len(messages[0])), fmt.Sprint(len(messages[1])), fmt.Sprint(len(messages[2]))},
		"sequence":                         {"0", "0", "5"},
		"od_id":                            {"7", "7", "7"},
		"flowset_id":                       {"2,3", "256,257,258", "256,257,258"},
		"template_id":                      {"256,257,258", "", ""},
		"template_field_count":             {"20,3", "", ""},
		"template_ipfix_scope_field_count": {"1", "", ""},
		"template_ipfix_field_pen":         {"10383,10383,10383,32473,10383,10383,32473,10383,32473", "", ""},
		"template_field_length":            {"16,16,2,2,1,3,2,2,8,8,8,8,2,3,1,3,4,4,4,1,65535,4,65535,4,4,5,8,3", "", ""},
		"srcaddrv6":                        {"", "2001:db8:1::2,2001:db8:1::2", "2001:db8:1::2,2001:db8:1::2"},
		"dstaddrv6":                        {"", "2001:db8:2::2,2001:db8:2::2", "2001:db8:2::2,2001:db8:2::2"},
		"srcport":                          {"", "4242,4242", "4242,4242"},
		"dstport":                          {"", "9,9", "9,9"},
		"protocol":                         {"", "17,17", "17,17"},
		"ipv6flowlabel":                    {"", "70000,70001", "70002,70003"},
		"inputint":                         {"", "2,2,20,2147483648", "2,2,20,2147483648"},
		"outputint":                        {"", "3,3", "3,3"},
		"packets":                          {"", "70000,70001", "70002,70003"},
		"octets":                           {"", "7000000,7000100", "7000200,7000300"},
		"flow_end_reason":                  {"", "2,2", "2,2"},
		"abstimestart":                     {"", tsharkTimes(70000, 70001), tsharkTimes(70002, 70003)},
		"abstimeend":                       {"", tsharkTimes(140000, 140002), tsharkTimes(140004, 140006)},
		"if_name":                          {"", "eth0," + long, "eth0," + long},
		"flow_exporter":                    {"", "5", "5"},
		"packetsexp":                       {"", "6", "6"},
		"octetsexp":                        {"", "8589934592", "8589934593"},
		"flowsexp":                         {"", "8", "8"},
		"enterprise_private_entry":         {"", enterpriseEntries(70000, 70001), enterpriseEntries(70002, 70003)},
	}
	names, args := slices.Sorted(maps.Keys(fields)), []string{}
	for _, name := range names {
		args = append(args, "-e", "cflow."+name)
	}
	lines = tshark.Run(t, path, "cflow", args...)
	if len(lines) != len(messages) {
		t.Fatalf("tshark finds %d messages, want %d", len(lines), len(messages))
	}
	for i, line := range lines {
		for j, got := range strings.Split(line, "\t") {
			if want := fields[names[j]][i]; got != want {
				t.Errorf("message %d, %s: tshark has %q, want %q", i, names[j], got, want)
			}
		}
	}
}

// tsharkTimes are times some nanoseconds after exportTime, as tshark prints them.
func tsharkTimes(nanoseconds ...int) string {
	var list []string
	for _, n := range nanoseconds {
		list = append(list, exportTime.Add(time.Duration(n)).Format("Jan _2, 2006 15:04:05.000000000 MST"))
	}
	return strings.Join(list, ",")
}

// enterpriseEntries are the octets of enterprise elements in a message with two
// postcards.
func enterpriseEntries(postcards ...uint32) string {
	var list []string
	for _, n := range postcards {
		list = append(list, "007b", "000002", "3f", "f80000", fmt.Sprintf("%08x", n), fmt.Sprintf("%08x", n), "0000474a")
	}
	return strings.Join(append(list, "7261636b2037", "ff", "000009"), ",")
}

// tshark's lack of complaints is meaningful: it complains of a lost message and of a
// set that is too short.
func TestTsharkComplains(t *testing.T) {
	messages := sample(t)
	if lines := tshark.Run(t, capture(t, messages[0], messages[2]), "_ws.expert", "-e", "frame.number"); len(lines) != 1 || lines[0] != "2" {
		t.Errorf("a lost message: %q", lines)
	}
	binary.BigEndian.PutUint16(messages[1][headerLen+2:], 3)
	if lines := tshark.Run(t, capture(t, messages[:2]...), "_ws.expert", "-e", "frame.number"); len(lines) != 1 || lines[0] != "2" {
		t.Errorf("a set of 3 octets: %q", lines)
	}
}
