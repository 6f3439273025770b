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
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/inputfile"
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

// ErrAbsent is the error when no collector answers at the address.
var ErrAbsent = errors.New("no collector answers")

// Flags say which collector is asked, and by whom.
type Flags struct{ Address, CA, User, PasswordFile string }

// Add adds them to a command.
func (f *Flags) Add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Address, "collector", UsualURL, "`URL` of the collector's API")
	flags.StringVar(&f.CA, "ca", "", "`FILE` of the authority that signed the collector's certificate (default: those of the system)")
	flags.StringVar(&f.User, "user", "", "`NAME` of a user of the collector; over plain http, the password is readable on the way")
	flags.StringVar(&f.PasswordFile, "password-file", "", "`FILE` with the user's password")
}

// Client asks one collector.
type Client struct {
	base           *url.URL
	user, password string
	http           *http.Client
}

// Client reads the files that the flags name.
func (f *Flags) Client() (*Client, error) {
	base, err := url.Parse(f.Address)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" {
		return nil, commandline.Usagef("--collector %q: want a URL, such as %s", f.Address, UsualURL)
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	if f.CA != "" {
		text, err := inputfile.Read(f.CA, mostFile)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--ca: %s has no certificate in PEM", f.CA)
		}
		t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	c := &Client{base: base, user: f.User, http: &http.Client{Transport: t, Timeout: mostTime}}
	if f.User == "" {
		return c, nil
	}
	if f.PasswordFile == "" {
		return nil, commandline.Usagef("--user needs --password-file")
	}
	text, err := inputfile.Read(f.PasswordFile, mostFile)
	if err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	c.password = strings.TrimSuffix(line, "\r")
	return c, nil
}

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
	if c.user != "" {
		request.SetBasicAuth(c.user, c.password)
	}
	response, err := c.http.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var of *url.Error
		if errors.As(err, &of) {
			err = of.Err // without the address, which the text has
		}
		return nil, fmt.Errorf(
			"%w at %s: %w; start one with 'waymark-collector run', or name its address with --collector",
			ErrAbsent,
			c.at(),
			err,
		)
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer response.Body.Close()
	var failed struct{ Error string }
	if err := json.NewDecoder(io.LimitReader(response.Body, mostAnswer)).Decode(&failed); err != nil || failed.Error == "" {
		if response.StatusCode == http.StatusUnauthorized {
			return nil, fmt.Errorf("%s wants to know who asks; give --user and --password-file", c.at())
		}
		return nil, fmt.Errorf("%s answers %s; name the address of a collector's API with --collector", c.at(), record.Printable(response.Status))
	}
	text := OneLine(failed.Error)
	if response.StatusCode == http.StatusBadRequest {
		return nil, commandline.Usagef("%s", text)
	}
	return nil, errors.New(text)
}

// OneLine is a text of the collector that a terminal can show.
func OneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return strconv.QuoteToASCII(text)
	}
	return text
}

// Ask reads an answer in JSON.
func (c *Client) Ask(ctx context.Context, path string, ask url.Values, into any) error {
	response, err := c.get(ctx, path, "json", ask)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(io.LimitReader(response.Body, mostAnswer)).Decode(into); err != nil {
		return fmt.Errorf(
			"the answer of %s is not that of a collector (%w); name another address with --collector, or use a program of the same version",
			c.at(),
			err,
		)
	}
	return nil
}

// Copied is what the headers of an answer say that it lacks.
type Copied struct {
	Cut  string // why it is not whole; "": it is
	Gaps string // how many times are missing; "": none
}

// Copy writes an answer as it comes.
func (c *Client) Copy(ctx context.Context, path, format string, ask url.Values, to io.Writer) (Copied, error) {
	response, err := c.get(ctx, path, format, ask)
	if err != nil {
		return Copied{}, err
	}
	defer response.Body.Close()
	lacks := Copied{response.Header.Get("Waymark-Cut"), response.Header.Get("Waymark-Gaps")}
	if _, err = io.Copy(to, io.LimitReader(response.Body, mostAnswer)); err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return lacks, err
}
