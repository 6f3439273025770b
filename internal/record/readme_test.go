// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// fenced is the text of a document between a line and the end of the fence.
func fenced(t *testing.T, path, begin string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), begin)
	content, _, closed := strings.Cut(rest, "```\n")
	if !ok || !closed {
		t.Fatalf("%s has no %q, or no end of it", path, begin)
	}
	return content
}

// The record in the README is one that the exporter wrote, except for line breaks, and
// the how-to shows the same one as text.
func TestShownRecord(t *testing.T) {
	shown := fenced(t, "../../README.md", "```json\n")
	var line bytes.Buffer
	if err := json.Compact(&line, []byte(shown)); err != nil {
		t.Fatal(err)
	}
	var r Trace
	if err := Unmarshal([]byte(shown), &r); err != nil {
		t.Fatal(err)
	}
	if written := AppendJSON(nil, &r); !bytes.Equal(written, line.Bytes()) {
		t.Errorf("README.md shows\n%s\nand the exporter writes\n%s", &line, written)
	}
	if text := fenced(t, "../../docs/how-to/trace-a-prefix.md", "where the packet leaves.\n\n```\n"); text != r.Text() {
		t.Errorf("the how-to shows\n%s\nand the exporter writes\n%s", text, r.Text())
	}
}
