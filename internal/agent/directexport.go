// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/netip"
	"slices"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// inserts reports whether a rule inserts a Direct Export of a kind.
func inserts(e model.Encapsulation, kind func(*model.DirectExportOption) bool) bool {
	return slices.ContainsFunc(e.Options, func(o model.InsertedOption) bool {
		return o.DirectExport != nil && kind(o.DirectExport)
	})
}

// unjoined reports whether an option numbers packets without identifying their flow.
func unjoined(d *model.DirectExportOption) bool {
	return d.ExtensionFlags&ioam.ExtensionSequence != 0 && d.ExtensionFlags&ioam.ExtensionFlowID == 0
}

// maybeExports reports whether a rule inserts Direct Exports into packets that may be
// exports themselves.
func maybeExports(e model.Encapsulation) bool {
	next := e.Match.NextHeader
	whichever := func(*model.DirectExportOption) bool { return true }
	return inserts(e, whichever) && (next == nil || *next == ioam.NextHeaderUDP || *next == ioam.NextHeaderTCP)
}

// unselective reports whether a rule inserts a Direct Export into every packet to a
// prefix, and the node makes a postcard of each.
func unselective(node model.NodeConfig, e model.Encapsulation) bool {
	named := e.Match
	if named.Destination.IsSingleIP() || e.Flows > 1 || e.Frequency.K != e.Frequency.N {
		return false
	}
	named.Destination = netip.Prefix{}
	if named.Source.Bits() == 0 {
		named.Source = netip.Prefix{} // any
	}
	return named == (model.Match{}) && inserts(e, func(d *model.DirectExportOption) bool {
		return slices.ContainsFunc(
			node.Namespaces,
			func(ns model.Namespace) bool { return ns.ID == d.Namespace && ns.Export == model.ExportEvery },
		)
	})
}

// unsecured lists the collectors on other hosts that receive records without TLS.
func (h *nodeHealth) unsecured(sinks []config.Sink, isOwn func(netip.Addr) bool) (list []string) {
	for i := range sinks {
		if to := sinks[i].Remote(); to != nil && to.Clear && !h.isHere(to.Host, isOwn) {
			list = append(list, to.Text)
		}
	}
	return list
}

// isHere reports whether all addresses of a host, given by address or name, are this
// node's own.
func (h *nodeHealth) isHere(host string, isOwn func(netip.Addr) bool) bool {
	var addresses []netip.Addr
	if literal, err := netip.ParseAddr(host); err == nil {
		addresses = append(addresses, literal.WithZone(""))
	} else {
		addresses = h.names.addresses(host)
	}
	elsewhere := func(ip netip.Addr) bool {
		return !ip.IsLoopback() && !isOwn(ip)
	}
	return len(addresses) > 0 && !slices.ContainsFunc(addresses, elsewhere)
}

// unsparedWarnings are about collectors whose addresses are not all known, where rules
// may insert Direct Exports into packets to them.
func unsparedWarnings(r config.Resolved) (ws []health.Warning) {
	if !slices.ContainsFunc(r.Node.Encapsulations, maybeExports) {
		return nil
	}
	for _, u := range r.Unspared {
		ws = append(ws, health.CollectorUnspared(u.Collector, u.Cause))
	}
	return ws
}
