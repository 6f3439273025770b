// SPDX-License-Identifier: Apache-2.0

package report

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/eventlog"
	"github.com/waymark-net/waymark/internal/sink"
)

// Members of node.read-group leave places to root, of all that is bounded.
func TestMembersLeavePlaces(t *testing.T) {
	h := newHistoryHarness(t, agenttest.BaseConfig)
	h.Start()
	request := func(path string) *http.Request { return httptest.NewRequest(http.MethodGet, path, nil) }
	asMember := func(handle func(http.ResponseWriter, *http.Request) error, path string) string {
		r := request(path)
		if err := handle(httptest.NewRecorder(), r.WithContext(service.ForMember(r.Context()))); err != nil {
			return err.Error()
		}
		return ""
	}
	refused := func(what, why, want string) {
		t.Helper()
		if !strings.Contains(why, want+" for members of node.read-group") {
			t.Errorf("%s: %q", what, why)
		}
	}
	const port80, port443 = "/v1/history?live=true&port=80", "/v1/history?live=true&port=443"
	if why := asMember(h.history.getReport, port80); why != "" {
		t.Error(why)
	}
	refused("a second filter", asMember(h.history.getReport, port443), "1 filters are looked through, the maximum")
	if err := h.history.getReport(httptest.NewRecorder(), request(port443)); err != nil {
		t.Error("of root:", err)
	}
	if why := asMember(h.history.getReport, port80); why != "" {
		t.Error("its own filter again:", why)
	}

	for range 48 {
		defer h.records.stream.Observe(sink.Filters{}, nil).Close()
	}
	refused("an observer", asMember(h.records.getRecords, "/v1/records"), "48 observers are connected, the maximum")
	for range 12 {
		if _, _, err := h.history.follow(request("/v1/history/intervals")); err != nil {
			t.Fatal(err)
		}
		if _, _, _, ok := h.events.log.Follow(time.Now(), eventlog.MostFollowers); !ok {
			t.Fatal("too few follow")
		}
	}
	refused("intervals", asMember(h.history.getIntervals, "/v1/history/intervals?follow=true"), "12 clients follow the history, the maximum")
	refused("events", asMember(h.events.getEvents, "/v1/events?follow=true"), "12 clients follow the events, the maximum")
	if _, _, err := h.history.follow(request("/v1/history/intervals")); err != nil {
		t.Error("of root:", err)
	}
}
