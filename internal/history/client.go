// SPDX-License-Identifier: Apache-2.0

// Package history asks a collector what it has kept, over its HTTP API, and shows the answers to people. It knows
// the API by docs/reference/collector-api.json alone: the collector is another module, with cgo.
package history

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/inputfile"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
)

// UsualURL is where a collector answers that has no other address in its file.
const UsualURL = "http://[::1]:4780"

const (
	// mostAnswer bounds an answer, in octets.
	mostAnswer = 256 << 20
	// mostTime is more than a collector takes for a question, unless it is told to take so long.
	mostTime = 10 * time.Minute
)

// who says which collector is asked, and by whom.
type who struct{ address, ca, user, password string }

// client asks one collector.
type client struct {
	base *url.URL
	who  who
	http *http.Client
}

// mostFile bounds the files that flags name, in octets.
const mostFile = 1 << 20

func newClient(w who) (*client, error) {
	base, err := url.Parse(w.address)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" {
		return nil, commandline.Usagef("--collector %q: want a URL, such as %s", w.address, UsualURL)
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	if w.ca != "" {
		text, err := inputfile.Read(w.ca, mostFile)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--ca: %s has no certificate in PEM", w.ca)
		}
		t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	c := &client{base, w, &http.Client{Transport: t, Timeout: mostTime}}
	if w.user == "" {
		return c, nil
	}
	if w.password == "" {
		return nil, commandline.Usagef("--user needs --password-file")
	}
	text, err := inputfile.Read(w.password, mostFile)
	if err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	c.who.password = strings.TrimSuffix(line, "\r")
	return c, nil
}

// get asks for an answer in a format, json or csv. Nobody but the caller closes it.
func (c *client) get(ctx context.Context, path, format string, ask url.Values) (*http.Response, error) {
	to := c.base.JoinPath(path)
	ask.Set("format", format)
	to.RawQuery = ask.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, err
	}
	if c.who.user != "" {
		request.SetBasicAuth(c.who.user, c.who.password)
	}
	response, err := c.http.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var of *url.Error
		if errors.As(err, &of) {
			err = of.Err // without the address, which follows
		}
		return nil, fmt.Errorf("no collector answers at %s: %w; start one with 'waymark-collector run', or name its address with --collector", record.Printable(c.base.Redacted()), err)
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer response.Body.Close()
	var failed struct{ Error string }
	if err := json.NewDecoder(io.LimitReader(response.Body, mostAnswer)).Decode(&failed); err != nil || failed.Error == "" {
		if response.StatusCode == http.StatusUnauthorized {
			return nil, fmt.Errorf("%s wants to know who asks; give --user and --password-file", record.Printable(c.base.Redacted()))
		}
		return nil, fmt.Errorf("%s answers %s; name the address of a collector's API with --collector", record.Printable(c.base.Redacted()), record.Printable(response.Status))
	}
	text := oneLine(failed.Error)
	if response.StatusCode == http.StatusBadRequest {
		return nil, commandline.Usagef("%s", text)
	}
	return nil, errors.New(text)
}

// oneLine is a text of the collector that a terminal can show.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return strconv.QuoteToASCII(text)
	}
	return text
}

// ask reads an answer in JSON.
func (c *client) ask(ctx context.Context, path string, ask url.Values, into any) error {
	response, err := c.get(ctx, path, "json", ask)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(io.LimitReader(response.Body, mostAnswer)).Decode(into); err != nil {
		return fmt.Errorf("the answer of %s is not that of a collector (%w); name another address with --collector, or use a program of the same version", record.Printable(c.base.Redacted()), err)
	}
	return nil
}

// copy writes an answer as it comes, and returns the part of its headers that says what it lacks.
func (c *client) copy(ctx context.Context, path, format string, ask url.Values, to io.Writer) (a answer, err error) {
	response, err := c.get(ctx, path, format, ask)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	if text := response.Header.Get("Waymark-Cut"); text != "" {
		a.Cut = &cut{Text: text}
	}
	if n := response.Header.Get("Waymark-Gaps"); n != "" {
		a.missing = n
	}
	if _, err = io.Copy(to, io.LimitReader(response.Body, mostAnswer)); err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return a, err
}

// The answers, as far as tables show them.
type (
	answer struct {
		From, Until time.Time
		Gaps        []struct{ From, Until time.Time }
		Cut         *cut
		missing     string // number of gaps of an answer in CSV
	}
	cut  struct{ Text string }
	node struct {
		Node     string  `json:"node"`
		Exporter string  `json:"exporter"`
		ID       *uint64 `json:"node_id"`
	}
	iface struct {
		Index uint32 `json:"index"`
		Name  string `json:"name"`
	}
	delays struct {
		P50 int64 `json:"p50_ns"`
		P95 int64 `json:"p95_ns"`
		P99 int64 `json:"p99_ns"`
		Max int64 `json:"max_ns"`
	}

	paths struct {
		answer
		Packets uint64
		Paths   []path
	}
	path struct {
		Complete   bool
		Packets    uint64
		Share      float64
		Incomplete uint64
		Lost       uint64
		Delay      *delays
		Negative   uint64 `json:"delay_negative"`
		Hops       []hop
	}
	hop struct {
		node
		Ingress, Egress *iface
		Hops            *int
		Held, Since     *delays
		Negative        uint64 `json:"since_negative"`
	}

	changes struct {
		answer
		Changes []change
	}
	change struct {
		Time, Before        time.Time
		Source, Destination string
		Moved               float64
		Was, Became         []share
	}
	share struct {
		Nodes []node
		Share float64
		Delay *int64 `json:"delay_mean_ns"`
	}

	segments struct {
		answer
		Segments []segment
	}
	segment struct {
		From            node
		To              *node
		Egress, Ingress *iface
		measured
		Baseline *measured
	}
	measured struct {
		Packets, Lost uint64
		Held, Link    *delays
		Negative      uint64 `json:"link_negative"`
	}

	grid struct {
		answer
		Pairs []pair
	}
	pair struct {
		From          node
		To            *node
		Packets, Lost uint64
		Paths         uint64
		Delay         *delays
		Negative      uint64 `json:"delay_negative"`
	}

	packets struct {
		answer
		Packets []packet
	}
	packet struct {
		Time            time.Time
		FlowID          *uint32 `json:"flow_id"`
		Sequence        *uint32
		From            string  `json:"source_address"`
		To              string  `json:"destination_address"`
		NextHeader      uint8   `json:"next_header"`
		SourcePort      *uint16 `json:"source_port"`
		DestinationPort *uint16 `json:"destination_port"`
		Length          uint32
		Reason, Verdict string
		Delay           *int64 `json:"delay_ns"`
		Nodes           []packetNode
	}
	packetNode struct {
		node
		Role            string
		Ingress, Egress *iface
		HopLimit        *uint8        `json:"hop_limit"`
		Time            *instant.Time `json:"timestamp"`
		Since           *int64        `json:"since_previous_ns"`
		Held            *int64        `json:"held_ns"`
		Queue           *uint32       `json:"queue_depth"`
		ClockError      *int64        `json:"clock_error_ns"`
	}

	losses struct {
		answer
		Flows []flowLoss
		Edges []edgeLoss `json:"edge_flows"`
	}
	flowLoss struct {
		Flow       string
		FlowID     int64 `json:"flow_id"`
		Scope      string
		From, To   int64
		FromNode   string `json:"from_node"`
		ToNode     string `json:"to_node"`
		Blocks     uint64
		Uncertain  uint64 `json:"blocks_uncertain"`
		Sent, Lost uint64
		Ratio      *float64
	}
	edgeLoss struct {
		Node, Source, Destination string
		Packets                   int64
		Lost                      *int64
		Unknown                   int64
		Duplicates, Reordered     int64
	}
)
