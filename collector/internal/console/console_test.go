// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func ask(t *testing.T, method, address string, headers ...string) *http.Response {
	t.Helper()
	c, err := New(http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequest(method, address, nil)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, request)
	return w.Result()
}

func read(t *testing.T, r *http.Response) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := b.ReadFrom(r.Body); err != nil {
		t.Fatal(err)
	}
	if r.Header.Get("Content-Encoding") == "gzip" {
		return string(unpacked(b.Bytes()))
	}
	return b.String()
}

// The page has nothing inline, and what it names is there, compressed, and for ever the same.
func TestPageAndAssets(t *testing.T) {
	for _, path := range []string{"/", "/paths?since=24h", "/packets"} {
		r := ask(t, "GET", path, "Accept-Encoding", "gzip, br")
		text := read(t, r)
		if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != "text/html; charset=utf-8" ||
			!strings.HasPrefix(strings.ToLower(text), "<!doctype html>") {
			t.Errorf("%s: %s %v", path, r.Status, r.Header)
		}
		if plain := read(t, ask(t, "GET", path, "Accept-Encoding", "gzip;q=0")); plain != text {
			t.Errorf("%s: what is not compressed is %q", path, plain)
		}
		if regexp.MustCompile(`(?i)<style|style=|<script[^>]*>[^<]|\son[a-z]+=|https?://`).MatchString(text) {
			t.Errorf("%s has something inline, or of another site: %s", path, text)
		}
		p := r.Header.Get("Content-Security-Policy")
		if !strings.Contains(p, "default-src 'none'") || strings.Contains(p, "unsafe") || r.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %v", path, r.Header)
		}
		names := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(text, -1)
		if len(names) < 3 {
			t.Fatalf("%s names %v", path, names)
		}
		for _, name := range names {
			r := ask(t, "GET", name[1], "Accept-Encoding", "gzip")
			if r.StatusCode != http.StatusOK || !strings.Contains(r.Header.Get("Cache-Control"), "immutable") ||
				r.Header.Get("Content-Encoding") != "gzip" ||
				read(t, r) == "" {
				t.Errorf("%s: %s %v", name[1], r.Status, r.Header)
			}
			again := ask(t, "GET", name[1], "If-None-Match", r.Header.Get("ETag"))
			if again.StatusCode != http.StatusNotModified || read(t, again) != "" {
				t.Errorf("%s: %s", name[1], again.Status)
			}
		}
	}
}

// An asset of another build must not be kept for ever under this one's address.
func TestOtherBuild(t *testing.T) {
	if r := ask(t, "GET", "/assets/console.js?v=0123456789abcdef"); r.StatusCode != http.StatusOK ||
		r.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("%s %v", r.Status, r.Header)
	}
}

func TestOthersAnswerTheRest(t *testing.T) {
	for _, r := range [][2]string{
		{"GET", "/v1/nothing"}, {"GET", "/v2"}, {"POST", "/"}, {"GET", "/assets/none.js"},
		{"GET", "/assets/manifest.json"}, {"GET", "/../go.mod"}, {"GET", "/index.html.gz"},
	} {
		if got := ask(t, r[0], r[1]); got.StatusCode != http.StatusNotFound {
			t.Errorf("%s %s: %s", r[0], r[1], got.Status)
		}
	}
	if r := ask(t, "HEAD", "/"); r.StatusCode != http.StatusOK || read(t, r) != "" || r.Header.Get("Content-Length") == "0" {
		t.Errorf("%s %v", r.Status, r.Header)
	}
}

// The whole console is small enough for a slow line.
func TestSize(t *testing.T) {
	c, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	whole := 0
	for _, a := range c.assets {
		whole += len(a.packed)
	}
	if whole > 250_000 {
		t.Errorf("%d bytes compressed, want at most 250,000", whole)
	}
	t.Logf("%d bytes compressed", whole)
}
