// SPDX-License-Identifier: Apache-2.0

package otlpsink

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"strconv"
	"time"

	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/internal/yamlfile"
	"github.com/waymark-net/waymark/ioam"
)

// Settings configure a sink of kind otlp.
type Settings struct {
	Endpoint    Endpoint         `key:"endpoint" optional:"true"`
	Slower      *SlowLimit       `key:"slower-than" optional:"true"`
	OneIn       *OneIn           `key:"one-in" optional:"true"`
	Metrics     *yamlfile.Period `key:"metrics-interval" optional:"true"`
	Compression Compression      `key:"compression" optional:"true"`
	Headers     string           `key:"headers-file" optional:"true"`
}

// KeyTexts say what the keys of the settings mean.
var KeyTexts = yamlfile.KeyTexts{
	"endpoint": "Of otlp: where OTLP/HTTP is received, as http://HOST:PORT or https://HOST:PORT, whose certificate the " +
		"system's authorities must have signed. Without a port it is 4318. Requests go to /v1/traces, /v1/logs and " +
		"/v1/metrics below it.",
	"endpoint, absent":         "required with otlp",
	"slower-than":              "Of otlp: paths of packets that took at least this long are traces.",
	"slower-than, absent":      "none",
	"one-in":                   "Of otlp: one in this many paths is a trace, besides the slow and the incomplete ones, which always are.",
	"one-in, absent":           "none",
	"metrics-interval":         "Of otlp: how often all metrics of /metrics are sent, histograms as exponential histograms.",
	"metrics-interval, absent": "no metrics",
	"compression":              "Of otlp: gzip compresses requests.",
	"compression, absent":      "none",
	"headers-file": "Of otlp: a file with a line for each header that requests have, such as Authorization: Bearer " +
		"TOKEN. Only its owner may read it. It is read for each request, so that a token can be replaced.",
	"headers-file, absent": "no headers",
}

// Compression is how requests are compressed.
type Compression string

// The ways to compress; NoCompression is none.
const (
	NoCompression Compression = ""
	Gzip          Compression = "gzip"
)

// Endpoint is a URL; "" is none.
type Endpoint string

// SlowLimit is a time that a packet took.
type SlowLimit time.Duration

// OneIn is the n of one in n.
type OneIn uint32

const (
	usualPort = 4318
	mostOneIn = 1_000_000_000
	mostSlow  = 10 * time.Minute
)

// Scalars read and write the settings' own types.
var Scalars = yamlfile.Scalars{
	reflect.TypeFor[Endpoint](): yamlfile.NewCodec(
		yamlfile.Text,
		"a URL such as http://[2001:db8::1]:4318 or https://otel.example.net",
		parseEndpoint,
		func(e Endpoint) string { return string(e) },
	),
	reflect.TypeFor[SlowLimit](): yamlfile.NewCodec(
		yamlfile.Text,
		"a time from 1us to 10m, such as 5ms",
		parseSlow,
		func(d SlowLimit) string { return yamlfile.FormatPeriod(d) },
	),
	reflect.TypeFor[OneIn](): yamlfile.NewCodec(
		yamlfile.Number,
		fmt.Sprintf("a number from 1 to %d", mostOneIn),
		parseOneIn,
		func(n OneIn) string { return strconv.Itoa(int(n)) },
	),
	reflect.TypeFor[Compression](): yamlfile.Words(
		yamlfile.Word[Compression]{Name: "none", Value: NoCompression},
		yamlfile.Word[Compression]{Name: "gzip", Value: Gzip},
	),
}

func parseEndpoint(s string) (Endpoint, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "", fmt.Errorf("%q is not a URL of OTLP/HTTP", s)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("%q has more than a host, a port and a path", s)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", fmt.Errorf("%q is no port", port)
		}
	}
	return Endpoint(s), nil
}

func parseSlow(s string) (SlowLimit, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Microsecond || d > mostSlow {
		return 0, fmt.Errorf("%q is not possible", s)
	}
	return SlowLimit(d), nil
}

func parseOneIn(s string) (OneIn, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n < 1 || n > mostOneIn {
		return 0, fmt.Errorf("%s is not possible", s)
	}
	return OneIn(n), nil
}

// url is the endpoint with its port.
func (e Endpoint) url() *url.URL {
	u, err := url.Parse(string(e))
	if err != nil {
		return &url.URL{}
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), strconv.Itoa(usualPort))
	}
	return u
}

// SetDefaults has none to fill in.
func (s *Settings) SetDefaults(*ioam.NodeID) {}

// Place is the endpoint.
func (s *Settings) Place() (text, key string) {
	return strconv.Quote(s.Endpoint.url().String()), "endpoint"
}

// Check wants an endpoint.
func (s *Settings) Check(path string, add func(path, problem, cure string)) {
	if s.Endpoint == "" {
		add(path+".endpoint", "otlp needs an endpoint", "write endpoint: http://HOST:4318")
	}
}

// Files lists what is wrong with the file of headers.
func (s *Settings) Files() []sink.FileFault {
	if s.Headers == "" {
		return nil
	}
	_, err := readHeaders(s.Headers)
	if err == nil {
		return nil
	}
	text, cure := problem.Of(err)
	return []sink.FileFault{{Key: "headers-file", Unread: errors.Unwrap(err), Problem: text, Cure: cure}}
}

// Remote is the endpoint's host.
func (s *Settings) Remote() *sink.Remote {
	u := s.Endpoint.url()
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		return nil // without an endpoint, which is reported elsewhere
	}
	return &sink.Remote{
		Host:     u.Hostname(),
		Port:     uint16(port),
		Protocol: ioam.NextHeaderTCP,
		Clear:    u.Scheme == "http",
		Text:     string(s.Endpoint),
	}
}

// DependsOnNode is false.
func (s *Settings) DependsOnNode() bool { return false }

// Open makes the sink.
func (s *Settings) Open(_ ioam.NodeID, env sink.Environment) (sink.Sink, error) {
	c := Config{Endpoint: s.Endpoint.url(), Headers: s.Headers, Gzip: s.Compression == Gzip}
	if s.Slower != nil {
		c.Slower = time.Duration(*s.Slower)
	}
	if s.OneIn != nil {
		c.OneIn = uint64(*s.OneIn)
	}
	if s.Metrics != nil {
		c.Metrics = time.Duration(*s.Metrics)
	}
	return New(c, env), nil
}
