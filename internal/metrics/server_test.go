// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
)

// The server closes the connection of a client that does not read its answer, and serves others meanwhile.
func TestScraperThatNeverReads(t *testing.T) {
	t.Parallel()
	const size = 64 << 20 // more than both ends' buffers hold
	given := make(chan error, 1)
	pages := http.NewServeMux()
	pages.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		part := bytes.Repeat([]byte("x"), 1<<20)
		for range size / len(part) {
			if _, err := w.Write(part); err != nil {
				given <- err
				return
			}
		}
		given <- nil
	})
	pages.HandleFunc("/small", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "here") })
	s, err := Serve("[::1]:0", pages, func(_ *Server, err error) { t.Errorf("it ended by itself: %v", err) })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	conn, err := net.Dial("tcp", s.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET /large HTTP/1.1\r\nHost: %s\r\n\r\n", s.Address()); err != nil {
		t.Fatal(err)
	}
	answer, err := http.Get("http://" + s.Address() + "/small")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "here" {
		t.Errorf("another client got %q, %v", text, err)
	}
	select {
	case err := <-given:
		if err == nil {
			t.Error("the whole answer was written, although the client reads nothing")
		}
	case <-time.After(patience.Of(3 * requestTimeout)):
		t.Error("it still waits for the client")
	}
}
