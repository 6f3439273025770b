// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/collector/internal/storetest"
	"github.com/waymark-net/waymark/internal/patience"
)

// All answers stay the same when a file is packed, for all users and for one of a tenant.
func TestPackedAnswers(t *testing.T) {
	var now atomic.Int64
	now.Store(start.UnixNano())
	o := store.Options{Directory: t.TempDir(), Unpacked: true, Quiet: 1, Now: func() time.Time { return time.Unix(0, now.Load()).UTC() }}
	s, err := store.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	list := ofTenants()
	p := storetest.NewPackets(1, 20, 30, 50, start.Add(time.Microsecond), 100*time.Millisecond)
	for range 1500 {
		list = append(list, p.Next())
	}
	for _, part := range [][]int{{0, 700}, {700, len(list)}} {
		if err := s.Write(t.Context(), list[part[0]:part[1]]); err != nil {
			t.Fatal(err)
		}
		now.Add(int64(time.Minute))
		s.Tend(t.Context()) // the minutes have several rows in rollups
	}
	now.Add(int64(2 * time.Hour))
	s.Tend(t.Context())
	for end := time.Now().Add(patience.Of(10 * time.Second)); s.Files()[0].State != store.Closed; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the file is not closed")
		}
	}
	scope := &store.Scope{Flows: []string{tenants[0].measured}}
	scope.Prefixes = append(scope.Prefixes, netip.PrefixFrom(storetest.Source(tenants[0].flow), 64))
	users := []*served{asTenant(t, s, nil), asTenant(t, s, scope)}
	answers := func() (bodies []string) {
		for _, user := range users {
			for i := range routes {
				_, body := user.ask(routes[i].path, nil, asked(&routes[i])...)
				if routes[i].path == "/v1/packets" { // the order of those of the same time is any
					parts := strings.Split(body, `{"time":`)
					parts[len(parts)-1] = strings.TrimSuffix(strings.TrimSpace(parts[len(parts)-1]), "]}") + ","
					slices.Sort(parts)
					body = strings.Join(parts, "\n")
				}
				bodies = append(bodies, body)
			}
		}
		return bodies
	}
	before := answers()
	if err := s.Pack(t.Context()); err != nil || !s.Files()[0].Packed {
		t.Fatal(err)
	}
	after := answers()
	for i := range before {
		path := routes[i%len(routes)].path
		if path != "/v1/health" && before[i] != after[i] { // that says what is packed
			t.Errorf("%s, user %d: %s\nbefore %s", path, i/len(routes), after[i], before[i])
		}
	}
	if !slices.ContainsFunc(before, func(body string) bool { return strings.Contains(body, `"flow_id"`) }) {
		t.Error("no packet is in an answer, so that the test proves nothing")
	}
}
