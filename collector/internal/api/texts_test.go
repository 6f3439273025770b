// SPDX-License-Identifier: Apache-2.0

package api

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/collector/internal/storetest"
	"github.com/waymark-net/waymark/internal/record"
)

// keysOf collects the keys of a type of an answer, and of those within it, each by the structure that has it.
func keysOf(t reflect.Type, keys map[reflect.Type]map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		keysOf(t.Elem(), keys)
	case reflect.Struct:
		if _, ok := keys[t]; ok || t == instantType || t.Implements(textType) {
			return
		}
		keys[t] = make(map[string]bool)
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Anonymous || f.IsExported() {
				keysOf(f.Type, keys)
			}
			if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key != "" && !f.Anonymous {
				keys[t][key] = true
			}
		}
	}
}

// Every field that an answer has is explained in the document, and every text is that of a field.
func TestTexts(t *testing.T) {
	keys := make(map[reflect.Type]map[string]bool)
	for _, r := range append(routes, liveRoute) {
		if !r.stream {
			keysOf(reflect.TypeOf(r.answer), keys)
		}
		for _, event := range r.events {
			keysOf(reflect.TypeOf(event), keys)
		}
	}
	keysOf(reflect.TypeFor[failure](), keys)

	all := maps.Clone(query.AnswerTexts)
	maps.Copy(all, query.RecordTexts)
	maps.Copy(all, texts)
	if len(all) != len(query.AnswerTexts)+len(query.RecordTexts)+len(texts) {
		t.Error("a structure has texts in two tables")
	}
	for structure, fields := range keys {
		for key := range fields {
			if all[structure][key] == "" {
				t.Errorf("%s: %s has no text", structure, key)
			}
		}
	}
	for structure, fields := range all {
		for key := range fields {
			if !keys[structure][key] {
				t.Errorf("%s: %s has a text, and is in no answer", structure, key)
			}
		}
	}
}

// What a question that took too long can ask for less of is what it can ask about.
func TestAdviceForSlowQuestions(t *testing.T) {
	advice := map[string]string{
		"/v1/paths":  "ask about a shorter time or fewer addresses, or set api.time",
		"/v1/events": "ask about a shorter time or one event or node, or set api.time",
		"/v1/delay":  "ask about a shorter time or one flow, or set api.time",
	}
	for _, r := range routes {
		want := advice[r.path]
		if want == "" {
			continue
		}
		delete(advice, r.path)
		answer := httptest.NewRecorder()
		r.refuse(answer, httptest.NewRequest(http.MethodGet, r.path, nil), query.ErrSlow)
		body := answer.Body.String()
		if answer.Code != http.StatusGatewayTimeout || !strings.Contains(body, `"the question took too long; `+want+`"`) {
			t.Errorf("%s: %d %s", r.path, answer.Code, body)
		}
	}
	if len(advice) > 0 {
		t.Errorf("there is no route of %v", advice)
	}
}

// A question that has not enough time has no answer, and not an empty one.
func TestSlowQuestions(t *testing.T) {
	p := storetest.NewPackets(1, 20, 30, 50, start, time.Millisecond)
	s := serve(t, start.Add(time.Second), []record.Record{p.Next()})
	s.queries.Time = time.Nanosecond
	for range 50 { // its turn may come first, or its end
		code, body := s.ask("/v1/paths", nil, "from", "2026-11-20T00:00:00Z", "until", "2026-11-30T00:00:00Z")
		if code != http.StatusServiceUnavailable && code != http.StatusGatewayTimeout {
			t.Errorf("%d %s", code, body)
		}
	}
}
