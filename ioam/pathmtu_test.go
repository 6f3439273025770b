// SPDX-License-Identifier: Apache-2.0

package ioam

import "testing"

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
		mode    Mode
		ingress IfIndex
		next    NextHeader
		payload []byte
		gsoSize uint32
		outcome Outcome
	}{
		{"up to it", ModeEncap, ifIngress, NextHeaderUDP, udp(pathMTU - 80 - 48), 0, OutcomeEncapTunneled},
		{"beyond it", ModeEncap, ifIngress, NextHeaderUDP, udp(pathMTU - 80 - 47), 0, OutcomeEncapSkippedMTU},
		{"beyond it, auto", ModeAuto, ifIngress, NextHeaderUDP, udp(pathMTU - 80 - 47), 0, OutcomeEncapSkippedMTU},
		{"auto, no tunnel", ModeAuto, 0, NextHeaderUDP, udp(pathMTU - 80 - 47), 0, OutcomeEncapInserted},
		{"inline", ModeInline, ifIngress, NextHeaderUDP, udp(pathMTU - 80 - 47), 0, OutcomeEncapInserted},
		{"udp segments up to it", ModeEncap, ifIngress, NextHeaderUDP, udp(30000), pathMTU - 80 - 48, OutcomeEncapTunneled},
		{"udp segments beyond it", ModeEncap, ifIngress, NextHeaderUDP, udp(30000), pathMTU - 80 - 47, OutcomeEncapSkippedMTU},
		{"tcp segments up to it", ModeEncap, ifIngress, NextHeaderTCP, tcp(32), pathMTU - 40 - 32, OutcomeEncapTunneled},
		{"tcp segments beyond it", ModeEncap, ifIngress, NextHeaderTCP, tcp(32), pathMTU - 40 - 31, OutcomeEncapSkippedMTU},
		{"tcp without its header", ModeEncap, ifIngress, NextHeaderTCP, tcp(32)[:12], pathMTU - 40 - 59, OutcomeEncapSkippedMTU},
		{"tcp without its header, shorter", ModeEncap, ifIngress, NextHeaderTCP, tcp(32)[:12], pathMTU - 40 - 60, OutcomeEncapTunneled},
		{"tcp segments too small", ModeEncap, ifIngress, NextHeaderTCP, tcp(32), 160, OutcomeEncapSkippedGSO},
		{"tcp, auto, no tunnel", ModeAuto, 0, NextHeaderTCP, tcp(32), pathMTU - 40 - 31, OutcomeEncapInserted},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := encapConfig(test.mode)
			config.Encapsulations[0].PathMTU = pathMTU
			frame := egressFrame(ipv6(test.next, test.payload))
			frame.Ingress, frame.GSOSize = test.ingress, test.gsoSize
			if got := mustNode(t, config).Egress(frame).Outcome; got != test.outcome {
				t.Errorf("%v, want %v", got, test.outcome)
			}
			config.Encapsulations[0].PathMTU = 2000 // more than the interface's
			if got := mustNode(t, config).Egress(frame).Outcome; got == OutcomeEncapSkippedMTU {
				t.Errorf("with a larger path MTU: %v", got)
			}
		})
	}
}
