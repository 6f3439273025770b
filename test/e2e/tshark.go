// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/tshark"
	"github.com/waymark-net/waymark/test/craft"
)

// Wire is a capture of what an interface receives, as a file.
type Wire struct {
	Path    string
	file    *os.File
	capture *lab.Capture
}

// StartWire writes what passes an interface into a file.
func StartWire(t *testing.T, l *lab.Lab, node, name string) *Wire {
	t.Helper()
	w := &Wire{Path: filepath.Join(t.TempDir(), node+".pcap")}
	var err error
	if w.file, err = os.Create(w.Path); err != nil {
		t.Fatal(err)
	}
	if w.capture, err = l.Capture(node, name, lab.CaptureOptions{Writer: w.file}); err != nil {
		t.Fatal(err)
	}
	return w
}

// Stop ends the capture, which must have missed nothing.
func (w *Wire) Stop(t *testing.T) {
	t.Helper()
	stats, err := w.capture.Stop()
	if err := errors.Join(err, w.file.Close()); err != nil {
		t.Fatal(err)
	}
	if stats.Dropped > 0 {
		t.Errorf("the capture missed %d packets", stats.Dropped)
	}
}

// Dissect gives the fields of each packet that passes a filter, as tshark reads them with the
// dissector that we package.
func Dissect(t *testing.T, path, filter string, fields ...string) [][]string {
	t.Helper()
	args := append([]string{"-X", "lua_script:../../../packaging/wireshark/ioam.lua"}, AsData...)
	for _, name := range fields {
		args = append(args, "-e", name)
	}
	var packets [][]string
	for _, line := range tshark.Run(t, path, filter, args...) {
		packets = append(packets, strings.Split(line, "\t"))
	}
	return packets
}

// Complaints selects malformed packets and packets that tshark warns about or
// notes, except notes on the end of a connection and anything on duplicates that
// a busy machine's TCP sent.
const Complaints = "_ws.malformed || (_ws.expert.severity >= 0x600000 && !tcp.options.sack.dsack) || " +
	"(_ws.expert.severity >= 0x400000 && !(tcp.flags.fin == 1) && !tcp.options.sack.dsack)"

// AsData keeps tshark from guessing the protocol of our payload, and turns its
// analysis of TCP sequence numbers off.
var AsData = []string{"-o", "tcp.analyze_sequence_numbers:FALSE", "-d", "udp.port==9000-9109,data", "-d", "tcp.port==9001,data"}

// CheckControl makes sure that tshark complains about malformed packets.
func CheckControl(t *testing.T) {
	t.Helper()
	for name, option := range map[string][]byte{
		"NodeLen contradicts the trace type": TraceOption(123, 0x800000, 0, 18, 80),
		"RemainingLen beyond the option":     TraceOption(123, 0x800000, 0, 21, 80),
	} {
		if name == "NodeLen contradicts the trace type" {
			option[6] = 2 << 3
		}
		packet := Packet(1, 64, craft.Options(craft.NoNext, 2, option), []byte("payload"))
		frame := craft.Ethernet([]byte{0, 0, 0, 0, 0, 1}, []byte{0, 0, 0, 0, 0, 2}, packet)
		path := filepath.Join(t.TempDir(), "control.pcap")
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		w := pcapgo.NewWriter(file)
		if err := w.WriteFileHeader(1<<16, layers.LinkTypeEthernet); err != nil {
			t.Fatal(err)
		}
		if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: time.Now(), CaptureLength: len(frame), Length: len(frame)}, frame); err != nil {
			t.Fatal(err)
		}
		if lines := tshark.Run(t, path, Complaints, "-e", "_ws.expert.message"); len(lines) != 1 {
			t.Errorf("%s: tshark does not complain: %q", name, lines)
		}
	}
}
