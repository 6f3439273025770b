// SPDX-License-Identifier: Apache-2.0

// Package collectorapi asks a collector over its HTTP API, for the commands of all programs. What the API has is
// in docs/reference/collector-api.json.
package collectorapi

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
	"strings"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
)

// UsualURL is where a collector answers that has no other address in its file.
const UsualURL = "http://[::1]:4780"

const (
	// mostAnswer bounds an answer, in octets.
	mostAnswer = 256 << 20
	// mostFile bounds the files that flags name, in octets.
	mostFile = 1 << 20
	// mostTime is more than a collector takes for a question, unless it is told to take so long.
	mostTime = 10 * time.Minute
)

var (
	// ErrAbsent is the error when no collector answers at the address.
	ErrAbsent = errors.New("no collector answers")
	// ErrUnknown is the error when a collector answers, and does not know who asks.
	ErrUnknown = errors.New("it does not know who asks")
)

// Words are how whoever asks names what says which collector is asked. Errors say them.
type Words struct{ Address, CA, User, PasswordFile string }

// flagWords are those of commands.
var flagWords = Words{"--collector", "--ca", "--user", "--password-file"}

// Asked is a collector, and who asks it.
type Asked struct {
	Address        string
	CA             []byte // certificates in PEM of those who may sign that of the collector; nil: the system's
	User, Password string // "": nobody
	Words          Words
	Certificate    *x509.Certificate // the one that the collector must show, whoever signed it; nil: any that is trusted
}

// Client asks one collector.
type Client struct {
	of   Asked
	base *url.URL
	http *http.Client
	most int64 // octets of an answer

	shown atomic.Bool // the collector has shown the certificate that it must show
}

// Password is the one in the text of a file: its first line.
func Password(text []byte) string {
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSuffix(line, "\r")
}

func (a *Asked) url() (*url.URL, error) {
	base, err := url.Parse(a.Address)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" {
		return nil, commandline.Usagef("%s %q: want a URL, such as %s", a.Words.Address, a.Address, UsualURL)
	}
	return base, nil
}

var errNoCertificate = errors.New("there is no certificate in PEM")

// Client makes one.
func (a *Asked) Client() (*Client, error) {
	base, err := a.url()
	if err != nil {
		return nil, err
	}
	c := &Client{of: *a, base: base, most: mostAnswer}
	t := http.DefaultTransport.(*http.Transport).Clone()
	switch {
	case a.Certificate != nil:
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, VerifyConnection: c.verify}
	case a.CA != nil:
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(a.CA) {
			return nil, fmt.Errorf("%s: %w", a.Words.CA, errNoCertificate)
		}
		t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	c.http = &http.Client{Transport: t, Timeout: mostTime}
	return c, nil
}

// verify compares the certificate that is shown with the one that must be: it may be of another name, and signed by
// nobody known.
func (c *Client) verify(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 || !state.PeerCertificates[0].Equal(c.of.Certificate) {
		return errors.New("the certificate is not the one in the settings")
	}
	c.shown.Store(true)
	return nil
}

// Limit bounds answers otherwise than for commands: in octets, and in time.
func (c *Client) Limit(octets int64, time time.Duration) { c.most, c.http.Timeout = octets, time }

// Close ends connections that wait for another question.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// at is the address, as a terminal can show it.
func (c *Client) at() string { return record.Printable(c.base.Redacted()) }

// get asks for an answer in a format, json or csv. Only the caller closes it.
func (c *Client) get(ctx context.Context, path, format string, ask url.Values) (*http.Response, error) {
	to := c.base.JoinPath(path)
	if ask == nil {
		ask = url.Values{}
	}
	ask.Set("format", format)
	to.RawQuery = ask.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, err
	}
	if c.of.User != "" {
		request.SetBasicAuth(c.of.User, c.of.Password)
	}
	response, err := c.http.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, c.unreached(err)
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusUnauthorized {
		return nil, c.unknown()
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, c.most))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", c.at(), err)
	}
	var failed struct{ Error string }
	if json.Unmarshal(text, &failed) != nil || failed.Error == "" {
		if strings.Contains(string(text), "HTTP request to an HTTPS server") { // as Go's servers answer
			return nil, problem.New(fmt.Sprintf("%s answers over TLS only", c.at()), fmt.Sprintf("write https:// in %s", c.of.Words.Address))
		}
		return nil, problem.New(
			fmt.Sprintf("%s answers %s", c.at(), record.Printable(response.Status)),
			fmt.Sprintf("name the address of a collector's API with %s", c.of.Words.Address),
		)
	}
	if response.StatusCode == http.StatusBadRequest {
		return nil, commandline.Usage(refusal(failed.Error))
	}
	return nil, errors.New(problem.OneLine(failed.Error))
}

// Refusal is what a collector finds wrong in a question.
type Refusal struct {
	Parameter string // of the API; "": none in particular
	Reason    string // as it came from the network
}

// refusal reads one from a text of the API.
func refusal(text string) *Refusal {
	if rest, ok := strings.CutPrefix(text, "parameter "); ok {
		if name, reason, ok := strings.Cut(rest, ": "); ok {
			return &Refusal{Parameter: strings.Trim(name, `"`), Reason: reason}
		}
	}
	return &Refusal{Reason: text}
}

// Error says it in one line.
func (r *Refusal) Error() string {
	if r.Parameter == "" {
		return problem.OneLine(r.Reason)
	}
	return problem.OneLine("parameter " + r.Parameter + ": " + r.Reason)
}

// Ask reads an answer in JSON.
func (c *Client) Ask(ctx context.Context, path string, ask url.Values, into any) error {
	response, err := c.get(ctx, path, "json", ask)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(io.LimitReader(response.Body, c.most)).Decode(into); err != nil {
		return problem.Wrap(
			fmt.Errorf("the answer of %s is not that of a collector (%w)", c.at(), err),
			fmt.Sprintf("name another address with %s, or use a program of the same version", c.of.Words.Address),
		)
	}
	return nil
}

// Copied is what the headers of an answer say that it lacks.
type Copied struct {
	Cut  Cut
	Gaps string // how many times are missing; "": none
}

// Cut is why an answer is not whole; all is "" for one that is.
type Cut struct {
	Reason  string // the bound that cut it: limit, time or search
	Text    string // a sentence with what to do
	Problem string // without that; "" at collectors of earlier versions
}

// Copy writes an answer as it comes.
func (c *Client) Copy(ctx context.Context, path, format string, ask url.Values, to io.Writer) (Copied, error) {
	response, err := c.get(ctx, path, format, ask)
	if err != nil {
		return Copied{}, err
	}
	defer response.Body.Close()
	h := response.Header
	lacks := Copied{Cut{h.Get("Waymark-Cut-Reason"), h.Get("Waymark-Cut"), h.Get("Waymark-Cut-Problem")}, h.Get("Waymark-Gaps")}
	if _, err = io.Copy(to, io.LimitReader(response.Body, c.most)); err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return lacks, err
}
