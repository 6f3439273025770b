// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// tooBig is a Packet Too Big message from a router to the source of egressFrame's
// packets, about one of them that has grown inline.
func tooBig(mtu uint32, length int) []byte {
	own := egressFrame(ipv6Packet(ioam.NextHeaderUDP, udp(0))).Data
	quoted := append([]byte{}, own[:40]...)
	quoted[6] = 0
	binary.BigEndian.PutUint16(quoted[4:], uint16(length-40))
	quoted = append(quoted, 17, 4, 1, 0, 0x31, 34, 0, 0)
	message := binary.BigEndian.AppendUint32([]byte{2, 0, 0, 0}, mtu)
	packet := ipv6Packet(ioam.NextHeaderICMPv6, append(message, quoted...))
	copy(packet[24:40], own[8:24])
	return packet
}

// The rule of encapConfig inserts 40 bytes.
func TestLearnedPathMTU(t *testing.T) {
	const narrow = 1400
	change := func(at int, b byte) func([]byte) []byte {
		return func(packet []byte) []byte { packet[at] = b; return packet }
	}
	same := func(packet []byte) []byte { return packet }
	for _, test := range []struct {
		name    string
		mode    model.Mode
		mtu     uint32
		length  int // of the quoted packet
		change  func([]byte) []byte
		after   time.Duration
		learned bool
	}{
		{"right", model.ModeInline, narrow, 1480, same, 0, true},
		{"auto", model.ModeAuto, narrow, 1480, same, 0, true},
		{"Direct Export", model.ModeInline, narrow, 1480, change(92, 0x11), 0, true},
		{"ten minutes later", model.ModeInline, narrow, 1480, same, 10 * time.Minute, true},
		{"later", model.ModeInline, narrow, 1480, same, 10*time.Minute + time.Second, false},
		{"no encapsulation that inserts inline", model.ModeEncap, narrow, 1480, same, 0, false},
		{"would have fitted", model.ModeInline, narrow, narrow, same, 0, false},
		{"below the minimum", model.ModeInline, 1279, 1480, same, 0, false},
		{"another type", model.ModeInline, narrow, 1480, change(40, 1), 0, false},
		{"Edge-to-Edge", model.ModeInline, narrow, 1480, func(packet []byte) []byte {
			packet[54] = 60
			return change(92, 0x11)(packet)
		}, 0, true},
		{"Edge-to-Edge after a Hop-by-Hop header", model.ModeInline, narrow, 1480, func(packet []byte) []byte {
			return append(packet[:88:88], 60, 1, 0x1e, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 17, 2, 1, 0, 0x11, 10, 0, 3)
		}, 0, true},
		{"Edge-to-Edge after a Hop-by-Hop header, quoted in part", model.ModeInline, narrow, 1480, func(packet []byte) []byte {
			return append(packet[:88:88], 60, 1, 0x1e, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 17, 2, 1, 0, 0x11, 10, 0)
		}, 0, false},
		{"other options after a Hop-by-Hop header", model.ModeInline, narrow, 1480, func(packet []byte) []byte {
			return append(packet[:88:88], 60, 0, 0x1e, 4, 0, 0, 0, 0, 17, 0, 1, 0, 0x1e, 2, 0, 0)
		}, 0, false},
		{"another header after a Hop-by-Hop header", model.ModeInline, narrow, 1480, func(packet []byte) []byte {
			return append(packet[:88:88], 43, 0, 0x1e, 4, 0, 0, 0, 0, 17, 2, 1, 0, 0x11, 10, 0, 3)
		}, 0, false},
		{"quoted without a header of options", model.ModeInline, narrow, 1480, change(54, 17), 0, false},
		{"quoted with a Routing header", model.ModeInline, narrow, 1480, change(54, 43), 0, false},
		{"quoted with another option first", model.ModeInline, narrow, 1480, change(92, 5), 0, false},
		{"quoted with other padding", model.ModeInline, narrow, 1480, change(91, 2), 0, false},
		{"quoted after it has grown", model.ModeInline, narrow, 1480, func(packet []byte) []byte {
			return append(packet[:91:91], append([]byte{4, 0, 0, 0, 0}, packet[96:]...)...)
		}, 0, true},
		{"quoted from another source", model.ModeInline, narrow, 1480, change(70, 99), 0, false},
		{"quoted to another destination", model.ModeInline, narrow, 1480, change(86, 99), 0, false},
		{"quoted in part", model.ModeInline, narrow, 1480, func(packet []byte) []byte { return packet[:95] }, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			node := mustNode(t, encapConfig(test.mode))
			frame := egressFrame(test.change(tooBig(test.mtu, test.length)))
			if got := node.Ingress(frame).Outcome; got != model.OutcomeNoIOAM {
				t.Errorf("the message is %v", got)
			}
			large := egressFrame(ipv6Packet(ioam.NextHeaderUDP, udp(narrow-40-48+1)))
			large.Time += int64(test.after)
			large.Ingress = 0
			outcome := node.Egress(large).Outcome
			if learned := outcome == model.OutcomeEncapSkippedMTU; learned != test.learned {
				t.Errorf("a packet beyond the path MTU: %v", outcome)
			}
			fits := egressFrame(ipv6Packet(ioam.NextHeaderUDP, udp(narrow-40-48)))
			fits.Time, fits.Ingress = large.Time, 0
			if got := node.Egress(fits).Outcome; got == model.OutcomeEncapSkippedMTU {
				t.Errorf("a packet within it: %v", got)
			}
		})
	}
}

// A message lowers the known MTU, and a greater MTU does not raise it.
func TestLearnedPathMTUOnlyFalls(t *testing.T) {
	node := mustNode(t, encapConfig(model.ModeInline))
	hear := func(mtu uint32, at int64) {
		frame := egressFrame(tooBig(mtu, 1500))
		frame.Time = at
		node.Ingress(frame)
	}
	largest := func(at int64) int {
		for length := 1490; ; length-- {
			frame := egressFrame(ipv6Packet(ioam.NextHeaderUDP, udp(length-40-48)))
			frame.Time = at
			if node.Egress(frame).Outcome != model.OutcomeEncapSkippedMTU {
				return length
			}
		}
	}
	minute := int64(time.Minute)
	for _, step := range []struct {
		mtu  uint32
		at   int64
		want int
	}{
		{1400, 0, 1400}, {1450, 5 * minute, 1400}, {1300, 6 * minute, 1300}, {1300, 12 * minute, 1300},
		{1450, 21 * minute, 1300}, {1450, 23 * minute, 1450},
	} {
		hear(step.mtu, step.at)
		if got := largest(step.at); got != step.want {
			t.Errorf("%d heard after %v: packets up to %d grow, want %d", step.mtu, time.Duration(step.at), got, step.want)
		}
	}
}

// The kernel's MTU for a route limits packets that grow beyond 1280 bytes, inline
// and in a tunnel, but not TCP that is segmented smaller.
func TestRouteMTU(t *testing.T) {
	for _, test := range []struct {
		name    string
		mode    model.Mode
		size    int // of UDP's payload
		gsoSize uint32
		route   int
		outcome model.Outcome
	}{
		{"fits", model.ModeInline, 1400 - 40 - 48, 0, 1400, model.OutcomeEncapInserted},
		{"too large", model.ModeInline, 1400 - 40 - 47, 0, 1400, model.OutcomeEncapSkippedMTU},
		{"not known", model.ModeInline, 1400 - 40 - 47, 0, 0, model.OutcomeEncapInserted},
		{"what every path carries", model.ModeInline, 1280 - 40 - 48, 0, 1000, model.OutcomeEncapInserted},
		{"tunnel, fits", model.ModeEncap, 1400 - 80 - 48, 0, 1400, model.OutcomeEncapTunneled},
		{"tunnel, too large", model.ModeEncap, 1400 - 80 - 47, 0, 1400, model.OutcomeEncapSkippedMTU},
		{"segments fit", model.ModeInline, 30000, 1400 - 40 - 48, 1400, model.OutcomeEncapInserted},
		{"segments too large", model.ModeInline, 30000, 1400 - 40 - 47, 1400, model.OutcomeEncapSkippedMTU},
	} {
		t.Run(test.name, func(t *testing.T) {
			frame := egressFrame(ipv6Packet(ioam.NextHeaderUDP, udp(test.size)))
			frame.GSOSize, frame.PathMTU = test.gsoSize, test.route
			if got := mustNode(t, encapConfig(test.mode)).Egress(frame).Outcome; got != test.outcome {
				t.Errorf("%v, want %v", got, test.outcome)
			}
		})
	}
}
