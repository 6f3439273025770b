// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// The committed picture is what this program draws from the committed record.
func TestCommittedPicture(t *testing.T) {
	const base = "../../docs/path"
	line, err := os.ReadFile(base + ".json")
	if err != nil {
		t.Fatal(err)
	}
	path, err := choose(bytes.NewReader(line))
	if err != nil {
		t.Fatal(err)
	}
	drawn := draw(path)
	if committed, err := os.ReadFile(base + ".svg"); err != nil || !bytes.Equal(committed, drawn) {
		t.Errorf("docs/path.svg is not current (%v); run: go run ./scripts/picture docs/path < docs/path.json", err)
	}
	decoder := xml.NewDecoder(bytes.NewReader(drawn))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("not XML: %v", err)
		}
	}
	for _, n := range path.Nodes {
		if !strings.Contains(string(drawn), n.Node) {
			t.Errorf("%s is not drawn", n.Node)
		}
	}
}

// Traces, incomplete paths and paths without times are skipped.
func TestChoose(t *testing.T) {
	line, err := os.ReadFile("../../docs/path.json")
	if err != nil {
		t.Fatal(err)
	}
	good := string(line)
	other := `{"kind":"demo","traced":1}` + "\n"
	incomplete := strings.Replace(good, `"complete":true`, `"complete":false`, 1)
	if path, err := choose(strings.NewReader(other + incomplete + good)); err != nil || !path.Complete {
		t.Errorf("chose %v, %v", path, err)
	}
	if _, err := choose(strings.NewReader(other + incomplete)); err == nil {
		t.Error("an incomplete path was chosen")
	}
	if _, err := choose(strings.NewReader("{")); err == nil {
		t.Error("a broken line was accepted")
	}
}
