// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"testing"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// The rule of encapConfig inserts 40 bytes, 80 with the outer header.
func TestPathMTU(t *testing.T) {
	const pathMTU = 1400
	tcp := func(headerLen int) []byte {
		segment := make([]byte, 30000)
		segment[12] = byte(headerLen / 4 << 4)
		return segment
	}
	for _, test := range []struct {
		name    string
		mode    model.Mode
		ingress model.IfIndex
		next    ioam.NextHeader
		payload []byte
		gsoSize uint32
		outcome model.Outcome
	}{
		{"up to it", model.ModeEncap, ifIngress, ioam.NextHeaderUDP, udp(pathMTU - 80 - 48), 0, model.OutcomeEncapTunneled},
		{"beyond it", model.ModeEncap, ifIngress, ioam.NextHeaderUDP, udp(pathMTU - 80 - 47), 0, model.OutcomeEncapSkippedMTU},
		{"beyond it, auto", model.ModeAuto, ifIngress, ioam.NextHeaderUDP, udp(pathMTU - 80 - 47), 0, model.OutcomeEncapSkippedMTU},
		{"auto, no tunnel", model.ModeAuto, 0, ioam.NextHeaderUDP, udp(pathMTU - 80 - 47), 0, model.OutcomeEncapInserted},
		{"inline", model.ModeInline, ifIngress, ioam.NextHeaderUDP, udp(pathMTU - 80 - 47), 0, model.OutcomeEncapInserted},
		{"udp segments up to it", model.ModeEncap, ifIngress, ioam.NextHeaderUDP, udp(30000), pathMTU - 80 - 48, model.OutcomeEncapTunneled},
		{"udp segments beyond it", model.ModeEncap, ifIngress, ioam.NextHeaderUDP, udp(30000), pathMTU - 80 - 47, model.OutcomeEncapSkippedMTU},
		{"tcp segments up to it", model.ModeEncap, ifIngress, ioam.NextHeaderTCP, tcp(32), pathMTU - 40 - 32, model.OutcomeEncapTunneled},
		{"tcp segments beyond it", model.ModeEncap, ifIngress, ioam.NextHeaderTCP, tcp(32), pathMTU - 40 - 31, model.OutcomeEncapSkippedMTU},
		{"tcp without its header", model.ModeEncap, ifIngress, ioam.NextHeaderTCP, tcp(32)[:12], pathMTU - 40 - 59, model.OutcomeEncapSkippedMTU},
		{"tcp without its header, shorter", model.ModeEncap, ifIngress, ioam.NextHeaderTCP, tcp(32)[:12], pathMTU - 40 - 60, model.OutcomeEncapTunneled},
		{"tcp segments too small", model.ModeEncap, ifIngress, ioam.NextHeaderTCP, tcp(32), 160, model.OutcomeEncapSkippedGSO},
		{"tcp, auto, no tunnel", model.ModeAuto, 0, ioam.NextHeaderTCP, tcp(32), pathMTU - 40 - 31, model.OutcomeEncapInserted},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := encapConfig(test.mode)
			config.Encapsulations[0].PathMTU = pathMTU
			frame := egressFrame(ipv6Packet(test.next, test.payload))
			frame.Ingress, frame.GSOSize = test.ingress, test.gsoSize
			if got := mustNode(t, config).Egress(frame).Outcome; got != test.outcome {
				t.Errorf("%v, want %v", got, test.outcome)
			}
			config.Encapsulations[0].PathMTU = 2000 // more than the interface's
			if got := mustNode(t, config).Egress(frame).Outcome; got == model.OutcomeEncapSkippedMTU {
				t.Errorf("with a larger path MTU: %v", got)
			}
		})
	}
}
