// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/access"
	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/internal/record"
)

// Packets are selected by the segment that they passed, and by the nodes at which they began and ended: in paths, with
// their series, and one by one; with a condition, too.
func TestPassing(t *testing.T) {
	list := steadily(start, 100) // over node 2, then over node 4
	for i, r := range list {
		if p := r.(*record.Path); i%10 == 0 { // lost after the node in the middle
			p.Nodes, p.Verdict, p.Reason, p.Delay, p.Complete = p.Nodes[:2], record.PathLost, record.PathNotSeenFurther, nil, false
		}
	}
	s := serve(t, start, list)
	var all query.Paths
	s.ask("/v1/paths", &all, "from", start.Format(time.RFC3339), "until", start.Add(time.Hour).Format(time.RFC3339))
	var segment string
	for _, p := range all.Paths {
		if p.Complete && p.Hops[1].Node.ID != nil && *p.Hops[1].Node.ID == 4 {
			segment = fmt.Sprintf("%016x", uint64(p.Hops[1].Segment))
		}
	}
	hour := []string{"from", start.Format(time.RFC3339), "until", start.Add(time.Hour).Format(time.RFC3339)}
	for _, one := range []struct {
		asked string
		want  int
	}{
		{"segment " + segment, 45}, {"from_node_id 1", 100}, {"to_node_id 9", 90}, {"from_node_id 1 to_node_id 4", 5},
		{"from_node_id 2", 0}, {"segment " + segment + " where delay_ns>0", 45}, {"to_node_id 9 where packet.length>0", 90},
		{"segment 0000000000000001", 0}, {"to_node_id 9 destination_port 444", 0},
	} {
		asked := append(strings.Fields(one.asked), hour...)
		var packets query.Packets
		s.ask("/v1/packets", &packets, append(asked, "limit", "1000")...)
		var paths query.Paths
		s.ask("/v1/paths", &paths, append(asked, "buckets", "10")...)
		series := uint64(0)
		for _, p := range paths.Paths {
			for _, at := range p.Series {
				series += at.Packets
			}
		}
		if len(packets.Packets) != one.want || paths.Packets != uint64(one.want) || series != uint64(one.want) {
			t.Errorf("%s: %d packets, %d on paths, %d in series; want %d", one.asked, len(packets.Packets), paths.Packets, series, one.want)
		}
	}
	for name, value := range map[string]string{"segment": "xyz", "from_node_id": "72057594037927936"} {
		if code, body := s.ask("/v1/packets", nil, name, value); code != http.StatusBadRequest || !strings.Contains(body, name) {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
}

// The API says who asks, and what they may do.
func TestSession(t *testing.T) {
	s := serve(t, start)
	var who Caller
	if s.ask("/v1/session", &who); who != (Caller{Role: "admin"}) {
		t.Errorf("without users: %+v", who)
	}
	file := filepath.Join(t.TempDir(), "web.yaml")
	const hash = "$2a$04$sdppUcmmSapMiPhj5srq8O14y/.gnAlnB5i.lZ4BY5QKcMMg.E.bC" // of "password"
	if err := os.WriteFile(file, []byte("basic_auth_users: {alice: "+hash+", bob: "+hash+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	guard, err := access.New(access.Config{
		Address: "[::1]:0", Web: file, Roles: []access.Role{{Admin: true, Users: []string{"alice"}}, {Users: []string{"bob"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	q := &query.Queries{Time: time.Minute, AtOnce: 1}
	q.Begin()
	handler := guarded(guard, Handler(q))
	for user, want := range map[string]string{"alice": `"user":"alice","role":"admin"`, "bob": `"user":"bob","role":"viewer"`} {
		request := httptest.NewRequest(http.MethodGet, "http://[::1]/v1/session", nil)
		request.SetBasicAuth(user, "password")
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		text := strings.NewReplacer(" ", "", "\n", "").Replace(answer.Body.String())
		if answer.Code != http.StatusOK || !strings.Contains(text, want) || !strings.Contains(text, `"login":false`) {
			t.Errorf("%s: %d %s", user, answer.Code, text)
		}
	}
}
