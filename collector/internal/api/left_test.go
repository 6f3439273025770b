// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/collector/internal/storetest"
	"github.com/waymark-net/waymark/internal/patience"
)

// A time of which files have left is a gap in answers, also in what they are compared with, and commands say so. Somebody
// with a scope learns it without what concerns others.
func TestOlderFilesLeft(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	now.Store(start.UnixNano())
	s, err := store.New(t.Context(), store.Options{
		Directory: t.TempDir(), Quiet: 1, Unpacked: true, Bytes: 1, Now: func() time.Time { return time.Unix(0, now.Load()).UTC() },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Write(t.Context(), ofTenants()); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience.Of(10 * time.Second)); s.Removed()["size"] == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the file has not left")
		}
		now.Add(time.Minute.Nanoseconds())
		s.Tend(t.Context())
	}
	if err := s.Write(t.Context(), ofTenants()); err != nil { // what is compared
		t.Fatal(err)
	}
	kept := s.Files()[0].Opened
	scope := &store.Scope{Prefixes: []netip.Prefix{netip.PrefixFrom(storetest.Source(tenants[0].flow), 64)}}
	minute := kept.Truncate(time.Minute)
	from, until := minute.Add(-time.Hour), minute.Add(time.Hour)
	for _, who := range []struct {
		scope  *store.Scope
		reason string
	}{{nil, "older files have left (store.age, store.size or the disk)"}, {scope, "older records are not kept any more"}} {
		served := asTenant(t, s, who.scope)
		for path, compare := range map[string]string{
			"/v1/paths": "48h", "/v1/segments": "48h", "/v1/grid": "48h", "/v1/loss": "48h", "/v1/packets": "", "/v1/changes": "", "/v1/flows": "",
		} {
			var a struct {
				query.Answer
				Before query.Answer `json:"before"`
			}
			ask := []string{"from", from.Format(time.RFC3339Nano), "until", until.Format(time.RFC3339Nano)}
			if compare != "" {
				ask = append(ask, "compare", compare)
			}
			served.ask(path, &a, ask...)
			gaps := append(a.Gaps, a.Before.Gaps...)
			if len(gaps) == 0 || gaps[0].Reason != who.reason || !gaps[0].From.Equal(from) || !gaps[0].Until.Equal(kept) {
				t.Errorf("%s: %+v, want %s until %v", path, gaps, who.reason, kept)
			}
			if compare == "" || path == "/v1/loss" && who.scope != nil { // which has no measured flow to compare
				continue
			}
			if last := gaps[len(gaps)-1]; last.Reason != who.reason || !last.Until.Equal(until.Add(-48*time.Hour)) {
				t.Errorf("%s, compared: %+v", path, gaps)
			}
		}
		_, notes, err := commanded(t, served.URL, "path --since "+from.Format(time.RFC3339)+" --until "+until.Format(time.RFC3339))
		if err != nil || !strings.Contains(strings.Join(strings.Fields(notes), " "), "something is missing here: "+who.reason) {
			t.Errorf("%q %v", notes, err)
		}
	}
}
