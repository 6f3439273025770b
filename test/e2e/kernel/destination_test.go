// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/e2e"
)

// destined is two hosts. athos merges Edge-to-Edge options of two namespaces, with a trace or
// without, by the port; porthos removes those of namespace 123.
var destined = removing("destined", `
        - {name: removed, interface: eth1, match: {destination: 2001:db8:4::/64, destination-port: 9000}, mode: inline, options: [{e2e: {namespace: 123, type: 0x7000}}]}
        - {name: traced, interface: eth1, match: {destination: 2001:db8:4::/64, destination-port: 9001}, mode: inline, options: [{trace: {namespace: 456, type: 0x800000, size: 12}}, {e2e: {namespace: 456, type: 0x4000}}]}
        - {name: both, interface: eth1, match: {destination: 2001:db8:4::/64, destination-port: 9002}, mode: inline, options: [{e2e: {namespace: 123, type: 0x8000}}, {e2e: {namespace: 456, type: 0x4000}}]}`)

// A socket's own Destination Options header takes Edge-to-Edge options in front, and gives
// them back: the receiver's kernel accepts it, and finds the socket's options, aligned.
func TestDestinationOptionsOfSockets(t *testing.T) {
	t.Parallel()
	l := e2e.RaiseText(t, "destined", destined)
	for _, tt := range []struct {
		name    string
		port    int
		own     []byte
		carries int // Edge-to-Edge options that arrive
	}{
		{"removed, 8n+2", 9000, []byte{0, 0, 0x1e, 4, 'o', 'w', 'n', 0}, 0},
		{"removed, 8n", 9000, []byte{0, 1, 1, 4, 0, 0, 0, 0, 0x1e, 6, 'a', 'l', 'i', 'g', 'n', 0}, 0},
		{"behind a trace", 9001, []byte{0, 1, 1, 4, 0, 0, 0, 0, 0x1e, 6, 'a', 'l', 'i', 'g', 'n', 0}, 1},
		{"one of two removed", 9002, []byte{0, 0, 0x1e, 4, 'o', 'w', 'n', 0}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inserted, removed := e2e.Settled(t, l, "athos", "encap_inserted"), e2e.Settled(t, l, "porthos", "options_removed")
			headers := sendDatagrams(t, l, tt.port, unix.IPV6_DSTOPTS, tt.own)
			for _, header := range headers {
				if tt.carries == 0 && !bytes.Equal(header[1:], tt.own[1:]) {
					t.Errorf("arrived with %x, sent with %x", header, tt.own)
				}
				checkDestination(t, header, tt.own, tt.carries)
			}
			sent, wantRemoved := uint64(len(headers)), uint64(len(headers))
			if tt.port == 9001 {
				wantRemoved = 0
			}
			if n := e2e.Settled(t, l, "athos", "encap_inserted") - inserted; n != sent {
				t.Errorf("athos inserted into %d packets of %d", n, sent)
			}
			if n := e2e.Settled(t, l, "porthos", "options_removed") - removed; n != wantRemoved {
				t.Errorf("porthos removed options from %d packets, want %d", n, wantRemoved)
			}
		})
	}
	if n := headerErrors(t, l.Node("beta")); n != 0 {
		t.Errorf("beta refused %d headers", n)
	}
}

// checkDestination checks that a header holds so many Edge-to-Edge options, then the options
// of a socket, and nothing else but padding.
func checkDestination(t *testing.T, header, own []byte, carries int) {
	t.Helper()
	edges, others := 0, []ioam.Option{}
	for option, err := range (ioam.ExtensionHeader{Bytes: header}).Options() {
		switch {
		case err != nil:
			t.Fatalf("%x: %v", header, err)
		case option.IsIOAM() && len(others) == 0:
			edges++
		case !option.Type.IsPadding():
			others = append(others, option)
		}
	}
	for option := range (ioam.ExtensionHeader{Bytes: own}).Options() {
		if option.Type.IsPadding() {
			continue
		}
		if len(others) != 1 || others[0].Type != option.Type || !bytes.Equal(others[0].Data, option.Data) ||
			others[0].Offset%8 != option.Offset%8 {
			t.Errorf("%x has %+v, want %+v", header, others, option)
		}
	}
	if edges != carries {
		t.Errorf("%x has %d Edge-to-Edge options, want %d", header, edges, carries)
	}
}
