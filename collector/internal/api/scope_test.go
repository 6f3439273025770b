// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/access"
	"github.com/waymark-net/waymark/collector/internal/live"
	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/collector/internal/storetest"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// tenants are two customers: each has flows of its own, over nodes of its own, and one measured flow. Marks are what
// answers about one of them have, and what no answer to the other one may have.
var tenants = []struct {
	flow, namespace int
	nodes           []int
	measured        string
	marks           []string
}{
	{1, 11, []int{1, 2, 3}, "gold", []string{storetest.Source(1).String(), `"nodeb"`, `"gold"`, storetest.Exporter(2).String(), "eth-1"}},
	{250, 22, []int{7, 8, 9}, "silver", []string{storetest.Source(250).String(), `"nodeh"`, `"silver"`, storetest.Exporter(8).String(),
		"eth-250"}},
}

// ofTenants are records of both: packets of which some move to another path and some are lost, losses, edge flows.
func ofTenants() (list []record.Record) {
	p := storetest.NewPackets(1, 20, 1, 300, start.Truncate(time.Minute), 100*time.Millisecond)
	for i := range 600 {
		for _, who := range tenants {
			nodes := who.nodes
			if i >= 300 {
				nodes = []int{nodes[0], nodes[1], nodes[2] + 10, nodes[2]}
			}
			one := p.Of(who.flow, nodes, i%50 == 7)
			one.Namespace = ioam.NamespaceID(who.namespace)
			for k := range one.Nodes {
				one.Nodes[k].Ingress = "eth-" + strings.TrimPrefix(who.marks[4], "eth-")
			}
			list = append(list, one)
		}
	}
	for _, who := range tenants {
		// A trace whose nodes have the ids of the other one's, and names of their own.
		trace := carried(start, ioam.NamespaceID(who.namespace), false)
		trace.Packet.Source, trace.Packet.Destination = storetest.Source(who.flow), storetest.Destination(who.flow)
		for k := range trace.Nodes {
			n := &trace.Nodes[k]
			n.NodeID = record.NewField(ioam.NodeID(50+k), true)
			n.NodeName, n.IngressName, n.EgressName = strings.Trim(who.marks[1], `"`), who.marks[4], who.marks[4]
		}
		list = append(list, trace)
		for i := range 10 {
			m := record.Measurement{
				Time:   instant.Of(start),
				Flow:   who.measured,
				FlowID: loss.FlowID(who.flow),
				Scope:  record.WholeWay,
				From:   1,
				To:     2,
				Start:  instant.Of(start.Add(time.Duration(i) * time.Second)),
			}
			list = append(
				list,
				&record.Loss{Measurement: m, Verdict: loss.Measured, Sent: record.NewField(uint64(100), true), Lost: record.NewField(uint64(i), true)},
			)
		}
		list = append(
			list,
			&record.EdgeFlow{
				Time:        instant.Of(start),
				Node:        strings.Trim(who.marks[1], `"`),
				Namespace:   ioam.NamespaceID(who.namespace),
				Source:      storetest.Source(who.flow),
				Destination: storetest.Destination(who.flow),
				Packets:     7,
			},
			&record.Warning{Time: instant.Of(start), Code: "flow_loss_high", Flow: who.measured, Beyond: true, Facts: "it loses packets"},
		)
		list = append(list, aboutFlows(who.flow, who.namespace, strings.Trim(who.marks[1], `"`), who.measured)...)
	}
	return list
}

// namesOfTenants are those of the nodes of both, whose interfaces are called as those of their packets.
func namesOfTenants() (list []nodenames.Node) {
	for _, who := range tenants {
		for _, id := range who.nodes {
			i := nodenames.Interface{ID: 1, IDWide: ioam.InterfaceIDWideUnavailable, Name: who.marks[4], Description: "to " + who.measured}
			list = append(list, nodenames.Node{
				ID: ioam.NodeID(id), IDWide: ioam.NodeIDWideUnavailable, Name: "node" + string(rune('a'+id%26)), Interfaces: []nodenames.Interface{i},
			})
		}
	}
	return list
}

// otherNode is a node with a wide id, and the name of somebody else.
func otherNode(id uint64, name string) nodenames.Node {
	return nodenames.Node{ID: ioam.NodeIDUnavailable, IDWide: ioam.NodeIDWide(id), Name: name}
}

// A wide id is not the same number of 24 bits, and no wide id is not the number that says so.
func TestNamesOfOtherWidth(t *testing.T) {
	s, err := store.New(t.Context(), store.Options{Directory: t.TempDir(), Now: func() time.Time { return start }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	list := ofTenants()
	list[0].(*record.Path).Nodes[2].NodeData.NodeID.Valid = false
	list[0].(*record.Path).Nodes[2].NodeData.NodeIDWide = record.NewField(ioam.NodeIDWide(ioam.NodeIDUnavailable), true)
	if err := s.Write(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	q := &query.Queries{Store: s, Time: time.Minute, AtOnce: 4, Names: func() []nodenames.Node {
		return append(namesOfTenants(), otherNode(1, "secret"), otherNode(2, "nodec"), otherNode(12345, "secret"))
	}}
	q.Begin()
	scope := &store.Scope{Prefixes: []netip.Prefix{netip.PrefixFrom(storetest.Source(tenants[0].flow), 64)}}
	ask := query.NamesQuestion{Range: query.Range{From: start.Add(-time.Hour), Until: start.Add(time.Hour)}, Limit: 100}
	got, err := q.NamesOf(store.Confine(t.Context(), scope), ask)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range got.Nodes {
		names = append(names, n.Name)
	}
	if text := strings.Join(names, " "); text != "nodec noded nodec" {
		t.Error(text)
	}
}

// asTenant serves both tenants' records to somebody with a scope; nil: to one who sees everything.
func asTenant(t *testing.T, s *store.Store, scope *store.Scope) *served {
	q := &query.Queries{
		Store: s, Time: time.Minute, AtOnce: 4, Settings: map[string]string{"secret": "of the operator"}, Names: namesOfTenants,
	}
	q.Begin()
	handler := Handler(q, func(g *metrics.Gatherer) {})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(store.Confine(r.Context(), scope)))
	}))
	t.Cleanup(server.Close)
	return &served{t, nil, server}
}

// asked are the parameters with which a route answers about packets; a route that needs others has them here.
func asked(r *route) []string {
	var list []string
	for _, p := range r.parameters {
		switch p.name {
		case "from", "until":
			list = append(list, p.name, all[slices.Index(all, p.name)+1])
		case "least":
			list = append(list, "least", "1")
		case "limit":
			list = append(list, "limit", "1000")
		case "step":
			list = append(list, "step", "1m")
		case "compare":
			list = append(list, "compare", "1m")
		}
	}
	return list
}

// aboutNobody are routes whose answers have nothing of single tenants.
var aboutNobody = []string{"/v1/health", sessionRoute.path}

// No request gets a tenant what is another's: each route, present and future, is asked for everything, with each way
// in which a role can be confined, and of a file that is written and one that is closed.
func TestScope(t *testing.T) {
	s, err := store.New(t.Context(), store.Options{Directory: t.TempDir(), Now: func() time.Time { return start }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Write(t.Context(), ofTenants()); err != nil {
		t.Fatal(err)
	}
	whole := asTenant(t, s, nil)
	for i := range routes {
		r := &routes[i]
		_, body := whole.ask(r.path, nil, asked(r)...)
		for k, who := range tenants {
			seen := slices.ContainsFunc(who.marks, func(mark string) bool { return strings.Contains(body, mark) })
			if !seen && !slices.Contains(aboutNobody, r.path) {
				t.Fatalf("%s has nothing of tenant %d without a scope, so that the test proves nothing: %s", r.path, k, body)
			}
		}
		for k, who := range tenants {
			other := tenants[1-k]
			for name, scope := range map[string]*store.Scope{
				"prefixes":   {Prefixes: []netip.Prefix{netip.PrefixFrom(storetest.Source(who.flow), 64)}, Flows: []string{who.measured}},
				"namespaces": {Namespaces: []uint16{uint16(who.namespace)}, Flows: []string{who.measured}},
				"both":       {Prefixes: []netip.Prefix{netip.PrefixFrom(storetest.Destination(who.flow), 128)}, Namespaces: []uint16{uint16(who.namespace)}, Flows: []string{who.measured, "LOW'; PART"}},
			} {
				mine := asTenant(t, s, scope)
				code, body := mine.ask(r.path, nil, asked(r)...)
				if code != http.StatusOK {
					t.Errorf("%s with %s: %d %s", r.path, name, code, body)
				}
				if name == "both" && !slices.Contains(aboutNobody, r.path) {
					_, csv := mine.ask(r.path, nil, append(asked(r), formatName, "csv")...)
					if body += csv; csv == "" {
						t.Errorf("%s: no CSV", r.path)
					}
				}
				if seen := slices.ContainsFunc(who.marks, func(mark string) bool { return strings.Contains(body, mark) }); !seen &&
					!slices.Contains(aboutNobody, r.path) {
					t.Errorf("%s with %s: tenant %d does not see its own: %s", r.path, name, k, body)
				}
				if slices.ContainsFunc(r.parameters, func(p parameter) bool { return p.name == "source" }) { // nor by asking for the other's
					_, theirs := mine.ask(r.path, nil, append(asked(r), "source", storetest.Source(other.flow).String())...)
					body += theirs
				}
				for _, mark := range append(other.marks, s.Directory()) {
					if strings.Contains(body, mark) {
						t.Errorf("%s with %s: tenant %d sees %s, which is not its own: %s", r.path, name, k, mark, body)
					}
				}
			}
		}
	}
	// One with both of another's: a prefix of one and a namespace of the other select nothing.
	none := asTenant(
		t,
		s,
		&store.Scope{
			Prefixes:   []netip.Prefix{netip.PrefixFrom(storetest.Source(tenants[0].flow), 64)},
			Namespaces: []uint16{uint16(tenants[1].namespace)},
		},
	)
	for i := range routes {
		_, body := none.ask(routes[i].path, nil, asked(&routes[i])...)
		for _, mark := range slices.Concat(tenants[0].marks, tenants[1].marks) {
			if strings.Contains(body, mark) {
				t.Errorf("%s: %s is in %s", routes[i].path, mark, body)
			}
		}
	}
}

// Sums over what a tenant sees are those of its packets, and not of the rollups, which have all.
func TestScopeSums(t *testing.T) {
	s, err := store.New(t.Context(), store.Options{Directory: t.TempDir(), Now: func() time.Time { return start }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p := storetest.NewPackets(1, 20, 1, 300, start, 100*time.Millisecond)
	var list []record.Record
	for i := range 900 { // three customers over the same nodes
		list = append(list, p.Of([]int{1, 120, 250}[i%3], []int{1, 2, 3}, i%3 == 0 && i%2 == 0))
	}
	if err := s.Write(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		scope              *store.Scope
		packets, lost, all int
	}{
		"everything":    {nil, 900, 150, 900},
		"one customer":  {&store.Scope{Prefixes: []netip.Prefix{netip.PrefixFrom(storetest.Source(1), 48)}}, 300, 150, 300},
		"two customers": {&store.Scope{Prefixes: []netip.Prefix{netip.PrefixFrom(storetest.Source(120), 48), netip.PrefixFrom(storetest.Destination(250), 48)}}, 600, 0, 600},
		"nobody":        {&store.Scope{Prefixes: []netip.Prefix{netip.MustParsePrefix("2001:db9::/32")}}, 0, 0, 0},
	} {
		mine := asTenant(t, s, want.scope)
		var grid query.Grid
		mine.ask("/v1/grid", &grid, all...)
		packets, lost := 0, 0
		for _, pair := range grid.Pairs {
			packets, lost = packets+int(pair.Packets), lost+int(pair.Lost)
		}
		var segments query.Segments
		mine.ask("/v1/segments", &segments, append(all, "order", "packets")...)
		first := 0
		for _, one := range segments.Segments {
			if *one.From.ID == 1 {
				first += int(one.Packets)
			}
		}
		var paths query.Paths
		mine.ask("/v1/paths", &paths, all...)
		if packets != want.packets || lost != want.lost || first != want.all || int(paths.Packets) != want.packets {
			t.Errorf(
				"%s: %d packets in the grid, %d lost, %d at the first node, %d on paths; want %+v",
				name,
				packets,
				lost,
				first,
				paths.Packets,
				want,
			)
		}
		// What somebody asks for is within the scope, whatever it is.
		if mine.ask("/v1/paths", &paths, append(all, "source", "::/0")...); int(paths.Packets) != want.packets {
			t.Errorf("%s: with ::/0, %d packets", name, paths.Packets)
		}
		mine.ask("/v1/grid", &grid, append(all, "source", "::/0")...)
		for _, pair := range grid.Pairs {
			packets -= int(pair.Packets)
		}
		if packets != 0 {
			t.Errorf("%s: with ::/0, %+v", name, grid.Pairs)
		}
	}
}

// A role with a scope reaches the requests of the table and nothing else, and a viewer not those of admins.
func TestPathsOfRoles(t *testing.T) {
	paths := Paths(Handler(&query.Queries{Hub: live.New(), Settings: 1}))
	for _, path := range []string{"/metrics", settingsPath, documentPath, liveRoute.path, "/v1/paths", "/v1/tomorrow"} {
		if paths.Pages(httptest.NewRequest(http.MethodGet, path, nil)) {
			t.Errorf("%s counts as a page without data", path)
		}
	}
	if !paths.Pages(httptest.NewRequest(http.MethodGet, "/", nil)) {
		t.Error("the console's page is none")
	}
	for _, r := range routes {
		if !slices.Contains(paths.Scoped, r.path) {
			t.Errorf("%s is refused to roles with a scope", r.path)
		}
	}
	tested := []string{documentPath, liveRoute.path}
	for _, path := range paths.Scoped {
		if !slices.Contains(tested, path) && !slices.ContainsFunc(routes, func(r route) bool { return r.path == path }) {
			t.Errorf("%s is for roles with a scope, and no test asks it as a tenant", path)
		}
	}
	if !slices.Contains(paths.Admin, settingsPath) {
		t.Error("viewers see the settings")
	}
}

// Names are bounded, and a role with a scope learns nothing of interfaces, which are named after others.
func TestNames(t *testing.T) {
	s, err := store.New(t.Context(), store.Options{Directory: t.TempDir(), Now: func() time.Time { return start }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Write(t.Context(), ofTenants()); err != nil {
		t.Fatal(err)
	}
	var whole, cut, mine, today query.Names
	asTenant(t, s, nil).ask("/v1/names", &whole)
	if len(whole.Nodes) != 6 || whole.Cut != nil || *whole.Nodes[0].ID != 1 || whole.Nodes[0].IDWide != nil ||
		whole.Nodes[0].Name != "nodeb" ||
		len(whole.Nodes[0].Interfaces) != 1 || whole.Nodes[0].Interfaces[0].Name != "eth-1" || *whole.Nodes[0].Interfaces[0].ID != 1 {
		t.Errorf("%+v", whole)
	}
	asTenant(t, s, nil).ask("/v1/names", &cut, "limit", "2")
	if len(cut.Nodes) != 2 || cut.Cut == nil {
		t.Errorf("%+v", cut)
	}
	scope := &store.Scope{Prefixes: []netip.Prefix{netip.PrefixFrom(storetest.Source(tenants[0].flow), 64)}}
	asTenant(t, s, scope).ask("/v1/names", &mine, all...)
	if len(mine.Nodes) != 3 || slices.ContainsFunc(mine.Nodes, func(n query.NodeNames) bool { return len(n.Interfaces) > 0 }) {
		t.Errorf("%+v", mine)
	}
	asTenant(t, s, scope).ask("/v1/names", &today, "from", "2000-01-01T00:00:00Z", "until", "2000-01-02T00:00:00Z")
	if len(today.Nodes) != 0 {
		t.Errorf("%+v", today)
	}
}

// The live stream has what is in the scope, of the last minute and of what comes.
func TestScopeLive(t *testing.T) {
	kept, err := store.New(t.Context(), store.Options{Directory: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kept.Close() })
	hub := live.New()
	go hub.Run(t.Context())
	who, other := tenants[0], tenants[1]
	scope := &store.Scope{Prefixes: []netip.Prefix{netip.PrefixFrom(storetest.Source(who.flow), 64)}, Flows: []string{who.measured}}
	q := &query.Queries{Store: kept, Time: time.Minute, AtOnce: 4, Hub: hub}
	q.Begin()
	handler := Handler(q)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(store.Confine(r.Context(), scope)))
	}))
	t.Cleanup(server.Close) // after the stream is closed
	list := ofTenants()
	hub.Publish(list[:50])
	s := &served{t, nil, server}
	next := s.watch("rate=5000", "")
	if name, _, data := next(); name != "begin" || !strings.Contains(data, `"missed":0`) {
		t.Fatal(name, data)
	}
	hub.Publish(list[50:100])
	hub.Publish(list[len(list)-40:]) // losses too
	kinds := map[string]int{}
	for kinds["path"] < 25 || kinds["loss"] < 10 {
		name, _, data := next()
		kinds[name]++
		for _, mark := range other.marks {
			if strings.Contains(data, mark) {
				t.Fatalf("%s has %s, which is another's: %s", name, mark, data)
			}
		}
	}
}

// Names from the network are data in every answer: no markup, no escape sequence.
func TestHostileNames(t *testing.T) {
	const hostile = "</script><img src=x onerror=alert(1)>\x1b]0;owned\x07\u202e"
	p := storetest.NewPackets(1, 20, 1, 300, start, time.Second)
	var list []record.Record
	for range 10 {
		one := p.Of(1, []int{1, 2, 3}, false)
		for i := range one.Nodes {
			one.Nodes[i].Node, one.Nodes[i].Ingress = hostile, hostile
		}
		list = append(list, one)
	}
	m := record.Measurement{
		Time:   instant.Of(start),
		Flow:   hostile,
		FlowID: 1,
		Scope:  record.WholeWay,
		From:   1,
		To:     2,
		Start:  instant.Of(start),
	}
	list = append(list, &record.Loss{Measurement: m, Verdict: loss.Measured, Sent: record.NewField(uint64(100), true)},
		&record.EdgeFlow{Time: instant.Of(start), Node: hostile, Source: storetest.Source(1), Destination: storetest.Destination(1), Packets: 7})
	list = append(list, aboutFlows(1, 1, hostile, hostile)...)
	s := serve(t, start, list)
	for i := range routes {
		v := url.Values{}
		parameters := asked(&routes[i])
		for k := 0; k < len(parameters); k += 2 {
			v.Add(parameters[k], parameters[k+1])
		}
		response, err := http.Get(s.URL + routes[i].path + "?" + v.Encode())
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		_, err = b.ReadFrom(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || !json.Valid(b.Bytes()) {
			t.Fatalf("%s: %s %v %s", routes[i].path, response.Status, err, b.String())
		}
		if strings.ContainsAny(b.String(), "<>\x1b\x07") {
			t.Errorf("%s: %s", routes[i].path, b.String())
		}
		h := response.Header
		if h.Get("Content-Type") != "application/json" || h.Get("X-Content-Type-Options") != "nosniff" ||
			!strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %v", routes[i].path, h)
		}
	}
	guard, err := access.Open("192.0.2.1:80")
	if err == nil || !strings.Contains(err.Error(), "needs TLS and users") {
		t.Errorf("%v, %v", guard, err)
	}
}
