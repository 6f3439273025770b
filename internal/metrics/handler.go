// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"compress/gzip"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// mostRequests is how many requests may be answered at a time, because each reads
// all counters.
const mostRequests = 4

// The formats.
const (
	textFormat     = "text/plain; version=0.0.4; charset=utf-8"
	protobufFormat = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
)

// Handler answers with the metrics of the sources, in the format that the client prefers: the text
// format, or the protobuf format with native histograms.
func Handler(sources ...func(*Gatherer)) http.Handler {
	places := make(chan struct{}, mostRequests)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		default:
			http.Error(w, fmt.Sprintf("%d requests are being answered; try again later", mostRequests), http.StatusServiceUnavailable)
			return
		}
		var g Gatherer
		for _, source := range sources {
			source(&g)
		}
		format, answer := textFormat, []byte(nil)
		if prefersProtobuf(r) {
			format, answer = protobufFormat, g.protobuf()
		} else {
			answer = g.text()
		}
		w.Header().Set("Content-Type", format)
		if !acceptsGzip(r) {
			w.Write(answer) // an error means that the client is gone
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		z.Write(answer)
		z.Close()
	})
}

func acceptsGzip(r *http.Request) bool {
	for _, part := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		if coding, weight, _ := strings.Cut(strings.TrimSpace(part), ";"); coding == "gzip" {
			return strings.TrimSpace(weight) != "q=0"
		}
	}
	return false
}

// prefersProtobuf reports whether a client prefers the protobuf format to the text format, as a
// Prometheus does that scrapes native histograms. Of equal weights, the first one counts; other formats are
// not written here (RFC 9110 §12.5.1).
func prefersProtobuf(r *http.Request) bool {
	best, protobuf := 0.0, false
	for _, part := range strings.Split(strings.Join(r.Header.Values("Accept"), ","), ",") {
		media, parameters, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		weight := 1.0
		if q, ok := parameters["q"]; ok {
			if weight, err = strconv.ParseFloat(q, 64); err != nil {
				continue
			}
		}
		is := media == "application/vnd.google.protobuf" &&
			parameters["proto"] == "io.prometheus.client.MetricFamily" && parameters["encoding"] == "delimited"
		if weight > best && (is || media == "text/plain" || media == "text/*" || media == "*/*") {
			best, protobuf = weight, is
		}
	}
	return protobuf
}
