// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"net"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/e2e"
)

// tunnelFrom puts an outer header, and optionally a Hop-by-Hop header, in front.
func tunnelFrom(source netip.Addr, header, inner []byte) []byte {
	h := craft.IPv6{Next: craft.IPv6InIPv6, HopLimit: 64, Source: source, Destination: tunnelEnd}
	if header != nil {
		h.Next = craft.HopByHop
	}
	return h.With(header, inner)
}

// traceHeader is a Hop-by-Hop header with an empty trace of namespace 123.
func traceHeader() []byte {
	return craft.Options(craft.IPv6InIPv6, 2, e2e.TraceOption(123, 0xc00000, 0, 6, 24))
}

// onLink is a packet that seems to come from a neighbour: hop limit 255.
func onLink(t *testing.T, source, destination string, next layers.IPProtocol, upper ...gopacket.SerializableLayer) []byte {
	t.Helper()
	ip := &layers.IPv6{Version: 6, NextHeader: next, HopLimit: 255, SrcIP: net.ParseIP(source), DstIP: net.ParseIP(destination)}
	for _, layer := range upper {
		if summed, ok := layer.(interface {
			SetNetworkLayerForChecksum(gopacket.NetworkLayer) error
		}); ok {
			if err := summed.SetNetworkLayerForChecksum(ip); err != nil {
				t.Fatal(err)
			}
		}
	}
	buffer := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buffer, options, append([]gopacket.SerializableLayer{ip}, upper...)...); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func advertised(t *testing.T, kind uint8, body gopacket.SerializableLayer) []byte {
	t.Helper()
	head := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(kind, 0)}
	return onLink(t, "fe80::bad", "ff02::1", layers.IPProtocolICMPv6, head, body)
}

// neighbourAdvertisement claims another link-layer address for athos.
func neighbourAdvertisement(t *testing.T) []byte {
	return advertised(t, layers.ICMPv6TypeNeighborAdvertisement, &layers.ICMPv6NeighborAdvertisement{
		Flags: 0xa0, TargetAddress: athosInner.AsSlice(), // router, override
		Options: layers.ICMPv6Options{{Type: layers.ICMPv6OptTargetAddress, Data: falseRoute}},
	})
}

// routerAdvertisement announces a router, a prefix and a small MTU.
func routerAdvertisement(t *testing.T) []byte {
	prefix := append([]byte{64, 0xc0, 0, 0, 0x0e, 0x10, 0, 0, 0x0e, 0x10, 0, 0, 0, 0}, net.ParseIP("2001:db8:bad::")...)
	return advertised(t, layers.ICMPv6TypeRouterAdvertisement, &layers.ICMPv6RouterAdvertisement{
		HopLimit: 64, RouterLifetime: 1800,
		Options: layers.ICMPv6Options{
			{Type: layers.ICMPv6OptSourceAddress, Data: falseRoute},
			{Type: layers.ICMPv6OptMTU, Data: []byte{0, 0, 0, 0, 0x05, 0x00}},
			{Type: layers.ICMPv6OptPrefixInfo, Data: prefix},
		},
	})
}

// redirect names another next hop to the users' network.
func redirect(t *testing.T) []byte {
	return advertised(t, layers.ICMPv6TypeRedirect, &layers.ICMPv6Redirect{
		TargetAddress: net.ParseIP("fe80::bad"), DestinationAddress: e2e.LeftAddress.AsSlice(),
	})
}

func linkDatagram(t *testing.T) []byte {
	return onLink(
		t,
		e2e.LeftAddress.String(),
		e2e.RightAddress.String(),
		layers.IPProtocolUDP,
		&layers.UDP{SrcPort: 4242, DstPort: 9},
		gopacket.Payload("waymark"),
	)
}
