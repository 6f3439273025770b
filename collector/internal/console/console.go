// SPDX-License-Identifier: Apache-2.0

// Package console serves the collector's console: a page, its script and its styles, which are built from
// collector/console and are in the program. The page asks the API for everything that it shows.
package console

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/waymark-net/waymark/internal/problem"
)

//go:embed assets
var built embed.FS

// manifest is what the build wrote about the assets.
type manifest struct {
	Sources string `json:"sources"` // SHA-256 of what they were built from
	Files   []struct {
		Path, File, Type, Hash string
	} `json:"files"`
}

// asset is a file as it is served.
type asset struct {
	packed    []byte // gzip
	kind, tag string
	hash      string
	forEver   bool // a request with its hash never gets another content
}

// policy allows scripts and styles of the console alone: none in the page, none of others. What the API answers
// can become text only, because a browser that knows Trusted Types refuses to make anything else of it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// page is the file of every screen.
const page = "/index.html"

// screen is the path of a screen: which of them exist, the page knows.
var screen = regexp.MustCompile(`^/[a-z]*$`)

// Console is an http.Handler.
type Console struct {
	assets map[string]*asset
	other  http.Handler
}

// New reads the assets. other answers requests that are not for them.
func New(other http.Handler) (*Console, error) {
	data, err := built.ReadFile("assets/manifest.json")
	if err != nil {
		return nil, err
	}
	var m manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, problem.Wrap(fmt.Errorf("manifest of the console: %w", err), "run: make console-assets")
	}
	c := &Console{assets: map[string]*asset{}, other: other}
	for _, f := range m.Files {
		packed, err := built.ReadFile("assets/" + f.File)
		if err != nil {
			return nil, problem.Wrap(err, "run: make console-assets")
		}
		c.assets[f.Path] = &asset{packed: packed, kind: f.Type, tag: `"` + f.Hash + `"`, hash: f.Hash, forEver: f.Path != page}
	}
	if c.assets[page] == nil {
		return nil, problem.New("the console has no page", "run: make console-assets")
	}
	return c, nil
}

// find is the asset of a request; nil: it is for something else.
func (c *Console) find(r *http.Request) *asset {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil
	}
	if a := c.assets[r.URL.Path]; a != nil {
		return a
	}
	if screen.MatchString(r.URL.Path) {
		return c.assets[page]
	}
	return nil
}

// Serves reports whether a request is for the console. Links of other sites may lead to it: it has no data.
func (c *Console) Serves(r *http.Request) bool { return c.find(r) != nil }

func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := c.find(r)
	if a == nil {
		c.other.ServeHTTP(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Content-Type", a.kind)
	h.Set("Vary", "Accept-Encoding")
	h.Set("ETag", a.tag)
	h.Set("Cache-Control", "no-cache") // ask whether it is still the same
	if a.forEver && r.URL.RawQuery == "v="+a.hash {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if strings.Contains(r.Header.Get("If-None-Match"), a.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	content := a.packed
	if takesGzip(r.Header.Get("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
	} else if content = unpacked(a.packed); content == nil {
		http.Error(w, "the console is damaged; build it again", http.StatusInternalServerError)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(content)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(content) // fails when the client has gone
	}
}

// takesGzip reads Accept-Encoding (RFC 9110, section 12.5.3).
func takesGzip(accepts string) bool {
	for one := range strings.SplitSeq(accepts, ",") {
		name, parameters, err := mime.ParseMediaType(strings.TrimSpace(one))
		if err != nil || name != "gzip" && name != "*" {
			continue
		}
		weight, err := strconv.ParseFloat(parameters["q"], 64)
		return err != nil || weight > 0
	}
	return false
}

func unpacked(packed []byte) []byte {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil
	}
	content, err := io.ReadAll(z)
	if err != nil {
		return nil
	}
	return content
}
