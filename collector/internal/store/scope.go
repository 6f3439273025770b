// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/duckdb/duckdb-go/v2"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// Scope is what one tenant may see. A reading with a scope has no other rows: each table that a query names is
// replaced by the part of it that is in the scope, so that no query can leave it. A table of which it is not
// known whose rows it has is empty.
type Scope struct {
	Prefixes   []netip.Prefix // packets whose source or destination is in one of them; none: all addresses
	Namespaces []uint16       // and that have one of these Namespace-IDs; none: all
	Flows      []string       // names of the measured flows that it has
}

type scopeKey struct{}

// Confine makes a context in which readings of the store have only what is in a scope. nil is everything.
func Confine(ctx context.Context, s *Scope) context.Context {
	if s == nil {
		return ctx
	}
	return context.WithValue(ctx, scopeKey{}, s)
}

// ScopeOf is the scope of a context; nil: everything.
func ScopeOf(ctx context.Context) *Scope {
	s, _ := ctx.Value(scopeKey{}).(*Scope)
	return s
}

// rolledUp reports whether rollups have what the scope has: they know namespaces, and no addresses.
func (s *Scope) rolledUp() bool { return s == nil || len(s.Prefixes) == 0 }

// Passes reports whether a record is in the scope.
func (s *Scope) Passes(r record.Record) bool {
	if s == nil {
		return true
	}
	switch r := r.(type) {
	case *record.Path:
		return s.has(r.Namespace, r.Packet.Source, r.Packet.Destination)
	case *record.Trace:
		return s.has(r.Namespace, r.Packet.Source, r.Packet.Destination)
	case *record.Postcard:
		return s.has(r.Namespace, r.Packet.Source, r.Packet.Destination)
	case *record.Flow:
		return s.has(r.Namespace, r.Packet.Source, r.Packet.Destination)
	case *record.EdgeFlow:
		return s.has(r.Namespace, r.Source, r.Destination)
	case *record.Loss:
		return slices.Contains(s.Flows, r.Flow)
	case *record.Delay:
		return slices.Contains(s.Flows, r.Flow)
	case *record.Warning:
		return slices.Contains(s.Flows, r.Flow)
	}
	return false
}

func (s *Scope) has(namespace ioam.NamespaceID, source, destination netip.Addr) bool {
	within := func(a netip.Addr) bool {
		a = a.Unmap()
		return slices.ContainsFunc(s.Prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	return (len(s.Namespaces) == 0 || slices.Contains(s.Namespaces, uint16(namespace))) &&
		(len(s.Prefixes) == 0 || within(source) || within(destination))
}

// of is the part of a file's table that is in the scope, for a FROM clause. Values of a scope come from the
// settings, and are numbers, octets and names of flows.
func (s *Scope) of(f *File, name string) string {
	switch where := s.where(f, name); where {
	case "":
		return f.whole(name)
	default:
		return "(SELECT * FROM " + f.whole(name) + " WHERE " + where + ")"
	}
}

func (s *Scope) where(f *File, name string) string {
	number := func(column, table string) string { return "IN (SELECT " + column + " FROM " + s.of(f, table) + ")" }
	switch name {
	case "about", "progress": // numbers of transactions
		return ""
	case tableKeys:
		if len(s.Prefixes) == 0 {
			return "number " + number("key", tablePackets)
		}
		return s.addresses("source", "destination")
	case tablePackets, tableFlows, tableDelays, tableWays:
		list := []string{s.namespaces()}
		if len(s.Prefixes) > 0 {
			list = append(list, "key "+number("number", tableKeys))
		}
		return all(list)
	case tablePaths:
		list := []string{s.namespaces()}
		if len(s.Prefixes) > 0 {
			list = append(list, "number "+number("path", tablePackets))
		}
		return all(list)
	case tableSegments:
		return all([]string{s.namespaces(), "segment " + number("unnest(segments)", tablePaths)})
	case tableNodes, tableInterfaces:
		// Without an exporter, as from traces, it is not known whose node has the name.
		return "exporter IN (SELECT e FROM (SELECT unnest(exporter) AS e FROM " + s.of(f, tablePaths) + "))"
	case "segment_1m", "segment_1h":
		return s.rollup("segment " + number("number", tableSegments))
	case "path_1m", "path_1h":
		return s.rollup("path " + number("number", tablePaths))
	case "loss", "delay", "block", "warning", "loss_1m", "loss_1h":
		return s.flows()
	}
	return s.recorded(name)
}

// rollup is the condition on a rollup. Its rows have no addresses.
func (s *Scope) rollup(condition string) string {
	if !s.rolledUp() {
		return "false"
	}
	return condition
}

// recorded is the condition on a table of a kind of records.
func (s *Scope) recorded(name string) string {
	has := func(column string) bool {
		return slices.ContainsFunc(tables(), func(t table) bool {
			return t.name == name && slices.ContainsFunc(t.columns, func(c tableColumn) bool { return c.name == column })
		})
	}
	var list []string
	if len(s.Namespaces) > 0 {
		if !has("namespace") {
			return "false"
		}
		list = append(list, s.namespaces())
	}
	if len(s.Prefixes) > 0 {
		from, to := "source", "destination"
		if has("packet_source") {
			from, to = "packet_source", "packet_destination"
		}
		if !has(from) || !has(to) {
			return "false"
		}
		list = append(list, s.addresses(OctetsOf(from), OctetsOf(to)))
	}
	return all(list)
}

func all(conditions []string) string {
	conditions = slices.DeleteFunc(conditions, func(c string) bool { return c == "" })
	return strings.Join(conditions, " AND ")
}

func (s *Scope) namespaces() string {
	if len(s.Namespaces) == 0 {
		return ""
	}
	var list []string
	for _, n := range s.Namespaces {
		list = append(list, strconv.Itoa(int(n)))
	}
	return "namespace IN (" + strings.Join(list, ", ") + ")"
}

func (s *Scope) flows() string {
	var list []string
	for _, name := range s.Flows {
		list = append(list, literal(name))
	}
	if len(list) == 0 {
		return "false"
	}
	return "flow IN (" + strings.Join(list, ", ") + ")"
}

// addresses is the condition that one of two addresses, as 16 octets, is in a prefix.
func (s *Scope) addresses(columns ...string) string {
	var list []string
	for _, p := range s.Prefixes {
		low, high := Bounds(p)
		for _, c := range columns {
			list = append(list, fmt.Sprintf("%s BETWEEN %s AND %s", c, octets(low), octets(high)))
		}
	}
	return "(" + strings.Join(list, " OR ") + ")"
}

// octets is a constant in SQL.
func octets(b []byte) string {
	var text strings.Builder
	for _, octet := range b {
		fmt.Fprintf(&text, `\x%02X`, octet)
	}
	return "'" + text.String() + "'::BLOB"
}

// Bounds are the first and the last address of a prefix, as octets of IPv6: keys have them like this.
func Bounds(p netip.Prefix) (low, high []byte) {
	first := p.Masked().Addr().As16()
	last, bits := first, p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	for i := bits; i < 128; i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	return first[:], last[:]
}

// addressOctets is the function in SQL that reads the text of an address; NULL for another text.
const addressOctets = "octets_of"

// OctetsOf are the octets, in SQL, of an address that a column has as text.
func OctetsOf(column string) string { return addressOctets + "(" + column + ")" }

// addressReader is that function: the database has one only in an extension.
type addressReader struct{ text, octets duckdb.TypeInfo }

func (a *addressReader) Config() duckdb.ScalarFuncConfig {
	return duckdb.ScalarFuncConfig{InputTypeInfos: []duckdb.TypeInfo{a.text}, ResultTypeInfo: a.octets}
}

func (a *addressReader) Executor() duckdb.ScalarFuncExecutor {
	return duckdb.ScalarFuncExecutor{RowExecutor: func(values []driver.Value) (any, error) {
		text, ok := values[0].(string)
		address, err := netip.ParseAddr(text)
		if !ok || err != nil {
			return nil, nil
		}
		b := address.As16()
		return b[:], nil
	}}
}

// addFunctions adds functions to the database.
func addFunctions(ctx context.Context, db *sql.DB) error {
	text, err := duckdb.NewTypeInfo(duckdb.TYPE_VARCHAR)
	if err != nil {
		return err
	}
	blob, err := duckdb.NewTypeInfo(duckdb.TYPE_BLOB)
	if err != nil {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return duckdb.RegisterScalarUDF(conn, addressOctets, &addressReader{text, blob})
}
